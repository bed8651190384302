// The parts of the evaluator that do not depend on the domain.
#include "ir/evaluate.h"

#include <fmt/format.h>

namespace tenon::ir {

std::int64_t element_count(const Axes& axes, const Extents& extents) {
  std::int64_t count = 1;
  for (const Axis& axis : axes) {
    TENON_CHECK(axis.dim < extents.size(), "an extent per dim");
    if (__builtin_mul_overflow(count, extents[axis.dim], &count) || count > (std::int64_t{1} << 62))
      throw UserError(
          fmt::format("a tensor has more than 2^62 elements at extent {}", extents[axis.dim]));
  }
  return count;
}

namespace detail {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

namespace {
// Part `i` of the range [begin, end) cut into shares of `share` elements.
Range cut(std::int64_t begin, std::int64_t end, std::int64_t share, std::int64_t i) {
  return {std::min(end, begin + i * share), std::min(end, begin + (i + 1) * share), 0, 1};
}
}  // namespace

Range part_range(std::int64_t extent, AxisMap map, std::int64_t blocks, std::int64_t block,
                 std::int64_t steps, std::int64_t step, bool dim_in_grid) {
  TENON_CHECK(blocks > 0 && steps > 0, "a partition has at least one part");
  std::int64_t share = dim_in_grid ? ceil_div(extent, blocks) : extent;
  Range range{0, extent, 0, 1};
  if (map.part & kGrid) range = cut(0, extent, share, block);
  if (map.part & kLoop) range = cut(range.begin, range.end, ceil_div(share, steps), step);
  range.modulus = std::max<std::int64_t>(extent, 1);
  range.rotate = ((map.shift * share) % range.modulus + range.modulus) % range.modulus;
  return range;
}

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t count = 1;
  for (std::int64_t e : extents)
    if (__builtin_mul_overflow(count, e, &count))
      throw UserError("a value has more than 2^63 elements");
  return count;
}

std::vector<std::int64_t> strides_along(const Axes& axes, const std::vector<std::int64_t>& extents,
                                        const Axes& along) {
  std::vector<std::int64_t> own(axes.size(), 1);
  for (std::size_t i = axes.size(); i-- > 1;) own[i - 1] = own[i] * extents[i];
  std::vector<std::int64_t> strides;
  for (const Axis& axis : along) {
    int i = find_dim(axes, axis.dim);
    strides.push_back(i < 0 ? 0 : own[static_cast<std::size_t>(i)]);
  }
  return strides;
}

void check_inputs(const Signature& signature, const Extents& extents, std::size_t count) {
  TENON_CHECK(count == signature.inputs.size(), "one value per input of the signature");
  TENON_CHECK(extents.size() == signature.dims.size(), "one extent per dim");
  for (const ProgramInput& in : signature.inputs) element_count(in.axes, extents);
  for (const Axes& axes : signature.output_axes) element_count(axes, extents);
}

}  // namespace detail

}  // namespace tenon::ir
