// JSON of dense values: {"shape": [..], "data": [..]}, row-major.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "ir/program.h"

namespace tenon::verifier {

inline nlohmann::json number_json(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}
inline nlohmann::json number_json(std::uint32_t v) { return v; }

template <class S>
nlohmann::json values_json(const ir::Values<S>& v) {
  nlohmann::json data = nlohmann::json::array();
  for (const S& x : v.data) data.push_back(number_json(x));
  return {{"shape", v.extents}, {"data", data}};
}

template <class S>
nlohmann::json inputs_json(const ir::Signature& signature,
                           const std::vector<ir::Values<S>>& values) {
  nlohmann::json out = nlohmann::json::object();
  for (std::size_t i = 0; i < values.size(); ++i)
    out[signature.inputs[i].name] = values_json(values[i]);
  return out;
}

template <class S>
nlohmann::json outputs_json(const ir::Signature& signature,
                            const std::vector<ir::Values<S>>& values) {
  nlohmann::json out = nlohmann::json::object();
  for (std::size_t i = 0; i < values.size(); ++i)
    out[signature.outputs[i].name] = values_json(values[i]);
  return out;
}

}  // namespace tenon::verifier
