// Timing that hardware may have but seldom does, written into a kernel's text. A kernel whose
// synchronization is right computes the same under all of them; one that lacks a wait, and was
// right only because a copy happened to be early, does not.
#pragma once

#include <string>

namespace tenon::test {

enum class Delay {
  // Bulk copies are asked for late, and their barriers are made late, where others seem to be.
  kLateCopies,
  // After a wait or a barrier every warp rests, each for another time; most of a split reduction's
  // first share is written late, and some rows' sums are published late.
  kSlowWarps,
};
inline constexpr Delay kDelays[] = {Delay::kLateCopies, Delay::kSlowWarps};
const char* name(Delay delay);

// `flat` is what flatten() made, or a mutant of it.
std::string delayed(const std::string& flat, Delay delay);

}  // namespace tenon::test
