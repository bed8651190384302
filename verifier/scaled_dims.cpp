#include "verifier/scaled_dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace tenon::verifier {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Lengths of the non-empty parts of `extent` cut into shares of `share`.
struct Cut {
  std::int64_t parts, last;
};
Cut cut(std::int64_t extent, std::int64_t share) {
  std::int64_t parts = ceil_div(extent, share);
  return {parts, extent - share * (parts - 1)};
}

bool good_cut(std::int64_t extent, std::int64_t parts, bool whole_steps) {
  std::int64_t share = ceil_div(extent, parts);
  Cut c = cut(extent, share);
  return c.parts == parts && share >= 2 && (whole_steps || c.last < share);
}

constexpr std::int64_t kLargestRagged = 9;  // of a proof: beyond it whole parts are accepted

bool contains(const std::vector<std::int64_t>& v, std::int64_t x) {
  return std::find(v.begin(), v.end(), x) != v.end();
}

// Dims that are cut twice come first: they need the most room; then loops, whose dims are summed.
std::vector<std::size_t> by_need(const std::vector<DimUse>& uses) {
  std::vector<std::size_t> order(uses.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    auto need = [&](std::size_t d) { return 4 * uses[d].both + 2 * uses[d].loop + uses[d].grid; };
    return need(a) > need(b);
  });
  return order;
}

double tile_size(const ir::Axes& axes, const ScaledDims& dims) {
  double size = 1;
  for (const ir::Axis& axis : axes) {
    double e = static_cast<double>(dims.extents[axis.dim]);
    if (axis.part & ir::kGrid)
      e = std::ceil(e / static_cast<double>(dims.partition.grid[axis.dim]));
    if (axis.part & ir::kLoop)
      e = std::ceil(e / static_cast<double>(dims.partition.loop[axis.dim]));
    size *= e;
  }
  return size;
}

double graph_work(const ir::Graph& graph, const ScaledDims& dims) {
  double total = 0;
  for (const ir::GraphInput& in : graph.inputs()) total += tile_size(in.axes, dims);
  for (const ir::Node& node : graph.nodes()) {
    double size = tile_size(node.axes, dims);
    if (node.op == ir::OpKind::kSum || node.op == ir::OpKind::kMatmul)
      size *= static_cast<double>(dims.extents[node.dim]);
    total += size;
  }
  return total;
}

nlohmann::json parts_json(const ir::Signature& signature, const std::vector<std::int64_t>& parts) {
  nlohmann::json out = nlohmann::json::object();
  for (std::size_t d = 0; d < parts.size(); ++d) out[signature.dims[d]] = parts[d];
  return out;
}

}  // namespace

std::vector<DimUse> dim_uses(const ir::MuGraph& graph) {
  std::vector<DimUse> uses(graph.signature.dims.size());
  for (const ir::Kernel& kernel : graph.kernels) {
    const ir::BlockGraph* block = kernel.block();
    if (block == nullptr) continue;
    for (ir::DimId d = 0; d < uses.size(); ++d) {
      bool grid = std::any_of(block->grid.begin(), block->grid.end(),
                              [&](const ir::GridDim& g) { return g.dim == d; });
      bool loop = std::find(block->loop.begin(), block->loop.end(), d) != block->loop.end();
      uses[d].grid |= grid;
      uses[d].loop |= loop;
      uses[d].both |= grid && loop;
    }
  }
  return uses;
}

bool keeps_structure(std::int64_t extent, std::int64_t grid, std::int64_t loop, const DimUse& use,
                     bool whole_steps) {
  if (use.grid && !good_cut(extent, grid, whole_steps)) return false;
  if (use.loop && !good_cut(extent, loop, whole_steps)) return false;
  if (!use.both) return extent >= 2;
  // A step is as long as the first block's share says; the last block's share is the shortest.
  std::int64_t share = ceil_div(extent, grid);
  std::int64_t step = ceil_div(share, loop);
  Cut first = cut(share, step), last = cut(cut(extent, share).last, step);
  return step >= 2 && first.parts == loop && (whole_steps || first.last < step || last.last < step);
}

std::optional<ScaledDims> smallest_dims(const std::vector<DimUse>& uses,
                                        const ScaledDims* earlier) {
  ScaledDims dims;
  dims.extents.assign(uses.size(), 0);
  // Three steps once: a state that is used two steps after it was made shows only then.
  const std::int64_t loop = earlier == nullptr ? 2 : 3;
  dims.partition.grid.assign(uses.size(), 2);
  dims.partition.loop.assign(uses.size(), loop);
  for (std::size_t d : by_need(uses)) {
    const std::int64_t used = earlier == nullptr ? 0 : earlier->extents[d];
    for (std::int64_t e = 2; e <= kLargestExtent && dims.extents[d] == 0; ++e)
      if (e != used && !contains(dims.extents, e) &&
          keeps_structure(e, 2, loop, uses[d], e > kLargestRagged))
        dims.extents[d] = e;
    if (dims.extents[d] == 0) return std::nullopt;
  }
  return dims;
}

std::optional<ScaledDims> random_dims(const std::vector<DimUse>& uses, std::int64_t grid,
                                      std::int64_t loop, std::uint64_t seed,
                                      const ScaledDims* earlier, bool smallest) {
  std::mt19937_64 random(seed);
  ScaledDims dims;
  dims.extents.assign(uses.size(), 0);
  dims.partition.grid.assign(uses.size(), grid);
  dims.partition.loop.assign(uses.size(), loop);
  std::vector<std::size_t> order = by_need(uses);
  if (smallest)
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  const std::size_t wanted = smallest ? 1 : 4;
  for (std::size_t d : order) {
    std::vector<std::int64_t> choices;
    for (std::int64_t e = 3; e <= kLargestExtent && choices.size() < wanted; ++e) {
      const bool used =
          contains(dims.extents, e) || (earlier != nullptr && earlier->extents[d] == e);
      if (!used && keeps_structure(e, grid, loop, uses[d], false)) choices.push_back(e);
    }
    if (choices.empty()) return std::nullopt;
    dims.extents[d] = choices[random() % choices.size()];
  }
  return dims;
}

double work(const ir::Program& program, const ScaledDims& dims) {
  return graph_work(program.graph, dims);
}

double work(const ir::MuGraph& graph, const ScaledDims& dims) {
  double total = graph_work(graph.prepare.graph, dims);
  for (const ir::Tensor& t : graph.tensors) total += tile_size(t.axes, dims);
  for (const ir::Kernel& kernel : graph.kernels) {
    if (const ir::LibraryMatmul* product = kernel.library()) {
      total += tile_size(graph.tensors[static_cast<std::size_t>(product->out)].axes, dims) *
               static_cast<double>(dims.extents[product->dim]);
      continue;
    }
    const ir::BlockGraph& block = *kernel.block();
    double runs = 1;
    for (const ir::GridDim& g : block.grid) runs *= static_cast<double>(dims.partition.grid[g.dim]);
    for (ir::DimId d : block.loop) runs *= static_cast<double>(dims.partition.loop[d]);
    double once = graph_work(block.graph, dims);
    for (const ir::Accumulator& acc : block.accumulators)
      once += graph_work(acc.init, dims) + graph_work(acc.update, dims) +
              graph_work(acc.merge, dims) + graph_work(acc.finalize, dims);
    total += runs * once;
  }
  return total;
}

std::string extents_json(const ir::Signature& signature, const ir::Extents& extents) {
  return parts_json(signature, extents).dump();
}

std::string partition_json(const ir::Signature& signature, const ir::Partition& partition) {
  nlohmann::json out{{"grid", parts_json(signature, partition.grid)},
                     {"loop", parts_json(signature, partition.loop)}};
  return out.dump();
}

std::string signature_mismatch(const ir::Signature& program, const ir::Signature& graph) {
  if (program.dims != graph.dims) return "the µGraph's dims are not the program's";
  for (const auto& [name, value] : graph.attributes)
    if (!program.attributes.count(name))
      return fmt::format("the µGraph has an attribute {} that the program lacks", name);
  if (program.inputs != graph.inputs) return "the µGraph's inputs are not the program's";
  if (program.outputs.size() != graph.outputs.size() || program.output_axes != graph.output_axes)
    return "the µGraph's outputs are not the program's";
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].name != graph.outputs[i].name ||
        program.outputs[i].dtype != graph.outputs[i].dtype)
      return fmt::format("output {} of the µGraph is not the program's", graph.outputs[i].name);
  return "";
}

}  // namespace tenon::verifier
