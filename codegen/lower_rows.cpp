// Rows kernels: codegen/device/portable/rows.cuh.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/codegen.h"
#include "codegen/functors.h"
#include "codegen/lower.h"

namespace tenon::codegen {

namespace {

// Registers that a kept source may take in a thread, in words.
constexpr std::int64_t kCacheWords = 32;

class RowsLowering {
 public:
  RowsLowering(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
               const ir::Workload& workload, const LowerOptions& options)
      : facts_(facts),
        params_(ir::rows_params(schedule)),
        options_(options),
        writer_(facts, workload, options, false, params_.splits > 1),
        context_(writer_.context()),
        kinds_(output_kinds(context_)) {}

  Lowered run() {
    for (std::size_t i : kinds_.wide)
      sources_.push_back(output_source(context_, output(i), inner_dim(context_, output(i).tensor)));
    choose_run();
    choose_cached();
    write_structs();
    write_kernel();
    return launch();
  }

 private:
  const ir::Dataflow::Output& output(std::size_t i) const { return facts_.flow.outputs[i]; }

  // Elements of a run: 16 bytes, unless no source is contiguous along it.
  void choose_run() {
    bool contiguous = false;
    auto look = [&](int source, int dim) {
      if (source >= 0 && dim >= 0 && context_.stride(source, dim) == 1) contiguous = true;
    };
    for (const ir::SumPass& pass : facts_.passes) look(pass.source, pass.dim);
    for (std::size_t i = 0; i < kinds_.wide.size(); ++i)
      look(sources_[i], inner_dim(context_, output(kinds_.wide[i]).tensor));
    if (contiguous) run_ = static_cast<int>(16 / ir::size_of(context_.elem()));
  }

  // The source that most passes and outputs stream along one dim, if it fits in registers.
  void choose_cached() {
    if (params_.splits > 1) return;
    std::map<std::pair<int, int>, int> uses;
    for (const ir::SumPass& pass : facts_.passes) ++uses[{pass.source, pass.dim}];
    for (std::size_t i = 0; i < kinds_.wide.size(); ++i)
      ++uses[{sources_[i], inner_dim(context_, output(kinds_.wide[i]).tensor)}];
    int best = 1;
    for (const auto& [key, count] : uses) {
      if (count <= best || key.first < 0 || key.second < 0) continue;
      std::int64_t step = std::int64_t{params_.group} * run_;
      std::int64_t runs = (context_.extent(key.second) + step - 1) / step;
      std::int64_t bytes =
          static_cast<std::int64_t>(ir::size_of(context_.type(context_.input(key.first))));
      if (runs * std::max<std::int64_t>(1, run_ * bytes / 4) > kCacheWords) continue;
      best = count;
      cached_ = key;
      cached_runs_ = runs;
    }
  }
  bool is_cached(int source, int dim) const {
    return cached_runs_ > 0 && cached_ == std::pair(source, dim);
  }

  void write_structs() {
    for (std::size_t p = 0; p < facts_.passes.size(); ++p) {
      const ir::SumPass& pass = facts_.passes[p];
      std::vector<ir::ValueId> operands;
      for (int i = 0; i < pass.count; ++i)
        operands.push_back(facts_.sums[static_cast<std::size_t>(pass.first + i)].operand);
      std::string name = fmt::format("Pass{}", p);
      bool cached = is_cached(pass.source, pass.dim);
      structs_ += row_struct(context_, name + "Row", operands);
      structs_ += pass_struct(context_, name, pass, name + "Row", cached);
      passes_.push_back(name);
      if (cached) cached_name_ = name;
    }
    for (std::size_t i = 0; i < kinds_.wide.size(); ++i) {
      const ir::Dataflow::Output& out = output(kinds_.wide[i]);
      std::string name = fmt::format("Output{}", i);
      bool cached = is_cached(sources_[i], inner_dim(context_, out.tensor));
      structs_ += row_struct(context_, name + "Row", {out.value});
      structs_ += output_struct(context_, name, out, writer_.output(kinds_.wide[i]), name + "Row",
                                sources_[i], cached);
      wide_.push_back(name);
      if (cached) cached_name_ = name;
    }
    for (std::size_t i = 0; i < kinds_.row_only.size(); ++i) {
      const ir::Dataflow::Output& out = output(kinds_.row_only[i]);
      std::string name = fmt::format("RowOutput{}", i);
      structs_ += row_struct(context_, name + "Row", {out.value});
      structs_ +=
          row_output_struct(context_, name, out, writer_.output(kinds_.row_only[i]), name + "Row");
      row_only_.push_back(name);
    }
  }

  void write_kernel() {
    kernel_ += index_table("Pass", passes_) + index_table("Output", wide_) +
               index_table("RowOutput", row_only_);
    kernel_ += fmt::format(
        "struct Kernel {{\n"
        "  using Args = KernelArgs;\n"
        "  static __device__ long long rows(const Args& args) {{ return {rows}; }}\n"
        "  static constexpr int kThreads = {threads}, kGroup = {group}, kRun = {run}, kSplits = "
        "{splits};\n"
        "  static constexpr int kSums = {sums}, kPasses = {passes}, kOutputs = {wide}, kRowOutputs "
        "= {narrow};\n"
        "  static constexpr bool kDependent = {dependent};\n"
        "  static constexpr int kCachedRuns = {cached_runs};\n"
        "  using Cached = {cached};\n"
        "  using CachedSource = {cached_source};\n"
        "  template <int p> using Pass = typename PassAt<p>::Type;\n"
        "  template <int o> using Output = typename OutputAt<o>::Type;\n"
        "  template <int o> using RowOutput = typename RowOutputAt<o>::Type;\n"
        "}};\n",
        fmt::arg("rows", writer_.rows_expression()), fmt::arg("threads", params_.threads),
        fmt::arg("group", params_.group), fmt::arg("run", run_), fmt::arg("splits", params_.splits),
        fmt::arg("sums", facts_.sums.size()), fmt::arg("passes", passes_.size()),
        fmt::arg("wide", wide_.size()), fmt::arg("narrow", row_only_.size()),
        fmt::arg("dependent", options_.dependent), fmt::arg("cached_runs", cached_runs_),
        fmt::arg("cached", cached_runs_ > 0 ? cached_name_ : "void"),
        fmt::arg("cached_source", cached_runs_ > 0 ? cached_name_ + "::Source" : "float"));
  }

  Lowered launch() const {
    Lowered out;
    out.includes = "#include \"device/portable/rows.cuh\"\n";
    out.entry = writer_.entry();
    out.threads = params_.threads;
    int rows_per_block = params_.threads / params_.group;
    std::string blocks = fmt::format("ceildiv({}, {})", writer_.rows_size(), rows_per_block);
    out.grid_x = writer_.size(blocks);
    out.grid_y = params_.splits;
    out.takes_m = writer_.takes_m();
    out.uses_workspace = params_.splits > 1;
    if (out.uses_workspace) {
      out.partials = writer_.size(fmt::format("{} * {}", blocks,
                                              std::int64_t{params_.splits} * rows_per_block *
                                                  static_cast<std::int64_t>(facts_.sums.size())));
      out.counters = writer_.size(blocks);
    }
    out.code =
        fmt::format("namespace {} {{\n\n{}\n{}\n{}\n{}\n}}  // namespace {}\n", options_.name,
                    writer_.args_struct(), structs_, kernel_,
                    writer_.entry_function("RowsKernel<Kernel>", params_.threads), options_.name);
    return out;
  }

  const ir::KernelFacts& facts_;
  ir::RowsParams params_;
  const LowerOptions& options_;
  KernelWriter writer_;
  const KernelContext& context_;
  OutputKinds kinds_;
  std::vector<int> sources_;  // of wide outputs
  int run_ = 1;
  std::pair<int, int> cached_{-1, -1};  // input, dim
  std::int64_t cached_runs_ = 0;
  std::string cached_name_;
  std::string structs_, kernel_;
  std::vector<std::string> passes_, wide_, row_only_;
};

}  // namespace

Lowered lower_rows(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                   const ir::Workload& workload, const LowerOptions& options) {
  return RowsLowering(facts, schedule, workload, options).run();
}

}  // namespace tenon::codegen
