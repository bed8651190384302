// A plan loaded on a GPU: modules, prepared weights, and the launch path.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "ir/error.h"
#include "ir/sha256.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/workspace.h"
#include "runtime/plan_check.h"

namespace tenon::runtime::cuda {

namespace {

// What fits on the stack of one launch; plans that need more are refused at load.
constexpr std::size_t kMaxBuffers = 64;
constexpr std::size_t kMaxArgs = 48;
constexpr std::size_t kMaxMaps = 8;
constexpr std::size_t kMaxDims = 64;
// Workspace up to this size is made for the largest m of the plan when it is loaded.
constexpr double kEagerWorkspaceBytes = 64e6;

class ModuleHandle {
 public:
  ModuleHandle(std::shared_ptr<const Context> context, const std::string& cubin)
      : context_(std::move(context)) {
    const Driver& d = context_->driver();
    CUresult result = d.module_load(&handle_, cubin.data());
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE ||
        result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
      d.check(result, fmt::format("loading a cubin made for another GPU or a newer driver than {}",
                                  d.version));
    d.check(result, "loading a cubin");
  }
  ~ModuleHandle() {
    CUcontext popped = nullptr;
    const Driver& d = context_->driver();
    bool pushed = d.context_push(context_->handle()) == CUDA_SUCCESS;
    d.module_unload(handle_);
    if (pushed) d.context_pop(&popped);
  }
  ModuleHandle(const ModuleHandle&) = delete;
  ModuleHandle& operator=(const ModuleHandle&) = delete;
  CUmodule get() const { return handle_; }

 private:
  std::shared_ptr<const Context> context_;
  CUmodule handle_ = nullptr;
};

// One launch of the plan, resolved.
struct Resolved {
  const ir::Launch* spec = nullptr;
  CUfunction function = nullptr;
  bool clustered = false;
  std::unique_ptr<LibraryProduct> product;
};

std::size_t bytes_of(const ir::Buffer& buffer, const std::vector<std::int64_t>& extents) {
  return static_cast<std::size_t>(buffer.elements.evaluate(extents.data())) *
         ir::size_of(buffer.dtype);
}

// Sizes in bytes of the parameters of a kernel must be those of the arguments.
std::size_t argument_bytes(const ir::Arg& arg) {
  switch (arg.kind) {
    case ir::ArgKind::kBuffer:
    case ir::ArgKind::kInt64:
      return 8;
    case ir::ArgKind::kInt32:
    case ir::ArgKind::kFloat:
      return 4;
    case ir::ArgKind::kTensorMap:
      return sizeof(CUtensorMap);
  }
  return 0;
}

// The loaded plan, shared by its bindings: modules, functions, workspace.
class Code {
 public:
  Code(std::shared_ptr<const Context> context, const DeviceInfo& info, const ir::LaunchPlan& plan,
       const std::vector<std::string>& cubins)
      : context_(std::move(context)), driver_(context_->driver()), plan_(plan) {
    check_fits(info);
    Scope scope(*context_);
    load_modules(cubins);
    for (const ir::TensorMapSpec& map : plan_.tensor_maps) index(map.buffer, plan_.buffers.size());
    for (const ir::Launch& launch : plan_.prepare) prepare_.push_back(resolve(launch));
    for (const ir::Launch& launch : plan_.main) main_.push_back(resolve(launch));
    make_workspaces();
    describe_prepare();
  }

  const std::shared_ptr<const Context>& context() const { return context_; }
  const ir::LaunchPlan& plan() const { return plan_; }
  const std::vector<Resolved>& prepare() const { return prepare_; }
  const std::vector<Resolved>& main() const { return main_; }
  bool uses_library() const { return uses_library_; }
  // Buffers of the plan that are workspace, in the order of the workspace's sets.
  const std::vector<std::size_t>& workspace_buffers() const { return workspace_buffers_; }
  Workspaces& workspaces() const { return *workspaces_; }
  // A buffer that prepare makes.
  struct Prepared {
    std::size_t buffer = 0;  // of the plan
    // What makes it, free of the plan's own numbering: buffers of two plans with the same key hold
    // the same bytes where the parameters are the same. Empty: it cannot be said.
    std::string key;
    std::vector<std::size_t> makers;  // prepare launches
  };
  const std::vector<Prepared>& prepared() const { return prepared_; }
  // Indices in `prepared` of all that a prepare launch reads and makes.
  const std::vector<std::vector<std::size_t>>& touched() const { return touched_; }
  bool prepare_needs_workspace() const { return prepare_needs_workspace_; }

 private:
  static std::size_t index(int i, std::size_t size) {
    if (i < 0 || static_cast<std::size_t>(i) >= size)
      throw UserError("an index of the plan", std::to_string(i),
                      fmt::format("0 to {}", static_cast<std::int64_t>(size) - 1));
    return static_cast<std::size_t>(i);
  }

  void check_fits(const DeviceInfo& info) const {
    ir::Target made_for;
    made_for.name = plan_.device_class;
    const int need = made_for.compute_capability();
    const int have = info.target.compute_capability();
    const bool exact = plan_.device_class == info.device_class;
    // A cubin runs on its own and later minor versions of one major; an "a" target on its own
    // alone.
    const bool family =
        need > 0 && plan_.device_class.back() != 'a' && need / 10 == have / 10 && need <= have;
    if (!exact && !family)
      throw UserError("a plan for device class", plan_.device_class,
                      info.device_class + ", the class of " + info.id);
    if (plan_.buffers.size() > kMaxBuffers || plan_.dims.size() > kMaxDims ||
        plan_.extents.size() != plan_.dims.size())
      throw UserError("number of buffers of a plan", std::to_string(plan_.buffers.size()),
                      fmt::format("at most {}", kMaxBuffers));
    if (plan_.input_count < 0 || plan_.output_count < 0 ||
        static_cast<std::size_t>(plan_.input_count + plan_.output_count) > plan_.buffers.size())
      throw UserError("the plan has fewer buffers than inputs and outputs");
  }

  void load_modules(const std::vector<std::string>& cubins) {
    if (cubins.size() != plan_.modules.size())
      throw UserError("number of cubins", std::to_string(cubins.size()),
                      fmt::format("{}, one for each module of the plan", plan_.modules.size()));
    for (std::size_t i = 0; i < cubins.size(); ++i) {
      if (ir::sha256_hex(cubins[i]) != plan_.modules[i].cubin_sha256)
        throw UserError("SHA-256 of cubin " + std::to_string(i), ir::sha256_hex(cubins[i]),
                        plan_.modules[i].cubin_sha256 + ", as the plan says");
      modules_.push_back(std::make_unique<ModuleHandle>(context_, cubins[i]));
    }
  }

  Resolved resolve(const ir::Launch& launch) {
    Resolved r;
    r.spec = &launch;
    switch (launch.kind) {
      case ir::LaunchKind::kCubin:
        resolve_kernel(launch, r);
        break;
      case ir::LaunchKind::kLibrary: {
        const ir::Buffer& a = plan_.buffers[index(launch.a, plan_.buffers.size())];
        index(launch.b, plan_.buffers.size());
        const ir::Buffer& out = plan_.buffers[index(launch.out, plan_.buffers.size())];
        r.product = std::make_unique<LibraryProduct>(
            launch.n.evaluate(plan_.extents.data()), launch.k.evaluate(plan_.extents.data()),
            a.dtype, out.dtype, launch.b_transposed, launch.algorithm);
        r.product->prepare(launch.m.evaluate(plan_.extents.data()));
        uses_library_ = true;
        break;
      }
      case ir::LaunchKind::kFill:
        index(launch.fill_buffer, plan_.buffers.size());
        break;
      case ir::LaunchKind::kHost:
        throw UserError("a launch of a CUDA plan", "host",
                        "a kernel of a cubin, a library product or a fill");
    }
    return r;
  }

  void resolve_kernel(const ir::Launch& launch, Resolved& r) {
    const std::string what = "kernel " + launch.entry;
    driver_.check(
        driver_.module_function(&r.function, modules_[index(launch.module, modules_.size())]->get(),
                                launch.entry.c_str()),
        what);
    check_arguments(launch, r.function);
    if (launch.shared_bytes > 0)
      driver_.check(
          driver_.function_set(r.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               static_cast<int>(launch.shared_bytes)),
          fmt::format("{}: {} bytes of shared memory", what, launch.shared_bytes));
    const int cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
    r.clustered = cluster > 1;
    if (cluster > 8)
      driver_.check(
          driver_.function_set(r.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
          what);
  }

  void check_arguments(const ir::Launch& launch, CUfunction function) const {
    std::size_t maps = 0;
    for (const ir::Arg& arg : launch.args) {
      if (arg.kind == ir::ArgKind::kBuffer) index(arg.buffer, plan_.buffers.size());
      if (arg.kind == ir::ArgKind::kTensorMap) {
        index(arg.tensor_map, plan_.tensor_maps.size());
        ++maps;
      }
    }
    if (launch.args.size() > kMaxArgs || maps > kMaxMaps)
      throw UserError("arguments of kernel " + launch.entry, std::to_string(launch.args.size()),
                      fmt::format("at most {}, {} of them tensor maps", kMaxArgs, kMaxMaps));
    if (driver_.function_parameter == nullptr) return;
    for (std::size_t i = 0; i <= launch.args.size(); ++i) {
      std::size_t offset = 0, size = 0;
      bool exists = driver_.function_parameter(function, i, &offset, &size) == CUDA_SUCCESS;
      bool fits =
          i < launch.args.size() ? exists && size == argument_bytes(launch.args[i]) : !exists;
      if (!fits)
        throw UserError("the arguments of kernel " + launch.entry +
                        " do not fit its parameters; plan and cubin must agree");
    }
  }

  void make_workspaces() {
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].role == ir::BufferRole::kWorkspace) workspace_buffers_.push_back(i);
    auto sizes = [this](std::int64_t m) {
      std::vector<std::int64_t> extents = plan_.extents;
      if (plan_.dynamic_dim >= 0) extents[static_cast<std::size_t>(plan_.dynamic_dim)] = m;
      std::vector<std::size_t> bytes;
      for (std::size_t i : workspace_buffers_) bytes.push_back(bytes_of(plan_.buffers[i], extents));
      if (uses_library_) bytes.push_back(kLibraryWorkspaceBytes);
      return bytes;
    };
    if (plan_.dynamic_dim < 0) {
      workspaces_ = std::make_unique<Workspaces>(context_, sizes, 0, 0);
      return;
    }
    // For the whole interval at once where that is small, else for the tuned m, growing on demand.
    std::int64_t m = plan_.m_max;
    double total = 0;
    for (std::size_t i : workspace_buffers_) {
      std::vector<std::int64_t> extents = plan_.extents;
      extents[static_cast<std::size_t>(plan_.dynamic_dim)] = m;
      total += static_cast<double>(bytes_of(plan_.buffers[i], extents));
    }
    if (total > kEagerWorkspaceBytes)
      m = std::clamp(plan_.extents[static_cast<std::size_t>(plan_.dynamic_dim)], plan_.m_min,
                     plan_.m_max);
    workspaces_ = std::make_unique<Workspaces>(context_, sizes, m, plan_.m_max);
  }

  // A launch makes the prepared buffers that no launch before it names, and those that were only
  // filled; the others it reads.
  void describe_prepare() {
    std::vector<bool> filled;
    for (std::size_t l = 0; l < plan_.prepare.size(); ++l) {
      const ir::Launch& launch = plan_.prepare[l];
      std::vector<std::size_t>& touched = touched_.emplace_back();
      std::vector<std::size_t> made;
      auto name = [&](int index) -> std::string {
        const std::size_t i = static_cast<std::size_t>(index);
        if (i < static_cast<std::size_t>(plan_.input_count)) return fmt::format("in{}", i);
        if (plan_.buffers[i].role != ir::BufferRole::kPrepared) {
          prepare_needs_workspace_ = true;
          return "scratch";
        }
        auto found = std::find_if(prepared_.begin(), prepared_.end(),
                                  [i](const Prepared& p) { return p.buffer == i; });
        const auto j = static_cast<std::size_t>(found - prepared_.begin());
        if (found == prepared_.end()) {
          prepared_.push_back({i, "", {}});
          filled.push_back(true);
        }
        touched.push_back(j);
        if (filled[j] && std::find(made.begin(), made.end(), j) == made.end()) made.push_back(j);
        return fmt::format("[{}]", prepared_[j].key);
      };
      const std::string text = describe(launch, name);
      for (std::size_t j : made) {
        const ir::Buffer& b = plan_.buffers[prepared_[j].buffer];
        const auto place = std::find(touched.begin(), touched.end(), j) - touched.begin();
        prepared_[j].key = ir::sha256_hex(
            fmt::format("{}\n{}\n{}\n{} {} {}", plan_.workload_key, plan_.input_count, text, place,
                        static_cast<int>(b.dtype), b.elements.text()));
        prepared_[j].makers.push_back(l);
        filled[j] = launch.kind == ir::LaunchKind::kFill;
      }
    }
    // What no launch names cannot be shared, but has its place.
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].role == ir::BufferRole::kPrepared &&
          std::none_of(prepared_.begin(), prepared_.end(),
                       [i](const Prepared& p) { return p.buffer == i; }))
        prepared_.push_back({i, "", {}});
  }

  // All that a launch depends on, with its buffers as `name` calls them.
  std::string describe(const ir::Launch& l, const std::function<std::string(int)>& name) {
    std::string text = fmt::format("{} ", static_cast<int>(l.kind));
    if (l.kind == ir::LaunchKind::kLibrary) {
      prepare_needs_workspace_ = true;
      return text + fmt::format("{} {} {} {} {} {} {} {}", name(l.a), name(l.b), name(l.out),
                                l.m.text(), l.n.text(), l.k.text(), l.b_transposed, l.algorithm);
    }
    if (l.kind != ir::LaunchKind::kCubin) return text + name(l.fill_buffer);
    text += fmt::format("{} {} {}", plan_.modules[static_cast<std::size_t>(l.module)].cubin_sha256,
                        l.entry, l.shared_bytes);
    for (int d = 0; d < 3; ++d)
      text += fmt::format(" {},{},{}", l.grid[d].text(), l.block[d].text(), l.cluster[d]);
    for (const ir::Arg& arg : l.args) {
      text +=
          fmt::format("; {} {} {} ", static_cast<int>(arg.kind), arg.integer.text(), arg.number);
      if (arg.kind == ir::ArgKind::kBuffer) text += name(arg.buffer);
      if (arg.kind != ir::ArgKind::kTensorMap) continue;
      const ir::TensorMapSpec& map = plan_.tensor_maps[static_cast<std::size_t>(arg.tensor_map)];
      text += fmt::format("{} {} {} {} {} {} {}", name(map.buffer), map.rows.text(),
                          map.columns.text(), map.row_stride.text(), map.box_rows.text(),
                          map.box_columns, map.swizzle_bytes);
    }
    return text;
  }

  std::shared_ptr<const Context> context_;
  const Driver& driver_;
  ir::LaunchPlan plan_;
  std::vector<std::unique_ptr<ModuleHandle>> modules_;
  std::vector<Resolved> prepare_, main_;
  std::vector<std::size_t> workspace_buffers_;
  std::unique_ptr<Workspaces> workspaces_;
  std::vector<Prepared> prepared_;
  std::vector<std::vector<std::size_t>> touched_;
  bool prepare_needs_workspace_ = false;
  bool uses_library_ = false;
};

class CudaExecutable final : public Executable {
 public:
  explicit CudaExecutable(std::shared_ptr<const Code> code)
      : code_(std::move(code)), plan_(code_->plan()), driver_(code_->context()->driver()) {
    Scope scope(*code_->context());
    for (const ir::TensorMapSpec& map : plan_.tensor_maps)
      maps_.push_back(std::make_unique<TensorMapCache>(
          driver_, map, plan_.buffers[static_cast<std::size_t>(map.buffer)].dtype));
  }

  const ir::LaunchPlan& plan() const override { return plan_; }

  void prepare(const std::vector<const void*>& inputs, StreamHandle stream) override {
    check_inputs(plan_, inputs);
    Scope scope(*code_->context());
    bound_.store(false, std::memory_order_relaxed);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      bound_parameters_[i] = reinterpret_cast<CUdeviceptr>(inputs[i]);
    check_alignment();
    // What was adopted since the last prepare stays.
    const auto& made = code_->prepared();
    if (!adopting_) prepared_.clear();
    adopting_ = false;
    prepared_.resize(made.size());
    const std::vector<bool> runs = missing();
    for (std::size_t j = 0; j < made.size(); ++j)
      fixed_[made[j].buffer] =
          prepared_[j] ? reinterpret_cast<CUdeviceptr>(prepared_[j]->data()) : CUdeviceptr{0};
    Call call = begin(
        inputs.data(), nullptr,
        plan_.dynamic_dim < 0 ? 0 : plan_.extents[static_cast<std::size_t>(plan_.dynamic_dim)],
        stream, code_->prepare_needs_workspace());
    for (std::size_t l = 0; l < runs.size(); ++l)
      if (runs[l]) run(code_->prepare()[l], call, false);
    driver_.check(driver_.stream_synchronize(call.stream), "preparing the weights");
    become_bound();
  }

  bool adopt(const Executable& other) override {
    const auto* from = dynamic_cast<const CudaExecutable*>(&other);
    if (from == nullptr || !from->bound_.load(std::memory_order_acquire) ||
        from->code_->context()->handle() != code_->context()->handle())
      return false;
    const auto &own = code_->prepared(), &theirs = from->code_->prepared();
    if (!adopting_) prepared_.clear();
    prepared_.resize(own.size());
    adopting_ = true;
    bool complete = true;
    for (std::size_t j = 0; j < own.size(); ++j) {
      for (std::size_t i = 0; i < theirs.size() && !prepared_[j]; ++i)
        if (!own[j].key.empty() && own[j].key == theirs[i].key) prepared_[j] = from->prepared_[i];
      if (plan_.buffers[own[j].buffer].in_main && !prepared_[j]) complete = false;
    }
    if (!complete) return false;
    adopting_ = false;
    for (std::size_t j = 0; j < own.size(); ++j)
      fixed_[own[j].buffer] =
          prepared_[j] ? reinterpret_cast<CUdeviceptr>(prepared_[j]->data()) : CUdeviceptr{0};
    std::copy(std::begin(from->bound_parameters_), std::end(from->bound_parameters_),
              std::begin(bound_parameters_));
    check_alignment();
    become_bound();
    return true;
  }

  void launch(const void* const* inputs, void* const* outputs, std::int64_t m, StreamHandle stream,
              bool dependent) override {
    check_launch(plan_, m, bound_.load(std::memory_order_acquire));
    if (m == 0) return;
    Scope scope(*code_->context());
    Call call = begin(inputs, outputs, m, stream, true);
    // What precedes the first launch is the prepare step or unknown: wait for all of it.
    bool fresh =
        fresh_.load(std::memory_order_relaxed) && fresh_.exchange(false, std::memory_order_relaxed);
    const std::vector<Resolved>& main = code_->main();
    for (std::size_t i = 0; i < main.size(); ++i)
      run(main[i], call, dependent && !(fresh && i == 0));
  }

  std::unique_ptr<Executable> replicate() const override {
    return std::make_unique<CudaExecutable>(code_);
  }

 private:
  struct Call {
    CUstream stream;
    std::int64_t extents[kMaxDims];
    CUdeviceptr buffers[kMaxBuffers];
    CUdeviceptr library_workspace;
  };

  // Which prepare launches must run for what the main launches read and `prepared_` lacks;
  // allocates what these make.
  std::vector<bool> missing() {
    const auto& made = code_->prepared();
    std::vector<bool> runs(code_->prepare().size(), false), wanted(made.size(), false);
    for (std::size_t j = 0; j < made.size(); ++j)
      wanted[j] = plan_.buffers[made[j].buffer].in_main && !prepared_[j];
    for (std::size_t l = runs.size(); l-- > 0;) {
      for (std::size_t j : code_->touched()[l]) {
        const std::vector<std::size_t>& makers = made[j].makers;
        if (wanted[j] && std::find(makers.begin(), makers.end(), l) != makers.end()) runs[l] = true;
      }
      if (!runs[l]) continue;
      for (std::size_t j : code_->touched()[l])
        if (!prepared_[j]) wanted[j] = true;
    }
    for (std::size_t j = 0; j < made.size(); ++j)
      if (wanted[j])
        prepared_[j] = std::make_shared<CudaMemory>(
            code_->context(), bytes_of(plan_.buffers[made[j].buffer], plan_.extents));
    return runs;
  }

  // Steps on the way to what the launches read (weights folded, then packed) are not kept.
  void become_bound() {
    for (std::size_t j = 0; j < prepared_.size(); ++j)
      if (!plan_.buffers[code_->prepared()[j].buffer].in_main) {
        prepared_[j].reset();
        fixed_[code_->prepared()[j].buffer] = 0;
      }
    fresh_.store(true, std::memory_order_relaxed);
    bound_.store(true, std::memory_order_release);
  }

  // A parameter under a tensor map is read where it is, by copies of 16 bytes.
  void check_alignment() const {
    for (const ir::TensorMapSpec& map : plan_.tensor_maps) {
      const ir::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(map.buffer)];
      const CUdeviceptr address = bound_parameters_[map.buffer];
      if (buffer.role == ir::BufferRole::kParameter && address % 16 != 0)
        throw UserError("address of parameter " + buffer.name, fmt::format("{:#x}", address),
                        "a multiple of 16 bytes, since this plan reads it where it is");
    }
  }

  Call begin(const void* const* inputs, void* const* outputs, std::int64_t m, StreamHandle stream,
             bool workspace) {
    Call call;
    call.stream = static_cast<CUstream>(stream);
    std::memcpy(call.extents, plan_.extents.data(), plan_.extents.size() * sizeof(std::int64_t));
    if (plan_.dynamic_dim >= 0) call.extents[plan_.dynamic_dim] = m;
    std::memcpy(call.buffers, fixed_, plan_.buffers.size() * sizeof(CUdeviceptr));
    const std::size_t in = static_cast<std::size_t>(plan_.input_count),
                      out = static_cast<std::size_t>(plan_.output_count);
    for (std::size_t i = 0; i < in; ++i) {
      CUdeviceptr given = inputs ? reinterpret_cast<CUdeviceptr>(inputs[i]) : 0;
      call.buffers[i] = given ? given : bound_parameters_[i];
    }
    for (std::size_t i = 0; i < out; ++i)
      call.buffers[in + i] = outputs ? reinterpret_cast<CUdeviceptr>(outputs[i]) : 0;
    call.library_workspace = 0;
    if (!workspace) return call;
    if (const CUdeviceptr* addresses = code_->workspaces().of(call.stream, m)) {
      const std::vector<std::size_t>& buffers = code_->workspace_buffers();
      for (std::size_t i = 0; i < buffers.size(); ++i) call.buffers[buffers[i]] = addresses[i];
      if (code_->uses_library()) call.library_workspace = addresses[buffers.size()];
    }
    return call;
  }

  void run(const Resolved& launch, const Call& call, bool dependent) {
    const ir::Launch& spec = *launch.spec;
    switch (spec.kind) {
      case ir::LaunchKind::kCubin:
        run_kernel(launch, call, dependent && spec.dependent);
        return;
      case ir::LaunchKind::kLibrary:
        launch.product->launch(spec.m.evaluate(call.extents), call.buffers[spec.a],
                               call.buffers[spec.b], call.buffers[spec.out], call.library_workspace,
                               call.stream);
        return;
      case ir::LaunchKind::kFill: {
        const ir::Buffer& buffer = plan_.buffers[static_cast<std::size_t>(spec.fill_buffer)];
        std::size_t bytes = static_cast<std::size_t>(buffer.elements.evaluate(call.extents)) *
                            ir::size_of(buffer.dtype);
        CUresult result =
            bytes ? driver_.memset_async(call.buffers[spec.fill_buffer], 0, bytes, call.stream)
                  : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS) driver_.check(result, "filling buffer " + buffer.name);
        return;
      }
      case ir::LaunchKind::kHost:
        return;  // refused by resolve
    }
  }

  void run_kernel(const Resolved& launch, const Call& call, bool dependent) {
    const ir::Launch& spec = *launch.spec;
    union Value {
      CUdeviceptr address;
      std::int64_t wide;
      std::int32_t narrow;
      float real;
    };
    Value values[kMaxArgs];
    CUtensorMap maps[kMaxMaps];
    void* pointers[kMaxArgs];
    std::size_t map = 0;
    for (std::size_t i = 0; i < spec.args.size(); ++i) {
      const ir::Arg& arg = spec.args[i];
      pointers[i] = &values[i];
      switch (arg.kind) {
        case ir::ArgKind::kBuffer:
          values[i].address = call.buffers[arg.buffer];
          break;
        case ir::ArgKind::kInt64:
          values[i].wide = arg.integer.evaluate(call.extents);
          break;
        case ir::ArgKind::kInt32:
          values[i].narrow = static_cast<std::int32_t>(arg.integer.evaluate(call.extents));
          break;
        case ir::ArgKind::kFloat:
          values[i].real = static_cast<float>(arg.number);
          break;
        case ir::ArgKind::kTensorMap: {
          TensorMapCache& cache = *maps_[static_cast<std::size_t>(arg.tensor_map)];
          cache.get(maps[map], call.buffers[cache.buffer()], call.extents);
          pointers[i] = &maps[map++];
          break;
        }
      }
    }
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (launch.clustered) {
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[count].value.clusterDim.x = static_cast<unsigned>(spec.cluster[0]);
      attributes[count].value.clusterDim.y = static_cast<unsigned>(spec.cluster[1]);
      attributes[count].value.clusterDim.z = static_cast<unsigned>(spec.cluster[2]);
      ++count;
    }
    if (dependent) {
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attributes[count].value.programmaticStreamSerializationAllowed = 1;
      ++count;
    }
    CUlaunchConfig config;
    auto size = [&](const ir::SizeExpr& e) {
      return static_cast<unsigned>(e.evaluate(call.extents));
    };
    config.gridDimX = size(spec.grid[0]);
    config.gridDimY = size(spec.grid[1]);
    config.gridDimZ = size(spec.grid[2]);
    config.blockDimX = size(spec.block[0]);
    config.blockDimY = size(spec.block[1]);
    config.blockDimZ = size(spec.block[2]);
    config.sharedMemBytes = static_cast<unsigned>(spec.shared_bytes);
    config.hStream = call.stream;
    config.attrs = attributes;
    config.numAttrs = count;
    CUresult result = driver_.launch(&config, launch.function, pointers, nullptr);
    if (result != CUDA_SUCCESS) driver_.check(result, "launching kernel " + spec.entry);
  }

  std::shared_ptr<const Code> code_;
  const ir::LaunchPlan& plan_;
  const Driver& driver_;
  std::vector<std::unique_ptr<TensorMapCache>> maps_;
  std::vector<std::shared_ptr<CudaMemory>> prepared_;  // in the order of Code::prepared
  bool adopting_ = false;                              // some of them for the prepare to come
  CUdeviceptr fixed_[kMaxBuffers] = {};                // prepared buffers
  CUdeviceptr bound_parameters_[kMaxBuffers] = {};     // as given to prepare
  std::atomic<bool> bound_{false};
  std::atomic<bool> fresh_{false};
};

}  // namespace

std::unique_ptr<Executable> load_plan(std::shared_ptr<const Context> context,
                                      const DeviceInfo& info, const ir::LaunchPlan& plan,
                                      const std::vector<std::string>& cubins) {
  return std::make_unique<CudaExecutable>(
      std::make_shared<const Code>(std::move(context), info, plan, cubins));
}

}  // namespace tenon::runtime::cuda
