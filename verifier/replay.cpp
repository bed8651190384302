#include "verifier/replay.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "ir/roots.h"
#include "verifier/units.h"
#include "verifier/values_json.h"

namespace tenon::verifier {

namespace {

// Two float64 evaluations of one formula at small dims agree to far better than this,
// relative to the largest element of the output.
constexpr double kRoundingOnly = 1e-7;

bool all_finite(const std::vector<RealValues>& values) {
  for (const RealValues& v : values)
    for (double x : v.data)
      if (!std::isfinite(x)) return false;
  return true;
}

Element first_difference(const std::vector<RealValues>& expected,
                         const std::vector<RealValues>& actual) {
  for (std::size_t o = 0; o < expected.size(); ++o) {
    double scale = 0;
    for (double x : expected[o].data) scale = std::max(scale, std::fabs(x));
    for (std::size_t e = 0; e < expected[o].data.size(); ++e)
      if (!(std::fabs(expected[o].data[e] - actual[o].data[e]) <= kRoundingOnly * scale))
        return {static_cast<int>(o), static_cast<std::int64_t>(e)};
  }
  return {};
}

}  // namespace

RealInputs random_reals(const ir::Program& program, const ir::Extents& extents,
                        std::uint64_t seed) {
  const ir::Signature& signature = program.signature;
  const std::vector<bool> under_root = ir::inputs_under_roots(program);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> positive(0.5, 2.0);
  RealInputs out;
  for (const ir::ProgramInput& in : signature.inputs) {
    RealValues v{in.axes, input_extents(in, extents), {}};
    v.data.resize(static_cast<std::size_t>(ir::element_count(in.axes, extents)));
    const bool magnitude = under_root[out.values.size()];
    for (double& x : v.data) x = magnitude ? std::fabs(normal(random)) : normal(random);
    out.values.push_back(std::move(v));
  }
  for (const auto& [name, value] : signature.attributes) out.attributes[name] = positive(random);
  return out;
}

Replay replay(const ir::Program& program, const ir::MuGraph& graph, const ScaledDims& dims,
              const RealInputs& inputs) {
  Replay out;
  ir::DoubleDomain domain(inputs.attributes);
  out.program = ir::evaluate(program, dims.extents, domain, inputs.values);
  out.comparable = all_finite(out.program);
  if (!out.comparable) return out;
  out.graph = ir::evaluate(graph, dims.extents, dims.partition, domain, inputs.values);
  out.difference = first_difference(out.program, out.graph);
  return out;
}

Agreement compare_at_random(const ir::Program& program, const ir::MuGraph& graph,
                            const ScaledDims& dims, std::uint64_t seed, int points) {
  Agreement out;
  const int attempts = 4 * points;
  std::mt19937_64 random(seed);
  for (int i = 0; i < attempts && out.compared < points; ++i) {
    RealInputs inputs = random_reals(program, dims.extents, random());
    Replay r = replay(program, graph, dims, inputs);
    if (!r.comparable) continue;
    ++out.compared;
    if (!r.difference.found()) continue;
    out.inputs = std::move(inputs);
    out.replay = std::move(r);
    break;
  }
  return out;
}

std::string element_name(const ir::Signature& signature, const ir::Extents& extents,
                         const Element& element) {
  const auto o = static_cast<std::size_t>(element.output);
  const ir::Axes& axes = signature.output_axes[o];
  std::vector<std::int64_t> index(axes.size());
  std::int64_t rest = element.flat;
  for (std::size_t a = axes.size(); a-- > 0;) {
    index[a] = rest % extents[axes[a].dim];
    rest /= extents[axes[a].dim];
  }
  return fmt::format("{}[{}]", signature.outputs[o].name, fmt::join(index, ", "));
}

std::string counterexample_json(const ir::Signature& signature, const ScaledDims& dims,
                                const RealInputs& inputs, const Replay& result) {
  nlohmann::json out{
      {"domain", "float64"},
      {"dims", nlohmann::json::parse(extents_json(signature, dims.extents))},
      {"partition", nlohmann::json::parse(partition_json(signature, dims.partition))},
      {"attributes", inputs.attributes},
      {"inputs", inputs_json(signature, inputs.values)},
      {"program", outputs_json(signature, result.program)},
      {"mugraph", outputs_json(signature, result.graph)}};
  if (result.difference.found()) {
    const auto o = static_cast<std::size_t>(result.difference.output);
    const auto e = static_cast<std::size_t>(result.difference.flat);
    out["element"] = {{"name", element_name(signature, dims.extents, result.difference)},
                      {"program", number_json(result.program[o].data[e])},
                      {"mugraph", number_json(result.graph[o].data[e])}};
  }
  return out.dump();
}

}  // namespace tenon::verifier
