#include "runtime/host/executable.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "ir/domain.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/mugraph.h"
#include "ir/schedule.h"
#include "runtime/host/aligned.h"
#include "runtime/host/block.h"
#include "runtime/host/pool.h"
#include "runtime/plan_check.h"

namespace tenon::runtime::host {

namespace {

// Tensors that are only read share the type of those that are written.
std::byte* writable(const void* p) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(p));
}

std::int64_t bytes_of(const ir::Tensor& tensor, const ir::Extents& extents, ir::DType elem) {
  return ir::element_count(tensor.axes, extents) *
         static_cast<std::int64_t>(ir::size_of(ir::bind(tensor.dtype, elem)));
}

// What the prepare step made, by TensorId; null for other tensors. Shared by bindings that adopt.
using Prepared = std::vector<std::shared_ptr<AlignedBytes>>;

// Addresses and scratch of one launch; pooled.
struct LaunchMemory {
  std::vector<std::byte*> tensors;  // by TensorId
  std::vector<AlignedBytes> intermediates;
  ir::Extents extents;
};

// The compiled plan, shared by its bindings.
class Code {
 public:
  explicit Code(const ir::LaunchPlan& plan)
      : plan_(plan), graph_(ir::parse_mugraph(plan.mugraph)), domain_(attributes(), plan.dtype) {
    ir::validate(graph_);
    check_fit();
    ir::Schedule schedule = ir::parse_schedule(plan_.schedule);
    for (std::size_t i = 0; i < graph_.kernels.size(); ++i) {
      const ir::Kernel& kernel = graph_.kernels[i];
      const ir::KernelSchedule own =
          i < schedule.kernels.size() ? schedule.kernels[i] : ir::KernelSchedule{"host", {}};
      if (const ir::LibraryMatmul* product = kernel.library())
        kernels_.push_back(std::make_unique<BlockProgram>(graph_, product_block(graph_, *product),
                                                          own, plan_.dtype));
      else
        kernels_.push_back(
            std::make_unique<BlockProgram>(graph_, *kernel.block(), own, plan_.dtype));
    }
    if (!graph_.prepare.outputs.empty())
      prepare_ = std::make_unique<PrepareProgram>(graph_, plan_.dtype);
    for (const ir::Launch& launch : plan_.main) main_.push_back(kernel_index(launch));
    for (const ir::Launch& launch : plan_.prepare)
      if (launch.kind != ir::LaunchKind::kHost || launch.entry != "prepare")
        throw UserError("a launch of the plan's prepare step", launch.entry,
                        "the host launch 'prepare'");
  }

  const ir::LaunchPlan& plan() const { return plan_; }
  const ir::MuGraph& graph() const { return graph_; }

  void prepare(std::byte* const* tensors) const {
    if (prepare_) prepare_->run({&plan_.extents, &domain_, tensors});
  }

  void launch(const void* const* inputs, const std::vector<const void*>& parameters,
              void* const* outputs, const Prepared& prepared, std::int64_t m) const {
    auto memory = launches_.take();
    bind(*memory, inputs, parameters, outputs, prepared, m);
    gather(*memory, m);
    for (int kernel : main_)
      kernels_[static_cast<std::size_t>(kernel)]->run(
          {&memory->extents, &domain_, memory->tensors.data()});
    scatter(*memory, outputs, m);
    launches_.give(std::move(memory));
  }

 private:
  ir::AttributeValues attributes() const {
    ir::AttributeValues values;
    std::size_t i = 0;
    for (const auto& [name, fallback] : graph_.signature.attributes)
      values[name] = i < plan_.attributes.size() ? plan_.attributes[i++] : fallback.to_double();
    return values;
  }

  int kernel_index(const ir::Launch& launch) const {
    std::size_t index = graph_.kernels.size();
    if (launch.kind == ir::LaunchKind::kHost && !launch.entry.empty() && launch.entry.size() < 6 &&
        launch.entry.find_first_not_of("0123456789") == std::string::npos)
      index = static_cast<std::size_t>(std::stoi(launch.entry));
    if (index >= graph_.kernels.size())
      throw UserError("a launch of a host plan", launch.entry,
                      fmt::format("the index of one of its {} kernels", graph_.kernels.size()));
    return static_cast<int>(index);
  }

  // The plan was made for this µGraph: same dims, and buffers as large as its tensors.
  void check_fit() {
    const ir::Signature& s = graph_.signature;
    if (s.dims != plan_.dims || plan_.extents.size() != s.dims.size())
      throw UserError(
          "the plan names other dims than its µGraph; a plan and its µGraph must agree");
    for (std::size_t d = 0; d < s.dims.size(); ++d)
      if (plan_.extents[d] < 1)
        throw UserError("extent of " + s.dims[d], std::to_string(plan_.extents[d]),
                        "an integer of at least 1");
    if (plan_.input_count != static_cast<int>(s.inputs.size()) ||
        plan_.output_count != static_cast<int>(s.outputs.size()))
      throw UserError(
          "the plan has other inputs or outputs than its µGraph; a plan and its µGraph must agree");
    for (std::size_t i = 0; i < s.inputs.size() + s.outputs.size(); ++i) {
      const ir::Tensor& tensor = graph_.tensors[i];
      const ir::Buffer& buffer = plan_.buffers[i];
      if (buffer.dtype != ir::bind(tensor.dtype, plan_.dtype) || !holds(buffer, tensor))
        throw UserError("buffer " + buffer.name + " of the plan does not fit tensor " +
                        tensor.name + " of its µGraph");
    }
  }

  // As large as its tensor, or with rows apart.
  bool holds(const ir::Buffer& buffer, const ir::Tensor& tensor) {
    const std::int64_t have = buffer.elements.evaluate(plan_.extents.data()),
                       need = ir::element_count(tensor.axes, plan_.extents);
    rows_apart_.emplace_back();
    if (have == need) return true;
    const bool rows = plan_.dynamic_dim >= 0 && tensor.axes.size() >= 2 &&
                      tensor.axes[0].dim == plan_.dynamic_dim &&
                      buffer.role != ir::BufferRole::kParameter && have > need;
    if (!rows) return false;
    const std::int64_t m = plan_.extents[static_cast<std::size_t>(plan_.dynamic_dim)];
    if (have % m != 0) return false;
    const std::size_t size = ir::size_of(buffer.dtype);
    rows_apart_.back() = {static_cast<std::size_t>(need / m) * size,
                          static_cast<std::size_t>(have / m) * size};
    return true;
  }

  // Rows that are apart pass through dense scratch, since kernels walk dense tensors.
  void gather(LaunchMemory& memory, std::int64_t m) const {
    for (std::size_t t = 0; t < rows_apart_.size(); ++t) {
      const RowsApart& rows = rows_apart_[t];
      if (rows.stride == 0) continue;
      AlignedBytes& dense = memory.intermediates[t];
      const std::size_t count = static_cast<std::size_t>(m);
      if (dense.size() < count * rows.bytes) dense.resize(count * rows.bytes);
      if (t < static_cast<std::size_t>(plan_.input_count))
        for (std::size_t r = 0; r < count; ++r)
          std::memcpy(dense.data() + r * rows.bytes, memory.tensors[t] + r * rows.stride,
                      rows.bytes);
      memory.tensors[t] = dense.data();
    }
  }
  void scatter(const LaunchMemory& memory, void* const* outputs, std::int64_t m) const {
    const auto in = static_cast<std::size_t>(plan_.input_count);
    for (std::size_t t = in; t < rows_apart_.size(); ++t) {
      const RowsApart& rows = rows_apart_[t];
      auto* to = static_cast<std::byte*>(outputs[t - in]);
      for (std::size_t r = 0; rows.stride != 0 && r < static_cast<std::size_t>(m); ++r)
        std::memcpy(to + r * rows.stride, memory.tensors[t] + r * rows.bytes, rows.bytes);
    }
  }

  void bind(LaunchMemory& memory, const void* const* inputs,
            const std::vector<const void*>& parameters, void* const* outputs,
            const Prepared& prepared, std::int64_t m) const {
    memory.extents = plan_.extents;
    if (plan_.dynamic_dim >= 0) memory.extents[static_cast<std::size_t>(plan_.dynamic_dim)] = m;
    memory.tensors.assign(graph_.tensors.size(), nullptr);
    memory.intermediates.resize(graph_.tensors.size());
    std::size_t in = static_cast<std::size_t>(plan_.input_count);
    std::size_t out = static_cast<std::size_t>(plan_.output_count);
    for (std::size_t i = 0; i < in; ++i)
      memory.tensors[i] = writable(inputs[i] != nullptr ? inputs[i] : parameters[i]);
    for (std::size_t i = 0; i < out; ++i)
      memory.tensors[in + i] = static_cast<std::byte*>(outputs[i]);
    for (std::size_t t = in + out; t < graph_.tensors.size(); ++t) {
      if (prepared[t]) {
        memory.tensors[t] = prepared[t]->data();
        continue;
      }
      std::size_t bytes =
          static_cast<std::size_t>(bytes_of(graph_.tensors[t], memory.extents, plan_.dtype));
      if (memory.intermediates[t].size() < bytes) memory.intermediates[t].resize(bytes);
      memory.tensors[t] = memory.intermediates[t].data();
    }
  }

  struct RowsApart {
    std::size_t bytes = 0, stride = 0;  // of a row, and between rows; 0: they are not apart
  };

  ir::LaunchPlan plan_;
  ir::MuGraph graph_;
  std::vector<RowsApart> rows_apart_;  // by input and output
  mutable ir::RoundedDomain domain_;
  std::vector<std::unique_ptr<BlockProgram>> kernels_;
  std::unique_ptr<PrepareProgram> prepare_;
  std::vector<int> main_;
  mutable Pool<LaunchMemory> launches_;
};

class HostExecutable final : public Executable {
 public:
  explicit HostExecutable(std::shared_ptr<const Code> code)
      : code_(std::move(code)), prepared_(code_->graph().tensors.size()) {}

  const ir::LaunchPlan& plan() const override { return code_->plan(); }

  void prepare(const std::vector<const void*>& inputs, StreamHandle) override {
    check_inputs(plan(), inputs);
    parameters_ = inputs;
    std::vector<std::byte*> tensors(prepared_.size(), nullptr);
    for (std::size_t i = 0; i < inputs.size(); ++i) tensors[i] = writable(inputs[i]);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const ir::Tensor& tensor = code_->graph().tensors[t];
      if (tensor.kind != ir::TensorKind::kPrepared) continue;
      prepared_[t] = std::make_shared<AlignedBytes>();
      prepared_[t]->resize(
          static_cast<std::size_t>(bytes_of(tensor, plan().extents, plan().dtype)));
      tensors[t] = prepared_[t]->data();
    }
    code_->prepare(tensors.data());
    bound_.store(true, std::memory_order_release);
  }

  // The same prepare graph over the same program: tensors correspond by name.
  bool adopt(const Executable& other) override {
    const auto* from = dynamic_cast<const HostExecutable*>(&other);
    if (from == nullptr || !from->bound_.load(std::memory_order_acquire)) return false;
    const ir::MuGraph &own = code_->graph(), &theirs = from->code_->graph();
    if (plan().workload_key != from->plan().workload_key || plan().dtype != from->plan().dtype ||
        !(own.signature == theirs.signature) || !(own.prepare.graph == theirs.prepare.graph))
      return false;
    Prepared taken(prepared_.size());
    for (std::size_t t = 0; t < taken.size(); ++t) {
      if (own.tensors[t].kind != ir::TensorKind::kPrepared) continue;
      for (std::size_t u = 0; u < theirs.tensors.size(); ++u)
        if (theirs.tensors[u].name == own.tensors[t].name && made_of(theirs, u) == made_of(own, t))
          taken[t] = from->prepared_[u];
      if (!taken[t]) return false;
    }
    prepared_ = std::move(taken);
    parameters_ = from->parameters_;
    bound_.store(true, std::memory_order_release);
    return true;
  }

  void launch(const void* const* inputs, void* const* outputs, std::int64_t m, StreamHandle,
              bool) override {
    check_launch(plan(), m, bound_.load(std::memory_order_acquire));
    if (m != 0) code_->launch(inputs, parameters_, outputs, prepared_, m);
  }

  std::unique_ptr<Executable> replicate() const override {
    return std::make_unique<HostExecutable>(code_);
  }

 private:
  // The value of the prepare graph that tensor `t` holds.
  static ir::ValueId made_of(const ir::MuGraph& graph, std::size_t t) {
    for (const ir::BlockOutput& o : graph.prepare.outputs)
      if (static_cast<std::size_t>(o.tensor) == t) return o.value;
    return ir::kNoValue;
  }

  std::shared_ptr<const Code> code_;
  Prepared prepared_;
  std::vector<const void*> parameters_;
  std::atomic<bool> bound_{false};
};

}  // namespace

std::unique_ptr<Executable> make_executable(const ir::LaunchPlan& plan) {
  return std::make_unique<HostExecutable>(std::make_shared<const Code>(plan));
}

}  // namespace tenon::runtime::host
