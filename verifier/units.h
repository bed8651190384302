// Units: the pieces of the inputs that the random test draws, and redraws, on their own.
// An activation is cut into slices along its row axis, a one-dimensional parameter into its
// elements; every other input and every attribute is one unit.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "ir/program.h"

namespace tenon::verifier {

inline constexpr std::size_t kMaxUnits = 256;
using UnitSet = std::bitset<kMaxUnits>;

class UnitMap {
 public:
  UnitMap(const ir::Signature& signature, const ir::Extents& extents);

  int count() const { return count_; }  // may exceed kMaxUnits: then the map is not usable
  // The unit of element `flat` (row-major) of input `i`.
  int unit(std::size_t input, std::int64_t flat) const;
  int attribute_unit(const std::string& name) const;
  std::int64_t elements(int unit) const { return elements_[static_cast<std::size_t>(unit)]; }
  // Larger is better to redraw when a root of it is undefined.
  int preference(int unit) const { return preference_[static_cast<std::size_t>(unit)]; }

 private:
  struct InputUnits {
    int first = 0;
    bool sliced = false;
    std::int64_t stride = 1, extent = 1;  // of the sliced axis
  };
  int add(std::int64_t elements, int preference);

  std::vector<InputUnits> inputs_;
  std::vector<std::string> attributes_;
  int first_attribute_ = 0, count_ = 0;
  std::vector<std::int64_t> elements_;
  std::vector<int> preference_;
};

// Row-major storage of an input at `extents`.
std::vector<std::int64_t> input_extents(const ir::ProgramInput& input, const ir::Extents& extents);

}  // namespace tenon::verifier
