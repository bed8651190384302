#include "search/kernel_search.h"

#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>

#include <algorithm>

#include "ir/error.h"

namespace tenon::search {

namespace {

// May the library read it? Two axes, stored in the workload's dtype.
bool library_operand(const Space& space, const ir::Program& program, ClassId c) {
  const Expression& e = space.at(c);
  if (e.axes.size() != 2) return false;
  if (e.input >= 0)
    return program.signature.inputs[static_cast<std::size_t>(e.input)].dtype == ir::DType::kElem;
  if (space.is_output(c)) {
    for (std::size_t o = 0; o < space.outputs().size(); ++o)
      if (space.outputs()[o] == c) return program.signature.outputs[o].dtype == ir::DType::kElem;
  }
  return space.is_prepared(c) || space.is_intermediate(c);
}

}  // namespace

bool is_plain(const Space& space, const KernelChoice& kernel) {
  auto prepared = [&](ClassId c) { return space.is_prepared(c); };
  if (kernel.library) return !prepared(kernel.library->a) && !prepared(kernel.library->b);
  const KernelForm& form = *kernel.form;
  for (const Load& load : form.loads)
    if (prepared(load.cls)) return false;
  int products = 0;
  for (const BlockOp& op : form.ops) products += op.operation.op == ir::OpKind::kMatmul;
  if (products == 0) return true;
  if (products > 1 || form.frame.split) return false;
  auto loaded = [&](int v) { return v < static_cast<int>(form.loads.size()); };
  for (const BlockOp& op : form.ops) {
    if (op.operation.op == ir::OpKind::kMatmul) {
      if (!loaded(op.a) || !loaded(op.b)) return false;
      continue;
    }
    if (ir::info(op.operation.op).op_class != ir::OpClass::kPointwise || op.b < 0) return false;
    // One operand is the result so far, the other a parameter.
    int other = loaded(op.a) ? op.a : op.b;
    if (!loaded(other) || !space.at(form.cls(other)).parameter_only) return false;
    if (loaded(op.a) && loaded(op.b)) return false;
  }
  return true;
}

std::vector<std::size_t> tensor_positions(const Space& space) {
  std::vector<std::size_t> position;
  std::size_t count = 0;
  for (ClassId c : space.classes()) {
    position.resize(static_cast<std::size_t>(c) + 1, kMaxTensors);
    if (!space.is_goal(c)) continue;
    if (count >= kMaxTensors)
      throw UserError("the program has more than 256 subexpressions that could be stored");
    position[static_cast<std::size_t>(c)] = count++;
  }
  return position;
}

std::vector<LibraryForm> library_forms(const Space& space, const ir::Program& program) {
  std::vector<LibraryForm> forms;
  for (const Way& way : space.ways()) {
    const Operation& o = way.operation;
    if (o.op != ir::OpKind::kMatmul || o.online || !space.is_goal(way.result)) continue;
    if (!library_operand(space, program, o.a) || !library_operand(space, program, o.b)) continue;
    if (!library_operand(space, program, way.result)) continue;
    // Rows of the result are rows of the first operand, contiguous along the summed dim.
    ir::DimId row = space.at(way.result).axes[0].dim;
    ClassId first = space.at(o.a).dims & bit(row) ? o.a : o.b;
    if (space.at(first).axes[0].dim != row) continue;
    forms.push_back({o.a, o.b, way.result, o.dim});
  }
  std::sort(forms.begin(), forms.end());
  return forms;
}

std::vector<Choice> choices(const Space& space, std::vector<KernelForm> forms,
                            const std::vector<LibraryForm>& libraries) {
  std::vector<std::size_t> position = tensor_positions(space);
  auto add = [&](TensorSet& set, ClassId c) {
    if (space.is_goal(c)) set.set(position[static_cast<std::size_t>(c)]);
  };
  tbb::parallel_sort(forms.begin(), forms.end());
  std::vector<Choice> out(forms.size());
  tbb::parallel_for(std::size_t{0}, forms.size(), [&](std::size_t i) {
    KernelForm& form = forms[i];
    Choice& choice = out[i];
    for (const Load& load : form.loads) add(choice.reads, load.cls);
    for (const BlockOp& op : form.ops) add(choice.computes, op.cls);
    for (int v : form.stores) add(choice.writes, form.cls(v));
    choice.kernel.form = std::move(form);
  });
  for (const LibraryForm& form : libraries) {
    Choice choice;
    add(choice.reads, form.a);
    add(choice.reads, form.b);
    add(choice.writes, form.out);
    choice.computes = choice.writes;
    choice.kernel.library = form;
    out.push_back(std::move(choice));
  }
  return out;
}

}  // namespace tenon::search
