// The canonical form of a µGraph, and its identity.
//
// Every value gets a structural hash from what it computes; dead and repeated nodes go,
// commutative operands, stores, kernels and tensors are ordered by hash, and internal names
// are renumbered. Names of inputs, outputs, dims and attributes are the program's and stay.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "ir/error.h"
#include "ir/mugraph.h"
#include "ir/sha256.h"

namespace tenon::ir {

namespace {

using Hash = std::uint64_t;

Hash mix(Hash h, Hash x) {
  h ^= x + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
  return h ^ (h >> 31);
}

Hash hash_text(const std::string& text) {
  Hash h = 0xcbf29ce484222325ULL;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

Hash hash_axes(const Axes& axes) {
  Hash h = axes.size();
  for (const Axis& axis : axes) h = mix(h, axis.dim * 8u + axis.part);
  return h;
}

Hash hash_constant(const Constant& c) {
  Hash h = mix(static_cast<Hash>(c.coefficient.num), static_cast<Hash>(c.coefficient.den));
  for (const auto& [dim, e] : c.dims) h = mix(mix(h, dim), static_cast<Hash>(e) + 0x100);
  for (const auto& [name, e] : c.attributes)
    h = mix(mix(h, hash_text(name)), static_cast<Hash>(e) + 0x200);
  return h;
}

// May operands be exchanged without changing the result's axes?
bool exchangeable(const Graph& g, const Node& node) {
  if (info(node.op).op_class != OpClass::kPointwise || !info(node.op).commutative) return false;
  const Axes& a = g.axes(node.a);
  const Axes& b = g.axes(node.b);
  return a == b || a.size() != b.size();
}

// Hash of a node of the operator table from those of the values before it.
Hash hash_node(const Graph& g, const Node& node, const std::vector<Hash>& before) {
  Hash a = node.a == kNoValue ? 0 : before[static_cast<std::size_t>(node.a)];
  Hash b = node.b == kNoValue ? 0 : before[static_cast<std::size_t>(node.b)];
  if (node.b != kNoValue && exchangeable(g, node) && b < a) std::swap(a, b);
  Hash h = mix(mix(mix(0x51ed27, static_cast<Hash>(node.op)), a), b);
  if (node.op == OpKind::kConst) h = mix(h, hash_constant(node.constant));
  if (node.op == OpKind::kSum || node.op == OpKind::kMatmul) h = mix(h, node.dim);
  if (node.op == OpKind::kCast) h = mix(h, static_cast<Hash>(node.dtype));
  if (node.op == OpKind::kBroadcast) h = mix(h, hash_axes(node.axes));
  return h;
}

// Structural hashes of every value; `hash` holds those of the inputs. `accumulated` hashes a
// result of an accumulator from the values before it.
using AccumulatedHash = std::function<Hash(const Node&, const std::vector<Hash>&)>;
std::vector<Hash> hash_values(const Graph& g, std::vector<Hash> hash,
                              const AccumulatedHash& accumulated = {}) {
  for (const Node& node : g.nodes())
    hash.push_back(node.op == OpKind::kAccumulated ? accumulated(node, hash)
                                                   : hash_node(g, node, hash));
  return hash;
}

std::vector<Hash> input_hashes_by_position(const Graph& g) {
  std::vector<Hash> hash;
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    hash.push_back(mix(hash_axes(g.inputs()[i].axes), i));
  return hash;
}

Hash hash_expression(const Graph& g, const std::vector<ValueId>& outputs) {
  std::vector<Hash> hash = hash_values(g, input_hashes_by_position(g));
  Hash h = outputs.size();
  for (ValueId v : outputs) h = mix(h, hash[static_cast<std::size_t>(v)]);
  return h;
}

Hash hash_accumulator(const Accumulator& acc, const std::vector<Hash>& values) {
  Hash h = mix(hash_text(acc.kind), acc.dim);
  for (ValueId operand : acc.operands) h = mix(h, values[static_cast<std::size_t>(operand)]);
  h = mix(h, hash_expression(acc.init, acc.init_out));
  h = mix(h, hash_expression(acc.update, acc.update_out));
  h = mix(h, hash_expression(acc.merge, acc.merge_out));
  return mix(h, hash_expression(acc.finalize, acc.finalize_out));
}

// Copies values of `from` into a new graph, each once, operands first and in canonical order.
class Emitter {
 public:
  Emitter(const Graph& from, const std::vector<Hash>& hash) : from_(from), hash_(hash) {}
  Graph graph;
  std::map<Hash, ValueId> made;  // value by hash

  // `accumulated` emits the accumulator of a node and returns its new index.
  ValueId emit(ValueId v, const std::function<int(int)>& accumulated) {
    auto it = made.find(hash_[static_cast<std::size_t>(v)]);
    if (it != made.end()) return it->second;
    TENON_CHECK(!from_.is_input(v), "inputs are made first");
    Node node = from_.node(v);
    if (node.op == OpKind::kAccumulated) {
      node.accumulator = static_cast<std::int16_t>(accumulated(node.accumulator));
    } else if (node.b != kNoValue && exchangeable(from_, node) &&
               hash_[static_cast<std::size_t>(node.b)] < hash_[static_cast<std::size_t>(node.a)]) {
      std::swap(node.a, node.b);
    }
    if (node.a != kNoValue) node.a = emit(node.a, accumulated);
    if (node.b != kNoValue) node.b = emit(node.b, accumulated);
    ValueId out = graph.append(node);
    made[hash_[static_cast<std::size_t>(v)]] = out;
    return out;
  }

 private:
  const Graph& from_;
  const std::vector<Hash>& hash_;
};

// Marks what outputs and accumulators that are used need.
std::vector<bool> live_values(const BlockGraph& block) {
  std::vector<bool> live(static_cast<std::size_t>(block.graph.value_count()), false);
  for (const BlockOutput& out : block.outputs) live[static_cast<std::size_t>(out.value)] = true;
  for (ValueId v = block.graph.value_count(); v-- > 0;) {
    if (!live[static_cast<std::size_t>(v)] || block.graph.is_input(v)) continue;
    const Node& node = block.graph.node(v);
    for (ValueId operand : {node.a, node.b})
      if (operand != kNoValue) live[static_cast<std::size_t>(operand)] = true;
    if (node.op == OpKind::kAccumulated)
      for (ValueId operand :
           block.accumulators[static_cast<std::size_t>(node.accumulator)].operands)
        live[static_cast<std::size_t>(operand)] = true;
  }
  return live;
}

class Canonicalizer {
 public:
  explicit Canonicalizer(const MuGraph& graph) : in_(graph) {}

  MuGraph run() {
    out_.signature = in_.signature;
    std::size_t fixed = in_.signature.inputs.size() + in_.signature.outputs.size();
    tensor_hash_.assign(in_.tensors.size(), 0);
    tensor_map_.assign(in_.tensors.size(), -1);
    for (std::size_t t = 0; t < fixed; ++t) {
      out_.tensors.push_back(in_.tensors[t]);
      tensor_map_[t] = static_cast<TensorId>(t);
      if (t < in_.signature.inputs.size()) tensor_hash_[t] = hash_text(in_.tensors[t].name);
    }
    prepare();
    order_kernels();
    return std::move(out_);
  }

 private:
  std::string fresh(const std::string& prefix) {
    for (;;) {
      std::string name = fmt::format("{}{}", prefix, counter_[prefix]++);
      bool taken = std::any_of(
          in_.tensors.begin(),
          in_.tensors.begin() + static_cast<std::ptrdiff_t>(in_.signature.inputs.size() +
                                                            in_.signature.outputs.size()),
          [&](const Tensor& t) { return t.name == name; });
      if (!taken) return name;
    }
  }

  void declare(TensorId old, const std::string& prefix) {
    Tensor tensor = in_.tensors[static_cast<std::size_t>(old)];
    if (tensor_map_[static_cast<std::size_t>(old)] >= 0) return;
    tensor.name = fresh(prefix);
    tensor_map_[static_cast<std::size_t>(old)] = static_cast<TensorId>(out_.tensors.size());
    out_.tensors.push_back(std::move(tensor));
  }

  Hash hash_store(Hash value, TensorId t) const {
    const Tensor& tensor = in_.tensors[static_cast<std::size_t>(t)];
    Hash h = mix(value, mix(static_cast<Hash>(tensor.dtype), hash_axes(tensor.axes)));
    return tensor.kind == TensorKind::kOutput ? mix(h, hash_text(tensor.name)) : h;
  }

  void prepare() {
    const Graph& g = in_.prepare.graph;
    std::vector<Hash> inputs;
    for (const GraphInput& in : g.inputs()) inputs.push_back(hash_text(in.name));
    std::vector<Hash> hash = hash_values(g, inputs);
    std::vector<BlockOutput> outputs = in_.prepare.outputs;
    for (const BlockOutput& o : outputs)
      tensor_hash_[static_cast<std::size_t>(o.tensor)] =
          mix(0x9e1, hash_store(hash[static_cast<std::size_t>(o.value)], o.tensor));
    std::stable_sort(outputs.begin(), outputs.end(),
                     [&](const BlockOutput& a, const BlockOutput& b) {
                       return tensor_hash_[static_cast<std::size_t>(a.tensor)] <
                              tensor_hash_[static_cast<std::size_t>(b.tensor)];
                     });
    std::vector<bool> live(static_cast<std::size_t>(g.value_count()), false);
    for (const BlockOutput& o : outputs) live[static_cast<std::size_t>(o.value)] = true;
    for (ValueId v = g.value_count(); v-- > 0;)
      if (live[static_cast<std::size_t>(v)] && !g.is_input(v))
        for (ValueId operand : {g.node(v).a, g.node(v).b})
          if (operand != kNoValue) live[static_cast<std::size_t>(operand)] = true;
    Emitter emitter(g, hash);
    // Parameters in the order of the signature.
    for (const ProgramInput& p : in_.signature.inputs)
      for (std::size_t i = 0; i < g.inputs().size(); ++i)
        if (g.inputs()[i].name == p.name && live[i] && !emitter.made.count(hash[i]))
          emitter.made[hash[i]] = emitter.graph.input(g.inputs()[i].name, g.inputs()[i].axes);
    for (const BlockOutput& o : outputs) {
      ValueId value = emitter.emit(o.value, [](int) { return -1; });
      declare(o.tensor, "p");
      out_.prepare.outputs.push_back({tensor_map_[static_cast<std::size_t>(o.tensor)], value});
    }
    out_.prepare.graph = std::move(emitter.graph);
  }

  bool ready(const Kernel& kernel) const {
    auto known = [&](TensorId t) { return tensor_hash_[static_cast<std::size_t>(t)] != 0; };
    if (const LibraryMatmul* p = kernel.library()) return known(p->a) && known(p->b);
    const BlockGraph& block = *kernel.block();
    return std::all_of(block.inputs.begin(), block.inputs.end(),
                       [&](const BlockInput& in) { return known(in.tensor); });
  }

  std::vector<Hash> block_hashes(const BlockGraph& block) const {
    std::vector<Hash> inputs;
    for (const BlockInput& in : block.inputs) {
      Hash h = tensor_hash_[static_cast<std::size_t>(in.tensor)];
      for (const AxisMap& map : in.maps)
        h = mix(h, map.part * 1000003u + static_cast<Hash>(map.shift + 5000));
      inputs.push_back(h);
    }
    return hash_values(
        block.graph, std::move(inputs), [&](const Node& node, const std::vector<Hash>& before) {
          Hash h = hash_accumulator(block.accumulators[static_cast<std::size_t>(node.accumulator)],
                                    before);
          return mix(mix(0xacc, h), static_cast<Hash>(node.result));
        });
  }

  Hash frame_hash(const BlockGraph& block) const {
    Hash h = 0xb10c;
    std::vector<GridDim> grid = sorted_grid(block);
    for (const GridDim& d : grid) h = mix(h, d.dim * 2u + d.split);
    h = mix(h, 0x1009);
    for (DimId d : block.loop) h = mix(h, d);
    return h;
  }

  static std::vector<GridDim> sorted_grid(const BlockGraph& block) {
    std::vector<GridDim> grid = block.grid;
    std::sort(grid.begin(), grid.end(), [](const GridDim& a, const GridDim& b) {
      return std::pair(a.split, a.dim) < std::pair(b.split, b.dim);
    });
    return grid;
  }

  // What a kernel computes, with its outputs' hashes.
  Hash hash_kernel(const Kernel& kernel, std::vector<std::pair<TensorId, Hash>>& outputs) const {
    outputs.clear();
    if (const LibraryMatmul* p = kernel.library()) {
      Hash h = mix(mix(0x11b, tensor_hash_[static_cast<std::size_t>(p->a)]),
                   tensor_hash_[static_cast<std::size_t>(p->b)]);
      h = hash_store(mix(h, p->dim), p->out);
      outputs.push_back({p->out, h});
      return h;
    }
    const BlockGraph& block = *kernel.block();
    std::vector<Hash> all = block_hashes(block);
    Hash frame = frame_hash(block);
    std::vector<Hash> stores;
    for (const BlockOutput& o : block.outputs) {
      stores.push_back(hash_store(mix(frame, all[static_cast<std::size_t>(o.value)]), o.tensor));
      outputs.push_back({o.tensor, stores.back()});
    }
    std::sort(stores.begin(), stores.end());
    Hash h = frame;
    for (Hash s : stores) h = mix(h, s);
    // Two outputs of one kernel belong together: what else it stores is part of a tensor's hash.
    for (auto& [tensor, hash] : outputs) hash = mix(hash, h);
    return h;
  }

  void order_kernels() {
    std::vector<bool> done(in_.kernels.size(), false);
    for (std::size_t placed = 0; placed < in_.kernels.size(); ++placed) {
      int best = -1;
      Hash best_hash = 0;
      std::vector<std::pair<TensorId, Hash>> best_outputs, outputs;
      for (std::size_t i = 0; i < in_.kernels.size(); ++i) {
        if (done[i] || !ready(in_.kernels[i])) continue;
        Hash h = hash_kernel(in_.kernels[i], outputs);
        if (best < 0 || h < best_hash) {
          best = static_cast<int>(i);
          best_hash = h;
          best_outputs = outputs;
        }
      }
      if (best < 0) throw UserError("the kernels of the µGraph depend on each other in a circle");
      done[static_cast<std::size_t>(best)] = true;
      for (const auto& [tensor, hash] : best_outputs)
        tensor_hash_[static_cast<std::size_t>(tensor)] = hash;
      place(in_.kernels[static_cast<std::size_t>(best)]);
    }
  }

  TensorId mapped(TensorId t) const { return tensor_map_[static_cast<std::size_t>(t)]; }

  void place(const Kernel& kernel) {
    Kernel out;
    out.name = fmt::format("k{}", out_.kernels.size());
    if (const LibraryMatmul* p = kernel.library()) {
      declare(p->out, "t");
      out.body = LibraryMatmul{mapped(p->a), mapped(p->b), mapped(p->out), p->dim};
    } else {
      out.body = place_block(*kernel.block());
    }
    out_.kernels.push_back(std::move(out));
  }

  BlockGraph place_block(const BlockGraph& block) {
    std::vector<Hash> hash = block_hashes(block);
    std::vector<bool> live = live_values(block);
    BlockGraph out;
    out.grid = sorted_grid(block);
    out.loop = block.loop;

    Emitter emitter(block.graph, hash);
    std::vector<std::size_t> order(block.inputs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(mapped(block.inputs[a].tensor), hash[a]) <
             std::pair(mapped(block.inputs[b].tensor), hash[b]);
    });
    for (std::size_t i : order) {
      if (!live[i] || emitter.made.count(hash[i])) continue;
      BlockInput in = block.inputs[i];
      in.tensor = mapped(in.tensor);
      const Tensor& tensor = out_.tensors[static_cast<std::size_t>(in.tensor)];
      emitter.made[hash[i]] = emitter.graph.input(tensor.name, tiled_axes(tensor, in));
      out.inputs.push_back(std::move(in));
    }

    std::map<Hash, int> accumulators;
    std::function<int(int)> accumulated = [&](int old) {
      const Accumulator& acc = block.accumulators[static_cast<std::size_t>(old)];
      Hash h = hash_accumulator(acc, hash);
      auto it = accumulators.find(h);
      if (it != accumulators.end()) return it->second;
      Accumulator copy = acc;
      for (ValueId& operand : copy.operands) operand = emitter.emit(operand, accumulated);
      out.accumulators.push_back(std::move(copy));
      return accumulators[h] = static_cast<int>(out.accumulators.size()) - 1;
    };

    std::vector<BlockOutput> outputs = block.outputs;
    std::stable_sort(outputs.begin(), outputs.end(),
                     [&](const BlockOutput& a, const BlockOutput& b) {
                       return tensor_hash_[static_cast<std::size_t>(a.tensor)] <
                              tensor_hash_[static_cast<std::size_t>(b.tensor)];
                     });
    for (const BlockOutput& o : outputs) {
      ValueId value = emitter.emit(o.value, accumulated);
      declare(o.tensor, "t");
      out.outputs.push_back({mapped(o.tensor), value});
    }
    out.graph = std::move(emitter.graph);
    return out;
  }

  const MuGraph& in_;
  MuGraph out_;
  std::vector<Hash> tensor_hash_;  // 0: not yet written
  std::vector<TensorId> tensor_map_;
  std::map<std::string, int> counter_;
};

}  // namespace

MuGraph canonical(const MuGraph& graph) { return Canonicalizer(graph).run(); }

std::string identity(const MuGraph& graph) { return sha256_hex(print(canonical(graph))); }

}  // namespace tenon::ir
