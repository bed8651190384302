// The primes of the random test. Each is p < 2^31 with p ≡ 7 (mod 8), so that −1 is not a
// square, and every prime up to 31 is a square modulo p: square roots of positive rationals
// with small factors (the constants that come from dims) then follow the signs of the reals.
#pragma once

#include <array>
#include <cstdint>

namespace tenon::verifier {

inline constexpr std::uint32_t kLargestSmallResidue = 31;
inline constexpr std::array<std::uint32_t, 16> kPrimes = {
    2147481311, 2147424551, 2147366399, 2147260631, 2147161799, 2147143631, 2147072639, 2146973351,
    2146780919, 2146719119, 2146664519, 2146607399, 2146517831, 2146496351, 2146303871, 2146300679};

}  // namespace tenon::verifier
