// Contraction kernels: codegen/device/portable/contraction.cuh.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/functors.h"
#include "codegen/lower.h"

namespace tenon::codegen {

namespace {

class ContractionLowering {
 public:
  ContractionLowering(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                      const ir::Workload& workload, const LowerOptions& options)
      : facts_(facts),
        workload_(workload),
        params_(ir::contraction_params(schedule)),
        layout_(ir::contraction_layout(facts, workload)),
        options_(options),
        writer_(facts, workload, options, ir::uses_tensor_cores(params_, workload.dtype),
                params_.leaves_parts()),
        context_(writer_.context()),
        kinds_(output_kinds(context_)) {}

  Lowered run() {
    Lowered out = launch();
    out.code = body(writer_.entry_function("ContractionKernel<Kernel>", params_.threads()));
    return out;
  }

  // The kernel's namespace, `entry` its last definition.
  std::string body(const std::string& entry) {
    write_rows_and_sums();
    write_operands();
    write_outputs();
    write_kernel();
    return fmt::format("namespace {} {{\n\n{}\n{}\n{}\n{}\n}}  // namespace {}\n", options_.name,
                       writer_.args_struct(), structs_, kernel_, entry, options_.name);
  }

  const KernelWriter& writer() const { return writer_; }
  // Tiles of outputs, as an expression in dims; floats that one block of a split leaves.
  std::string tiles() const {
    std::int64_t tiles_n = (context_.extent(facts_.column) + params_.tile_n - 1) / params_.tile_n;
    return fmt::format("ceildiv({}, {}) * {}", writer_.rows_size(), params_.tile_m, tiles_n);
  }
  std::int64_t partial_floats() const { return ir::contraction_partial_floats(facts_, params_); }

 private:
  std::vector<ir::ValueId> operands_of(const ir::SumPass& pass) const {
    std::vector<ir::ValueId> out;
    for (int i = 0; i < pass.count; ++i)
      out.push_back(facts_.sums[static_cast<std::size_t>(pass.first + i)].operand);
    return out;
  }

  // Sums before the loop each have row values of their own; operands and the loop's sums
  // share one struct.
  void write_rows_and_sums() {
    std::vector<ir::ValueId> in_loop;
    for (const ir::Operand& a : facts_.a_operands) in_loop.push_back(a.value);
    for (const ir::SumPass& pass : facts_.passes)
      if (pass.with_product)
        for (ir::ValueId v : operands_of(pass)) in_loop.push_back(v);
    structs_ += row_struct(context_, "LoopRow", in_loop);
    for (const ir::SumPass& pass : facts_.passes) {
      if (pass.with_product) {
        structs_ += pass_struct(context_, "Stats", pass, "LoopRow", false);
        stats_ = "Stats";
        continue;
      }
      std::string name = fmt::format("Pass{}", passes_.size());
      structs_ += row_struct(context_, name + "Row", operands_of(pass));
      structs_ += pass_struct(context_, name, pass, name + "Row", false);
      passes_.push_back(name);
    }
  }

  void write_operands() {
    for (std::size_t i = 0; i < facts_.a_operands.size(); ++i) {
      const ir::Operand& a = facts_.a_operands[i];
      Walk walk{facts_.row, facts_.reduced, "m", "k", a.source};
      a_.push_back(fmt::format("OperandA{}", i));
      structs_ += operand_struct(context_, a_.back(), a, walk, "LoopRow", layout_.uses_rows, false);
    }
    for (std::size_t i = 0; i < facts_.b_operands.size(); ++i) {
      const ir::Operand& b = facts_.b_operands[i];
      bool transposed = layout_.b_transposed[i];
      Walk walk = transposed ? Walk{facts_.column, facts_.reduced, "n", "k", b.source}
                             : Walk{facts_.reduced, facts_.column, "k", "n", b.source};
      b_.push_back(fmt::format("OperandB{}", i));
      structs_ += operand_struct(context_, b_.back(), b, walk, "NoRow", false, transposed);
    }
  }

  void write_outputs() {
    for (std::size_t i : kinds_.wide) {
      const ir::Dataflow::Output& out = facts_.flow.outputs[i];
      if (facts_.is_side_output(i)) {
        std::string name = fmt::format("SideOutput{}", side_.size());
        structs_ += row_struct(context_, name + "Row", {out.value});
        structs_ += output_struct(context_, name, out, writer_.output(i), name + "Row",
                                  output_source(context_, out, facts_.reduced), false);
        side_.push_back(name);
        continue;
      }
      std::string name = wide_.empty() ? "Epilogue" : fmt::format("Epilogue{}", wide_.size());
      structs_ += epilogue_struct(context_, name, out, writer_.output(i));
      wide_.push_back(name);
    }
    for (std::size_t i = 0; i < kinds_.row_only.size(); ++i) {
      std::string name = fmt::format("RowOutput{}", i);
      const ir::Dataflow::Output& out = facts_.flow.outputs[kinds_.row_only[i]];
      structs_ += row_struct(context_, name + "Row", {out.value});
      structs_ +=
          row_output_struct(context_, name, out, writer_.output(kinds_.row_only[i]), name + "Row");
      row_only_.push_back(name);
    }
  }

  // constexpr int <name>(int p): which operand product p takes.
  std::string operand_choice(const std::string& name, int ir::Product::*member) const {
    std::string text = std::to_string(facts_.products.back().*member);
    for (std::size_t p = facts_.products.size() - 1; p-- > 0;)
      text = fmt::format("p == {} ? {} : {}", p, facts_.products[p].*member, text);
    return fmt::format("  static constexpr int {}(int p) {{ return {}; }}\n", name, text);
  }

  void write_kernel() {
    bool mma = context_.tensor_cores;
    kernel_ += index_table("OperandA", a_) + index_table("OperandB", b_) +
               index_table("Pass", passes_) + index_table("Epilogue", wide_) +
               index_table("RowOutput", row_only_) + index_table("SideOutput", side_);
    kernel_ += "struct Kernel {\n  using Args = KernelArgs;\n";
    kernel_ += fmt::format("  using Element = {};\n", mma ? type_name(context_.elem()) : "float");
    kernel_ +=
        fmt::format("  template <class K> using Tile = {}<K>;\n", mma ? "MmaTile" : "FmaTile");
    kernel_ +=
        fmt::format("  static __device__ long long rows(const Args& args) {{ return {}; }}\n",
                    writer_.rows_expression());
    kernel_ += fmt::format("  static constexpr int kExtentN = {}, kExtentK = {};\n",
                           context_.extent(facts_.column), context_.extent(facts_.reduced));
    kernel_ += fmt::format(
        "  static constexpr int kTileM = {}, kTileN = {}, kTileK = {}, kWarpsM = {}, kWarpsN = "
        "{};\n",
        params_.tile_m, params_.tile_n, params_.tile_k, params_.warps_m, params_.warps_n);
    kernel_ += fmt::format(
        "  static constexpr int kStages = {}, kSplits = {}, kStream = {}, kGroupM = {};\n",
        params_.stages, params_.splits, params_.stream, params_.group_m);
    kernel_ +=
        fmt::format("  static constexpr int kProducts = {}, kOperandsA = {}, kOperandsB = {};\n",
                    facts_.products.size(), a_.size(), b_.size());
    kernel_ += operand_choice("product_a", &ir::Product::a);
    kernel_ += operand_choice("product_b", &ir::Product::b);
    kernel_ += fmt::format(
        "  static constexpr int kSums = {}, kPasses = {}, kOutputs = {}, kRowOutputs = {}, "
        "kSideOutputs = {};\n",
        facts_.sums.size(), passes_.size(), wide_.size(), row_only_.size(), side_.size());
    kernel_ += fmt::format("  using Row = LoopRow;\n  using LoopStats = {};\n", stats_);
    kernel_ += fmt::format("  static constexpr bool kUsesRows = {}, kDependent = {};\n",
                           layout_.uses_rows, options_.dependent);
    kernel_ += fmt::format("  static constexpr int kSharedBytes = {}, kPartialFloats = {};\n",
                           ir::contraction_shared_bytes(facts_, params_, workload_),
                           ir::contraction_partial_floats(facts_, params_));
    for (const char* table :
         {"OperandA", "OperandB", "Epilogue", "RowOutput", "SideOutput", "Pass"})
      kernel_ += fmt::format("  template <int i> using {0} = typename {0}At<i>::Type;\n", table);
    kernel_ += "};\n";
  }

  Lowered launch() const {
    Lowered out;
    out.includes = "#include \"device/portable/contraction.cuh\"\n";
    out.entry = writer_.entry();
    out.threads = params_.threads();
    out.grid_x = writer_.size(params_.stream > 0 ? std::to_string(params_.stream) : tiles());
    out.grid_y = params_.splits;
    out.shared_bytes = ir::contraction_shared_bytes(facts_, params_, workload_);
    out.takes_m = writer_.takes_m();
    out.uses_workspace = params_.leaves_parts();
    if (out.uses_workspace) {
      // A block of stream-K leaves two parts at most: of its first tile and of its last.
      out.partials = writer_.size(
          params_.stream > 0 ? std::to_string(2 * params_.stream * partial_floats())
                             : fmt::format("{} * {}", tiles(), params_.splits * partial_floats()));
      out.counters = writer_.size(tiles());
    }
    return out;
  }

  const ir::KernelFacts& facts_;
  const ir::Workload& workload_;
  ir::ContractionParams params_;
  ir::ContractionLayout layout_;
  LowerOptions options_;
  KernelWriter writer_;
  const KernelContext& context_;
  OutputKinds kinds_;
  std::string structs_, kernel_;
  std::string stats_ = "NoStats";
  std::vector<std::string> passes_, a_, b_, wide_, row_only_, side_;
};

// Several contractions in one grid: the tiles of the first come first, then those of the second.
Lowered lower_parts(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                    const ir::Workload& workload, const LowerOptions& options) {
  const ir::ContractionParams params = ir::contraction_params(schedule);
  const bool split = params.splits > 1;
  const KernelWriter whole(facts, workload, options, ir::uses_tensor_cores(params, workload.dtype),
                           split);
  Lowered out;
  out.includes = "#include \"device/portable/contraction.cuh\"\n";
  out.entry = whole.entry();
  out.threads = params.threads();
  out.grid_y = params.splits;
  out.takes_m = whole.takes_m();
  out.uses_workspace = split;

  const std::string rows = whole.takes_m() && facts.row == ir::dynamic_dim(workload)
                               ? fmt::format("m * {}", whole.row_factor())
                               : std::to_string(whole.context().extent(facts.row));
  std::string tiles, partials, launch;
  for (std::size_t i = 0; i < facts.parts.size(); ++i) {
    LowerOptions own = options;
    own.name = fmt::format("{}_part{}", options.name, i);
    ContractionLowering part(facts.parts[i], schedule, workload, own);
    out.code += part.body("") + "\n";
    std::int64_t tiles_n =
        (whole.context().extent(facts.parts[i].column) + params.tile_n - 1) / params.tile_n;
    launch += fmt::format("  const unsigned tiles_of_{} = ({} + {}) / {} * {}u;\n", i, rows,
                          params.tile_m - 1, params.tile_m, tiles_n);
    std::string values;
    for (const std::string& member : part.writer().member_names())
      values += (values.empty() ? "" : ", ") + member;
    launch += fmt::format(
        "  if (block < tiles_of_{0}) {{\n    ContractionKernel<{1}::Kernel>::run({{{2}}}, block, "
        "tiles_of_{0});\n    return;\n  }}\n",
        i, own.name, values);
    if (i + 1 < facts.parts.size()) {
      launch += fmt::format("  block -= tiles_of_{};\n", i);
      if (split)
        launch += fmt::format(
            "  partials += static_cast<long long>(tiles_of_{0}) * {1};\n  counters += "
            "tiles_of_{0};\n",
            i, params.splits * part.partial_floats());
    }
    tiles += (i == 0 ? "" : " + ") + part.tiles();
    partials += fmt::format("{}{} * {}", i == 0 ? "" : " + ", part.tiles(),
                            params.splits * part.partial_floats());
    out.shared_bytes =
        std::max(out.shared_bytes, ir::contraction_shared_bytes(facts.parts[i], params, workload));
  }
  out.grid_x = whole.size(tiles);
  if (split) {
    out.partials = whole.size(partials);
    out.counters = whole.size(tiles);
  }
  out.code += fmt::format("namespace {} {{\n\n{}\n}}  // namespace {}\n", options.name,
                          whole.parts_entry(params.threads(), launch), options.name);
  return out;
}

}  // namespace

Lowered lower_contraction(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                          const ir::Workload& workload, const LowerOptions& options) {
  if (!facts.parts.empty()) return lower_parts(facts, schedule, workload, options);
  return ContractionLowering(facts, schedule, workload, options).run();
}

}  // namespace tenon::codegen
