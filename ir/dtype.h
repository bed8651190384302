// Element types. `kElem` is symbolic: the dtype that the workload binds, so that
// one program or µGraph serves bf16, fp16 and fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::ir {

enum class DType : std::uint8_t { kElem, kF32, kBF16, kF16 };

// Text names: "T" (kElem), "fp32", "bf16", "fp16".
std::string_view name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view text);

// Bytes of one element. `dtype` must not be kElem.
std::size_t size_of(DType dtype);

// `dtype` with kElem replaced by `elem`.
inline DType bind(DType dtype, DType elem) { return dtype == DType::kElem ? elem : dtype; }

// The nearest value of `dtype` to `x` (round to nearest even, overflow to Inf,
// NaN stays NaN), as a float. `dtype` must not be kElem.
float round_to(DType dtype, float x);

// Bit patterns of the 16-bit types.
std::uint16_t to_bits16(DType dtype, float x);
float from_bits16(DType dtype, std::uint16_t bits);

// The unit u of the numeric contract (design.md): 2^-9, 2^-12, 2^-18.
double unit_roundoff(DType dtype);

}  // namespace tenon::ir
