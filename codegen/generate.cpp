// A candidate's launch plan and sources, kernel by kernel.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/codegen.h"
#include "codegen/lower.h"
#include "codegen/lower_hopper.h"
#include "codegen/prepare.h"
#include "ir/family.h"

namespace tenon::codegen {

namespace {

// The largest extent of m that kernels index with 32-bit row numbers (a tile may reach past it).
constexpr std::int64_t kMaxM = 2147483647 - (1 << 20);

// "// " before every line.
std::string comment(const std::string& text) {
  std::string out, line;
  for (char c : text + (text.empty() || text.back() != '\n' ? "\n" : "")) {
    if (c != '\n') {
      line += c;
      continue;
    }
    out += line.empty() ? "//\n" : "// " + line + "\n";
    line.clear();
  }
  return out;
}

std::string sanitized(const std::string& name) {
  std::string out = name;
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

// One translation unit: comment, the headers its kernels need, the kernels.
class SourceBuilder {
 public:
  void add(const Lowered& kernel) {
    if (std::find(includes_.begin(), includes_.end(), kernel.includes) == includes_.end())
      includes_.push_back(kernel.includes);
    code_ += "\n" + kernel.code;
    if (kernel.pad) {
      code_ += "\n" + kernel.pad->code;
      entries_.push_back(kernel.pad->entry);
    }
    entries_.push_back(kernel.entry);
  }
  void add(const Repack& repack) {
    static const std::string kInclude =
        "#include \"device/hopper/repack.cuh\"\n#include \"device/portable/run.cuh\"\n";
    if (std::find(includes_.begin(), includes_.end(), kInclude) == includes_.end())
      includes_.push_back(kInclude);
    code_ += "\n" + repack.code;
    entries_.push_back(repack.entry);
  }
  bool empty() const { return entries_.empty(); }
  Source build(const std::string& about) const {
    Source source;
    source.text = comment(about);
    for (const std::string& include : includes_) source.text += include;
    // Declared first: a source of repacking kernels alone includes nothing that does.
    source.text +=
        "\nnamespace tenon::device::portable {}\nusing namespace tenon::device::portable;\n" +
        code_;
    source.entries = entries_;
    return source;
  }

 private:
  std::vector<std::string> includes_;
  std::string code_;
  std::vector<std::string> entries_;
};

class PlanBuilder {
 public:
  PlanBuilder(const ir::MuGraph& graph, const ir::Schedule& schedule, const ir::Workload& workload,
              const ir::Target& target)
      : graph_(graph), schedule_(schedule), workload_(workload), target_(target) {}

  Generated run() {
    check();
    describe();
    add_buffers();
    if (target_.is_host())
      add_host_launches();
    else
      add_device_launches();
    return std::move(out_);
  }

 private:
  void check() const {
    if (schedule_.kernels.size() != graph_.kernels.size())
      throw Rejected(fmt::format("the schedule has {} kernels and the µGraph {}",
                                 schedule_.kernels.size(), graph_.kernels.size()));
    if (schedule_.dependent_launch && target_.compute_capability() < 90)
      throw Rejected(fmt::format("dependent launch needs sm_90 or later, not {}", target_.name));
    for (std::size_t i = 0; i < graph_.kernels.size(); ++i) {
      ir::KernelView kernel = ir::view(graph_, i);
      if (auto reason = ir::illegal(kernel, schedule_.kernels[i], workload_, target_))
        throw Rejected(fmt::format("kernel {}: {}", kernel.name, *reason));
    }
  }

  void describe() {
    ir::LaunchPlan& plan = out_.plan;
    const ir::Signature& signature = graph_.signature;
    plan.workload_key = ir::key(workload_);
    plan.program = workload_.program.signature.program;
    plan.dims = workload_.program.signature.dims;
    plan.extents = workload_.extents;
    plan.dynamic_dim = ir::dynamic_dim(workload_);
    if (plan.dynamic_dim >= 0) {
      // Kernels are correct for every m up to the end of the tuned one's bucket: fewer rows leave
      // some of a tile empty. What suits an m is the question of whoever chooses a plan.
      const std::int64_t m = workload_.extents[static_cast<std::size_t>(plan.dynamic_dim)];
      const ir::Bucket bucket = ir::bucket_of(m);
      plan.m_min = 1;
      plan.m_max = std::max(m, std::min(bucket.high, kMaxM));
    }
    plan.dtype = workload_.dtype;
    plan.device_class = target_.name;
    plan.dependent_launch = schedule_.dependent_launch;
    plan.mugraph = ir::print(graph_);
    plan.schedule = ir::print(schedule_);
    plan.input_count = static_cast<int>(signature.inputs.size());
    plan.output_count = static_cast<int>(signature.outputs.size());
    for (const auto& [name, fallback] : signature.attributes)
      plan.attributes.push_back(workload_.attributes.at(name));
  }

  ir::SizeExpr size(const std::string& text) const {
    return ir::SizeExpr::parse(text, workload_.program.signature.dims);
  }

  ir::SizeExpr elements(const ir::Axes& axes) const {
    std::string text;
    for (const ir::Axis& axis : axes)
      text += (text.empty() ? "" : "*") + workload_.program.signature.dims[axis.dim];
    return size(text.empty() ? "1" : text);
  }

  int add_buffer(const std::string& name, ir::BufferRole role, ir::DType dtype,
                 const ir::SizeExpr& count) {
    ir::Buffer buffer;
    buffer.name = name;
    buffer.role = role;
    buffer.dtype = ir::bind(dtype, workload_.dtype);
    buffer.elements = count;
    out_.plan.buffers.push_back(std::move(buffer));
    return static_cast<int>(out_.plan.buffers.size()) - 1;
  }

  void add_buffers() {
    std::size_t inputs = graph_.signature.inputs.size();
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      const ir::Tensor& tensor = graph_.tensors[t];
      ir::BufferRole role = ir::BufferRole::kWorkspace;
      switch (tensor.kind) {
        case ir::TensorKind::kInput:
          TENON_CHECK(t < inputs, "inputs come first");
          role = graph_.signature.inputs[t].role == ir::Role::kParameter
                     ? ir::BufferRole::kParameter
                     : ir::BufferRole::kActivation;
          break;
        case ir::TensorKind::kPrepared:
          role = ir::BufferRole::kPrepared;
          break;
        case ir::TensorKind::kOutput:
          role = ir::BufferRole::kOutput;
          break;
        case ir::TensorKind::kIntermediate:
          break;
      }
      const ir::SizeExpr count =
          ir::has_row_stride(tensor, workload_)
              ? size(fmt::format("{}*{}", workload_.program.signature.dims[tensor.axes[0].dim],
                                 workload_.row_strides.at(tensor.name)))
              : elements(tensor.axes);
      buffers_[tensor.name] = add_buffer(tensor.name, role, tensor.dtype, count);
    }
  }

  ir::Arg buffer_arg(int buffer) const {
    ir::Arg arg;
    arg.kind = ir::ArgKind::kBuffer;
    arg.buffer = buffer;
    return arg;
  }

  void mark_in_main(const ir::Launch& launch) {
    auto mark = [&](int buffer) {
      if (buffer >= 0) out_.plan.buffers[static_cast<std::size_t>(buffer)].in_main = true;
    };
    for (const ir::Arg& arg : launch.args) {
      if (arg.kind == ir::ArgKind::kBuffer) mark(arg.buffer);
      if (arg.kind == ir::ArgKind::kTensorMap)
        mark(out_.plan.tensor_maps[static_cast<std::size_t>(arg.tensor_map)].buffer);
    }
    mark(launch.a);
    mark(launch.b);
    mark(launch.out);
  }

  // --- host: launches name kernels of the µGraph --------------------------------------------

  void add_host_launches() {
    if (!graph_.prepare.outputs.empty()) {
      ir::Launch launch;
      launch.kind = ir::LaunchKind::kHost;
      launch.entry = "prepare";
      out_.plan.prepare.push_back(launch);
    }
    for (std::size_t i = 0; i < graph_.kernels.size(); ++i) {
      ir::Launch launch;
      launch.kind = ir::LaunchKind::kHost;
      launch.entry = std::to_string(i);
      const ir::Kernel& kernel = graph_.kernels[i];
      auto use = [&](ir::TensorId t) {
        out_.plan.buffers[static_cast<std::size_t>(t)].in_main = true;
      };
      if (const ir::LibraryMatmul* product = kernel.library()) {
        for (ir::TensorId t : {product->a, product->b, product->out}) use(t);
      } else {
        for (const ir::BlockInput& in : kernel.block()->inputs) use(in.tensor);
        for (const ir::BlockOutput& o : kernel.block()->outputs) use(o.tensor);
      }
      out_.plan.main.push_back(launch);
    }
  }

  // --- GPU ------------------------------------------------------------------------------------

  void add_device_launches() {
    SourceBuilder main_source;
    int main_module = -1;
    for (std::size_t i = 0; i < graph_.kernels.size(); ++i) {
      if (const ir::LibraryMatmul* product = graph_.kernels[i].library()) {
        add_library_launch(*product, schedule_.kernels[i]);
        continue;
      }
      if (main_module < 0) main_module = add_module();
      add_kernel(i, main_source, main_module);
    }
    if (!main_source.empty())
      out_.sources.push_back(main_source.build(out_.plan.mugraph + "\nschedule " +
                                               out_.plan.schedule + "\n" + ir::print(workload_) +
                                               "\n"));
    add_prepare();
  }

  int add_module() {
    ir::Module module;
    module.target = target_.name;
    out_.plan.modules.push_back(module);
    return static_cast<int>(out_.plan.modules.size()) - 1;
  }

  void add_kernel(std::size_t i, SourceBuilder& source, int module) {
    const ir::Kernel& kernel = graph_.kernels[i];
    ir::KernelView kernel_view = ir::view(graph_, i);
    LowerOptions options{fmt::format("{}_{}", sanitized(kernel.name), i),
                         schedule_.dependent_launch};
    Lowered lowered = lower(*kernel_view.facts, schedule_.kernels[i], options);
    source.add(lowered);
    if (lowered.pad) add_pad(*lowered.pad, *kernel_view.facts, module);
    ir::Launch launch = make_launch(lowered, *kernel_view.facts, module, kernel.name);
    launch.dependent = schedule_.dependent_launch;
    mark_in_main(launch);
    out_.plan.main.push_back(std::move(launch));
  }

  void add_pad(const Pad& pad, const ir::KernelFacts& facts, int module) {
    const std::string& from = facts.flow.inputs[static_cast<std::size_t>(pad.input)].name;
    padded_[from] =
        add_buffer(from + ".padded", ir::BufferRole::kWorkspace, workload_.dtype, pad.elements);
    ir::Launch launch;
    launch.module = module;
    launch.entry = pad.entry;
    launch.grid[0] = pad.blocks;
    launch.block[0] = 256;
    ir::Arg rows;
    rows.kind = ir::ArgKind::kInt32;
    rows.integer = pad.rows;
    launch.args = {buffer_arg(buffers_.at(from)), buffer_arg(padded_.at(from)), rows};
    launch.dependent = schedule_.dependent_launch;
    mark_in_main(launch);
    out_.plan.main.push_back(std::move(launch));
  }

  Lowered lower(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                const LowerOptions& options) const {
    const ir::Workload workload =
        facts.flow.merge ? ir::kernel_workload(facts, workload_) : workload_;
    if (ir::is_hopper_family(schedule.family))
      return lower_hopper(facts, schedule, workload, target_, options);
    return schedule.family == "rows" ? lower_rows(facts, schedule, workload, options)
                                     : lower_contraction(facts, schedule, workload, options);
  }

  ir::Launch make_launch(const Lowered& lowered, const ir::KernelFacts& facts, int module,
                         const std::string& kernel) {
    ir::Launch launch;
    launch.kind = ir::LaunchKind::kCubin;
    launch.module = module;
    launch.entry = lowered.entry;
    launch.grid[0] = lowered.grid_x;
    launch.grid[1] = lowered.grid_y;
    launch.block[0] = lowered.threads;
    launch.shared_bytes = lowered.shared_bytes;
    launch.cluster[0] = lowered.cluster;
    std::vector<int> inputs;
    for (const ir::Tensor& tensor : facts.flow.inputs) inputs.push_back(buffers_.at(tensor.name));
    if (lowered.pad) {
      const auto input = static_cast<std::size_t>(lowered.pad->input);
      inputs[input] = padded_.at(facts.flow.inputs[input].name);
    }
    if (lowered.repack) {
      int& from = inputs[static_cast<std::size_t>(lowered.repack->input)];
      from = repacked(*lowered.repack, from);
    }
    for (const MapArg& map : lowered.maps)
      launch.args.push_back(map_arg(map, inputs[static_cast<std::size_t>(map.input)]));
    for (int input : inputs) launch.args.push_back(buffer_arg(input));
    for (const ir::Dataflow::Output& output : facts.flow.outputs)
      launch.args.push_back(buffer_arg(buffers_.at(output.tensor.name)));
    if (lowered.uses_workspace) {
      launch.args.push_back(buffer_arg(add_buffer(kernel + ".partials", ir::BufferRole::kWorkspace,
                                                  ir::DType::kF32, lowered.partials)));
      launch.args.push_back(buffer_arg(add_buffer(kernel + ".counters", ir::BufferRole::kWorkspace,
                                                  ir::DType::kF32, lowered.counters)));
    }
    if (lowered.scratch)
      launch.args.push_back(buffer_arg(add_buffer(kernel + ".scratch", ir::BufferRole::kWorkspace,
                                                  ir::DType::kF32, *lowered.scratch)));
    if (lowered.takes_m) {
      ir::Arg m;
      m.kind = ir::ArgKind::kInt32;
      m.integer = size("m");
      launch.args.push_back(m);
    }
    if (lowered.tile_rows) {
      ir::Arg rows;
      rows.kind = ir::ArgKind::kInt32;
      rows.integer = *lowered.tile_rows;
      launch.args.push_back(rows);
    }
    return launch;
  }

  ir::Arg map_arg(const MapArg& map, int buffer) {
    ir::TensorMapSpec spec;
    spec.buffer = buffer;
    spec.rows = map.rows;
    spec.columns = map.columns;
    spec.row_stride = map.row_stride;
    spec.box_rows = map.box_rows;
    spec.box_columns = 64;
    spec.swizzle_bytes = 128;
    spec.l2_promotion_bytes = map.promotion;
    out_.plan.tensor_maps.push_back(spec);
    ir::Arg arg;
    arg.kind = ir::ArgKind::kTensorMap;
    arg.tensor_map = static_cast<int>(out_.plan.tensor_maps.size()) - 1;
    return arg;
  }

  // The buffer that holds `from` in the order that a kernel streams.
  int repacked(const Repack& repack, int from) {
    for (const PendingRepack& r : repacks_)
      if (r.from == from && r.repack.code == repack.code) return r.to;
    const std::string name = out_.plan.buffers[static_cast<std::size_t>(from)].name + ".streamed";
    int to =
        add_buffer(name, ir::BufferRole::kPrepared, workload_.dtype, ir::SizeExpr(repack.elements));
    repacks_.push_back({repack, from, to});
    return to;
  }

  void add_library_launch(const ir::LibraryMatmul& product, const ir::KernelSchedule& schedule) {
    const ir::Tensor& a = graph_.tensors[static_cast<std::size_t>(product.a)];
    const ir::Tensor& b = graph_.tensors[static_cast<std::size_t>(product.b)];
    const std::vector<std::string>& dims = workload_.program.signature.dims;
    ir::Launch launch;
    launch.kind = ir::LaunchKind::kLibrary;
    launch.a = product.a;
    launch.b = product.b;
    launch.out = product.out;
    launch.b_transposed = b.axes[1].dim == product.dim;
    launch.m = size(dims[a.axes[0].dim]);
    launch.k = size(dims[product.dim]);
    launch.n = size(dims[launch.b_transposed ? b.axes[0].dim : b.axes[1].dim]);
    launch.algorithm = static_cast<int>(schedule.get("algorithm", 0));
    mark_in_main(launch);
    out_.plan.main.push_back(std::move(launch));
  }

  // Every step is a module of its own, with names that say nothing of the plan: steps that plans
  // have in common are compiled once, and the runtime sees that they make the same
  // (runtime/cuda/executable.cpp).
  void add_prepare() {
    std::vector<PrepareStep> steps;
    if (!graph_.prepare.outputs.empty()) steps = prepare_steps(graph_, workload_, target_);
    for (const PrepareStep& step : steps) {
      const ir::KernelFacts& facts = step.facts;
      for (const ir::Dataflow::Output& output : facts.flow.outputs)
        if (!buffers_.count(output.tensor.name))
          buffers_[output.tensor.name] =
              add_buffer(output.tensor.name, ir::BufferRole::kPrepared, output.tensor.dtype,
                         elements(output.tensor.axes));
      Lowered lowered = lower(facts, step.schedule, {"prepare", false});
      SourceBuilder source;
      source.add(lowered);
      const std::string made = facts.flow.outputs[0].tensor.name;
      out_.plan.prepare.push_back(make_launch(lowered, facts, add_module(), made));
      out_.sources.push_back(source.build("prepare " + made));
    }
    for (const PendingRepack& r : repacks_) {
      SourceBuilder source;
      source.add(r.repack);
      ir::Launch launch;
      launch.module = add_module();
      launch.entry = r.repack.entry;
      launch.grid[0] = r.repack.blocks;
      launch.block[0] = 256;
      launch.args = {buffer_arg(r.from), buffer_arg(r.to)};
      out_.plan.prepare.push_back(std::move(launch));
      out_.sources.push_back(source.build("prepare: weights in the order of their use"));
    }
  }

  const ir::MuGraph& graph_;
  const ir::Schedule& schedule_;
  const ir::Workload& workload_;
  const ir::Target& target_;
  Generated out_;
  std::map<std::string, int> buffers_;  // by tensor name
  std::map<std::string, int> padded_;   // copies of them (Pad)
  struct PendingRepack {
    Repack repack;
    int from = -1, to = -1;
  };
  std::vector<PendingRepack> repacks_;
};

}  // namespace

Generated generate(const ir::MuGraph& graph, const ir::Schedule& schedule,
                   const ir::Workload& workload, const ir::Target& target) {
  return PlanBuilder(graph, schedule, workload, target).run();
}

}  // namespace tenon::codegen
