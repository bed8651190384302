#include "verifier/units.h"

#include "ir/error.h"

namespace tenon::verifier {

namespace {

enum Preference : int {
  kAttribute = 0,
  kWholeParameter = 1,
  kParameterElement = 2,
  kActivation = 3
};

// The axis along which an activation is sliced: its first one that some output has too, so
// that a slice is a row of the result.
std::size_t row_axis(const ir::ProgramInput& input, const ir::Signature& signature) {
  for (std::size_t a = 0; a < input.axes.size(); ++a)
    for (const ir::Axes& out : signature.output_axes)
      if (ir::find_dim(out, input.axes[a].dim) >= 0) return a;
  return 0;
}

}  // namespace

std::vector<std::int64_t> input_extents(const ir::ProgramInput& input, const ir::Extents& extents) {
  std::vector<std::int64_t> out;
  for (const ir::Axis& axis : input.axes) out.push_back(extents[axis.dim]);
  return out;
}

UnitMap::UnitMap(const ir::Signature& signature, const ir::Extents& extents) {
  for (const ir::ProgramInput& in : signature.inputs) {
    InputUnits units;
    units.first = count_;
    const std::int64_t all = ir::element_count(in.axes, extents);
    const bool activation = in.role == ir::Role::kActivation;
    units.sliced = !in.axes.empty() && (activation || in.axes.size() == 1);
    if (!units.sliced) {
      add(all, activation ? kActivation : kWholeParameter);
    } else {
      const std::size_t axis = activation ? row_axis(in, signature) : 0;
      units.extent = extents[in.axes[axis].dim];
      for (std::size_t a = axis + 1; a < in.axes.size(); ++a)
        units.stride *= extents[in.axes[a].dim];
      for (std::int64_t i = 0; i < units.extent; ++i)
        add(all / units.extent, activation ? kActivation : kParameterElement);
    }
    inputs_.push_back(units);
  }
  first_attribute_ = count_;
  for (const auto& [name, value] : signature.attributes) {
    attributes_.push_back(name);
    add(1, kAttribute);
  }
}

int UnitMap::add(std::int64_t elements, int preference) {
  elements_.push_back(elements);
  preference_.push_back(preference);
  return count_++;
}

int UnitMap::unit(std::size_t input, std::int64_t flat) const {
  const InputUnits& u = inputs_[input];
  return u.sliced ? u.first + static_cast<int>(flat / u.stride % u.extent) : u.first;
}

int UnitMap::attribute_unit(const std::string& name) const {
  for (std::size_t i = 0; i < attributes_.size(); ++i)
    if (attributes_[i] == name) return first_attribute_ + static_cast<int>(i);
  throw InternalError("attribute " + name + " is not the program's");
}

}  // namespace tenon::verifier
