// The adversarial inputs of numeric acceptance (design.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/workload.h"
#include "measure/reference.h"

namespace tenon::measure {

enum class Family : std::uint8_t {
  kNormal,
  kHeavyTailed,      // Student's t with 3 degrees of freedom
  kOutlierChannels,  // one column in 64 is 1000 times larger
  kMean100,          // 100 σ + σ z
  kMean1000,
  kTiny,            // 1e-6 z
  kZeroRow,         // every third row is zero
  kNanRow,          // one row holds a NaN, another an Inf
  kHostileWeights,  // normal activations, parameters over a large dynamic range
};
const std::vector<Family>& families();
std::string name(Family family);
bool hostile_weights(Family family);

// Parameters in signature order (activations are left empty), representable in their types.
std::vector<Tensor> make_parameters(const ir::Workload& workload, bool hostile, std::uint64_t seed);

// Activations in signature order (parameters are left empty) at `extents`.
std::vector<Tensor> make_activations(const ir::Workload& workload, const ir::Extents& extents,
                                     Family family, std::uint64_t seed);

// Activation `which` has one 1 in each row, at position positions[row] of its last axis (rows
// beyond them repeat the last); other activations are zero.
std::vector<Tensor> make_one_hot(const ir::Workload& workload, const ir::Extents& extents,
                                 std::size_t which, const std::vector<std::int64_t>& positions);

// Positions of the last axis worth a one-hot row: both sides of every multiple of each of
// `steps`, the ends, powers of two, and a dense sample; at most `limit`, boundaries first.
std::vector<std::int64_t> one_hot_positions(std::int64_t extent,
                                            const std::vector<std::int64_t>& steps,
                                            std::size_t limit);

}  // namespace tenon::measure
