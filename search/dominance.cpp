// Kernel graphs for which a better one is in the space: see search/kernel_search.h.
#include <algorithm>
#include <set>

#include "search/kernel_search.h"

namespace tenon::search {

namespace {

const KernelForm* custom(const Choice& choice) {
  return choice.kernel.form ? &*choice.kernel.form : nullptr;
}

// Do the two load some tensor with different maps? (One kernel loads a tensor once.)
bool loads_conflict(const Space& space, const KernelForm& a, const KernelForm& b) {
  for (const Load& x : a.loads)
    for (const Load& y : b.loads)
      if (x.cls == y.cls && !space.at(x.cls).constant && x.tile != y.tile) return true;
  return false;
}

bool fits(const KernelForm& a, const KernelForm& b, const KernelBounds& bounds) {
  return static_cast<int>(a.ops.size() + b.ops.size()) <= bounds.max_block_ops;
}

std::vector<const Choice*> readers(const std::vector<const Choice*>& graph, const TensorSet& t) {
  std::vector<const Choice*> out;
  for (const Choice* c : graph)
    if ((c->reads & t).any()) out.push_back(c);
  return out;
}

// Is the stored value made by pointwise operators alone, of one loaded tensor of its size at
// most? (Then computing it again costs no more traffic than reading it back.)
bool cheap_to_recompute(const Space& space, const KernelForm& form, int store) {
  std::vector<bool> needed(form.loads.size() + form.ops.size(), false);
  needed[static_cast<std::size_t>(store)] = true;
  for (std::size_t i = form.ops.size(); i-- > 0;) {
    const BlockOp& op = form.ops[i];
    if (!needed[form.loads.size() + i]) continue;
    if (ir::info(op.operation.op).op_class != ir::OpClass::kPointwise) return false;
    for (int operand : {op.a, op.b})
      if (operand >= 0) needed[static_cast<std::size_t>(operand)] = true;
  }
  int large = 0;
  for (std::size_t v = 0; v < form.loads.size(); ++v)
    large += needed[v] && space.at(form.loads[v].cls).dims == space.at(form.cls(store)).dims;
  return large <= 1;
}

// Values of `reader` that depend on what `producer` stores.
std::vector<bool> depends_on(const KernelForm& reader, const KernelForm& producer) {
  std::vector<bool> depends;
  for (const Load& load : reader.loads)
    depends.push_back(std::any_of(producer.stores.begin(), producer.stores.end(),
                                  [&](int store) { return producer.cls(store) == load.cls; }));
  for (const BlockOp& op : reader.ops) {
    bool mine = depends[static_cast<std::size_t>(op.a)];
    if (op.b >= 0) mine = mine || depends[static_cast<std::size_t>(op.b)];
    depends.push_back(mine);
  }
  return depends;
}

// Dims of every value of a kernel.
DimSet all_dims(const Space& space, const KernelForm& form) {
  DimSet dims = 0;
  for (const Load& load : form.loads) dims |= space.at(load.cls).dims;
  for (const BlockOp& op : form.ops) dims |= space.at(op.cls).dims;
  return dims;
}

// A reader of pointwise operators only can go where the producer stores, whatever the cut, if
// it has no axes that the stored tensor lacks.
bool can_append(const Space& space, const KernelForm& producer, const KernelForm& reader) {
  if (reduces(reader)) return false;
  for (int store : producer.stores) {
    bool read = std::any_of(reader.loads.begin(), reader.loads.end(),
                            [&](const Load& load) { return load.cls == producer.cls(store); });
    if (read && (all_dims(space, reader) & ~space.at(producer.cls(store)).dims)) return false;
  }
  return true;
}

bool can_fuse(const Space& space, const KernelForm& producer, const KernelForm& reader,
              const KernelBounds& bounds) {
  if (!fits(producer, reader, bounds) || loads_conflict(space, producer, reader)) return false;
  if (can_append(space, producer, reader)) return true;
  if (producer.frame.grid_dims() != reader.frame.grid_dims()) return false;
  std::vector<bool> depends = depends_on(reader, producer);
  int loop = producer.frame.loop;
  for (std::size_t v = 0; v < depends.size(); ++v) {
    DimSet dims = space.at(reader.cls(static_cast<int>(v))).dims;
    bool mentions_loop = loop >= 0 && (dims & bit(static_cast<ir::DimId>(loop)));
    if (reader.frame.loop < 0) {
      // All of the reader becomes the producer's epilogue, where its loop's dim is gone.
      if (mentions_loop) return false;
    } else if (loop >= 0) {
      if (loop != reader.frame.loop) return false;
      // What follows from the tensor happens after the loop.
      if (depends[v] && (mentions_loop || reader.tile(static_cast<int>(v)) == Tile::kStep))
        return false;
    }
  }
  return true;
}

}  // namespace

bool has_inlinable_tensor(const Space& space, const std::vector<std::size_t>& position,
                          const std::vector<const Choice*>& graph, const KernelBounds& bounds) {
  for (const Choice* k : graph) {
    const KernelForm* form = custom(*k);
    if (!form) continue;
    for (int store : form->stores) {
      ClassId c = form->cls(store);
      if (space.is_output(c) || !cheap_to_recompute(space, *form, store)) continue;
      TensorSet tensor;
      tensor.set(position[static_cast<std::size_t>(c)]);
      std::vector<const Choice*> users = readers(graph, tensor);
      if (std::all_of(users.begin(), users.end(), [&](const Choice* user) {
            return custom(*user) && fits(*form, *custom(*user), bounds);
          }))
        return true;
    }
  }
  return false;
}

bool has_fusible_kernels(const Space& space, const std::vector<const Choice*>& graph,
                         const KernelBounds& bounds) {
  for (const Choice* producer : graph) {
    const KernelForm* p = custom(*producer);
    if (!p) continue;
    std::vector<const Choice*> users = readers(graph, producer->writes);
    if (users.size() != 1 || !custom(*users[0])) continue;
    if (can_fuse(space, *p, *custom(*users[0]), bounds)) return true;
  }
  return false;
}

}  // namespace tenon::search
