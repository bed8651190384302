#include "search/symmetry.h"

#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace tenon::search {

namespace {

// Pairs the values of two outputs of the program's graph, operator by operator.
class Pairing {
 public:
  Pairing(const Space& space, const ir::Program& program) : space_(space), program_(program) {
    for (ClassId c = 0; c < space.class_count(); ++c) out_.classes.push_back(c);
    for (std::size_t d = 0; d < program.signature.dims.size(); ++d)
      out_.dims.push_back(static_cast<ir::DimId>(d));
  }

  std::optional<Exchange> run(std::size_t a, std::size_t b) {
    const auto& outputs = program_.signature.outputs;
    if (outputs[a].dtype != outputs[b].dtype) return std::nullopt;
    if (!pair(outputs[a].value, outputs[b].value)) return std::nullopt;
    if (!map_classes()) return std::nullopt;
    if (out_.classes[static_cast<std::size_t>(space_.outputs()[a])] != space_.outputs()[b])
      return std::nullopt;
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (o != a && o != b &&
          out_.classes[static_cast<std::size_t>(space_.outputs()[o])] != space_.outputs()[o])
        return std::nullopt;
    return out_;
  }

 private:
  template <class T>
  static bool swap_in(std::vector<T>& map, std::size_t a, std::size_t b) {
    auto is = [&](std::size_t from, std::size_t to) { return map[from] == static_cast<T>(to); };
    if (is(a, b) && is(b, a)) return true;
    if (!is(a, a) || !is(b, b)) return false;
    map[a] = static_cast<T>(b);
    map[b] = static_cast<T>(a);
    return true;
  }

  bool pair_axes(const ir::Axes& a, const ir::Axes& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!swap_in(out_.dims, a[i].dim, b[i].dim)) return false;
    return true;
  }

  bool pair(ir::ValueId a, ir::ValueId b) {
    if (a == b) return true;
    const ir::Graph& graph = program_.graph;
    if (!pair_axes(graph.axes(a), graph.axes(b))) return false;
    if (graph.is_input(a) || graph.is_input(b)) {
      if (!graph.is_input(a) || !graph.is_input(b)) return false;
      const ir::ProgramInput& x = program_.signature.inputs[static_cast<std::size_t>(a)];
      const ir::ProgramInput& y = program_.signature.inputs[static_cast<std::size_t>(b)];
      return x.role == y.role && x.dtype == y.dtype &&
             swap_in(out_.classes, static_cast<std::size_t>(space_.program_class(a)),
                     static_cast<std::size_t>(space_.program_class(b)));
    }
    const ir::Node& x = graph.node(a);
    const ir::Node& y = graph.node(b);
    bool same = x.op == y.op && x.dtype == y.dtype && x.constant == y.constant &&
                (x.b == ir::kNoValue) == (y.b == ir::kNoValue);
    bool sums = x.op == ir::OpKind::kSum || x.op == ir::OpKind::kMatmul;
    if (!same || (sums && !swap_in(out_.dims, x.dim, y.dim))) return false;
    if (x.a != ir::kNoValue && !pair(x.a, y.a)) return false;
    return x.b == ir::kNoValue || pair(x.b, y.b);
  }

  // What every operator makes of exchanged operands, operands first.
  bool map_classes() {
    std::vector<bool> known(out_.classes.size(), false);
    std::map<Operation, ClassId> made;
    for (const Way& way : space_.ways())
      if (!way.operation.online) made[way.operation] = way.result;
    for (ClassId c : space_.classes())
      known[static_cast<std::size_t>(c)] = space_.at(c).input >= 0 || space_.at(c).is_constant;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Way& way : space_.ways()) {
        const Operation& o = way.operation;
        if (o.online) continue;
        if (known[static_cast<std::size_t>(way.result)] || !known[static_cast<std::size_t>(o.a)])
          continue;
        if (o.b != kNoClass && !known[static_cast<std::size_t>(o.b)]) continue;
        auto it = made.find(space_.normal(mapped(o)));
        if (it == made.end()) return false;
        out_.classes[static_cast<std::size_t>(way.result)] = it->second;
        known[static_cast<std::size_t>(way.result)] = true;
        changed = true;
      }
    }
    for (ClassId c : space_.classes()) {
      ClassId there = out_.classes[static_cast<std::size_t>(c)];
      if (!known[static_cast<std::size_t>(c)] || out_.classes[static_cast<std::size_t>(there)] != c)
        return false;
    }
    return true;
  }

  Operation mapped(Operation o) const {
    o.a = out_.classes[static_cast<std::size_t>(o.a)];
    if (o.b != kNoClass) o.b = out_.classes[static_cast<std::size_t>(o.b)];
    o.dim = out_.dims[o.dim];
    DimSet dims = 0;
    for (std::size_t d = 0; d < out_.dims.size(); ++d)
      if (o.dims & bit(static_cast<ir::DimId>(d))) dims |= bit(out_.dims[d]);
    o.dims = dims;
    return o;
  }

  const Space& space_;
  const ir::Program& program_;
  Exchange out_;
};

std::vector<std::int64_t> library_contents(const LibraryForm& form, const Exchange* exchange) {
  auto at = [&](ClassId c) {
    return static_cast<std::int64_t>(exchange ? exchange->classes[static_cast<std::size_t>(c)] : c);
  };
  std::vector<std::int64_t> out = {at(form.a), at(form.b)};
  std::sort(out.begin(), out.end());
  out.push_back(at(form.out));
  return out;
}

KernelForm mapped(KernelForm form, const Exchange& exchange) {
  auto at = [&](ClassId c) { return exchange.classes[static_cast<std::size_t>(c)]; };
  for (ir::DimId& d : form.frame.grid) d = exchange.dims[d];
  std::sort(form.frame.grid.begin(), form.frame.grid.end());
  if (form.frame.loop >= 0)
    form.frame.loop = exchange.dims[static_cast<std::size_t>(form.frame.loop)];
  for (Load& load : form.loads) load.cls = at(load.cls);
  for (BlockOp& op : form.ops) {
    op.cls = at(op.cls);
    op.operation.dim = exchange.dims[op.operation.dim];
  }
  return form;
}

}  // namespace

std::vector<Exchange> exchanges(const Space& space, const ir::Program& program) {
  std::vector<Exchange> out;
  for (std::size_t b = 1; b < space.outputs().size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (std::optional<Exchange> e = Pairing(space, program).run(a, b))
        out.push_back(std::move(*e));
  return out;
}

KernelNumbers::KernelNumbers(const std::vector<Choice>& choices,
                             const std::vector<Exchange>& exchanges)
    : mapped_(exchanges.size()) {
  if (exchanges.empty()) return;
  // All kernels as they are, then all as the first exchange maps them, and so on.
  const std::size_t n = choices.size();
  std::vector<std::vector<std::int64_t>> all(n * (exchanges.size() + 1));
  tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
    const KernelChoice& kernel = choices[i % n].kernel;
    const Exchange* exchange = i < n ? nullptr : &exchanges[i / n - 1];
    if (kernel.library)
      all[i] = library_contents(*kernel.library, exchange);
    else
      all[i] = contents(exchange ? mapped(*kernel.form, *exchange) : *kernel.form);
  });
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  tbb::parallel_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return all[a] < all[b]; });
  own_.resize(n);
  for (std::vector<int>& table : mapped_) table.resize(n);
  int number = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && all[order[i]] != all[order[i - 1]]) ++number;
    std::vector<int>& table = order[i] < n ? own_ : mapped_[order[i] / n - 1];
    table[order[i] % n] = number;
  }
}

bool KernelNumbers::uniform(const std::vector<int>& graph) const {
  if (mapped_.empty()) return true;
  auto numbers = [&](const std::vector<int>& table) {
    std::vector<int> out;
    for (int k : graph) out.push_back(table[static_cast<std::size_t>(k)]);
    std::sort(out.begin(), out.end());
    return out;
  };
  std::vector<int> own = numbers(own_);
  return std::all_of(mapped_.begin(), mapped_.end(),
                     [&](const std::vector<int>& table) { return numbers(table) == own; });
}

}  // namespace tenon::search
