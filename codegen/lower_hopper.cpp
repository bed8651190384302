// Kernels that stream their operands: codegen/device/{small_m,gemm}.
#include "codegen/lower_hopper.h"

#include <fmt/format.h>

#include "codegen/codegen.h"
#include "codegen/functors.h"

namespace tenon::codegen {

namespace {

const char* kHints[] = {"CacheHint::kNone", "CacheHint::kEvictFirst", "CacheHint::kEvictLast"};

// static constexpr <type> <name> = <value>;
class ConfigText {
 public:
  ConfigText& add(const char* type, const char* name, const std::string& value) {
    text_ += fmt::format("  static constexpr {} {} = {};\n", type, name, value);
    return *this;
  }
  ConfigText& number(const char* name, std::int64_t value) {
    return add("int", name, std::to_string(value));
  }
  ConfigText& boolean(const char* name, bool value) {
    return add("bool", name, value ? "true" : "false");
  }
  std::string build(const std::string& base) const {
    return fmt::format("struct Config{} {{\n{}}};\n", base, text_);
  }

 private:
  std::string text_;
};

class HopperLowering {
 public:
  HopperLowering(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                 const ir::Workload& workload, const ir::Target& target,
                 const LowerOptions& options)
      : facts_(facts),
        schedule_(schedule),
        workload_(workload),
        target_(target),
        options_(options),
        form_(*ir::streamed_product(facts, workload)),
        writer_(facts, workload, options, true, false) {}

  Lowered run() {
    out_.entry = writer_.entry();
    out_.takes_m = writer_.takes_m();
    if (schedule_.family == "small_m")
      small_m();
    else if (schedule_.family == "multicast")
      multicast();
    else
      gemm();
    out_.includes +=
        "#include \"device/hopper/any_alignment.cuh\"\n#include \"device/portable/run.cuh\"\n";
    add_repack();
    if (pads()) add_pad();
    out_.code = fmt::format("namespace {0} {{\n\n{1}\n{2}{3}\n{4}\n{5}\n}}  // namespace {0}\n",
                            options_.name, writer_.args_struct(), stats_struct(), epilogue(),
                            config_, entry_text_);
    return std::move(out_);
  }

 private:
  // struct Stats { kCount; accumulate }: the sums over k of functions of x's elements.
  std::string stats_struct() const {
    Expression e(writer_.context(), [&](ir::ValueId v) -> std::optional<std::string> {
      if (v == form_.x) return "x";
      return std::nullopt;
    });
    std::vector<std::string> terms;
    for (const ir::RowSum& sum : facts_.sums) terms.push_back(e.emit(sum.operand));
    std::string body = e.statements("    ");
    for (std::size_t i = 0; i < terms.size(); ++i)
      body += fmt::format("    s[{}] += {};\n", i, terms[i]);
    return fmt::format(
        "struct Stats {{\n  static constexpr int kCount = {};\n  static constexpr bool kSquares = "
        "{};\n"
        "  static __device__ __forceinline__ void accumulate(float (&s)[{}], float x) {{\n{}  "
        "}}\n}};\n",
        terms.size(), form_.sum_of_squares, std::max<std::size_t>(1, terms.size()), body);
  }

  std::string epilogue() const {
    return epilogue_struct(writer_.context(), "Epilogue", facts_.flow.outputs[0],
                           writer_.output(0));
  }

  std::string type() const { return type_name(workload_.dtype); }
  const std::string& x() const {
    return writer_.context().inputs[static_cast<std::size_t>(form_.x)];
  }
  const std::string& w() const {
    return writer_.context().inputs[static_cast<std::size_t>(form_.w)];
  }
  const std::string& y() const { return writer_.output(0); }
  bool in_place() const {
    return ir::reads_weights_in_place(form_, schedule_, workload_.keep_weights);
  }
  // X is read from a copy with padded rows; the zeros after them count as columns.
  bool pads() const { return ir::pads_rows(form_, schedule_); }
  std::int64_t k_read() const { return pads() ? (form_.k + 7) / 8 * 8 : form_.k; }
  std::int64_t x_stride() const { return pads() ? k_read() : form_.x_stride; }
  // Elements between rows of W as the kernel reads it.
  std::int64_t w_stride() const { return in_place() ? form_.k : k_padded(); }
  std::int64_t k_padded() const { return (form_.k + 63) / 64 * 64; }
  bool rows_layout() const {
    return schedule_.family != "small_m" || !ir::small_m_params(schedule_).packed();
  }

  // The fast path where the copy engines can go, else any_alignment.cuh.
  std::string body(const std::string& condition, const std::string& fast) const {
    if (condition.empty()) return fast;
    return fmt::format(
        "  if ({}) {{\n  {}  }} else {{\n    tenon::device::hopper::product_at_any_alignment<{}, "
        "tenon::device::hopper::{}, Stats, Epilogue, {}>(\n"
        "        args.{}, args.{}, args.{}, {}, {}, {}, {}, {}, {}, args);\n  }}\n",
        condition, fast, type(), rows_layout() ? "RowLayout" : "PackedLayout", options_.dependent,
        x(), w(), y(), writer_.rows_expression(), form_.n, k_read(), x_stride(), w_stride(),
        form_.y_stride);
  }

  std::string params_text(const char* space) const {
    return fmt::format(
        "tenon::device::{}::Params{{args.{}, args.{}, args.{}, {}, {}, {}, {}, {}, {}}}", space,
        x(), w(), y(), form_.x_stride, w_stride(), form_.y_stride, writer_.rows_expression(),
        form_.n, form_.k);
  }

  void add_map(int input, const std::string& rows, std::int64_t columns, std::int64_t stride,
               const ir::SizeExpr& box_rows, int promotion) {
    MapArg map;
    map.input = input;
    map.rows = writer_.size(rows);
    map.columns = columns;
    map.row_stride = stride;
    map.box_rows = box_rows;
    map.promotion = promotion;
    out_.maps.push_back(map);
  }

  void add_maps(const ir::SizeExpr& box_x, std::int64_t box_w, int promotion) {
    add_map(form_.x, writer_.rows_size(), k_read(), x_stride(), box_x, promotion);
    add_map(form_.w, std::to_string(form_.n), k_read(), w_stride(), box_w, promotion);
  }

  void small_m() {
    ir::SmallMParams p = ir::small_m_params(schedule_);
    const int groups = ir::small_m_groups(p, form_.n, target_);
    const int most = ir::small_m_most_tiles(p, form_.n, target_);
    static const char* kPaths[] = {"kPackedBulk", "kPackedAsync", "kPackedRegisters", "kRowsAsync"};
    const bool x_aligned = form_.x_rows_aligned();
    ConfigText c;
    c.number("kRows", p.rows)
        .number("kWarps", p.warps)
        .number("kColumns", p.columns)
        .number("kUnitColumns", p.unit);
    c.boolean("kInterleaved", p.interleaved)
        .number("kStages", p.stages)
        .number("kCluster", p.cluster);
    c.number("kEpilogueWarps", p.epilogue_warps)
        .number("kPartials", p.partials)
        .number("kMaxTiles", p.cluster > 1 ? most : 0);
    c.number("kBlocksPerSm", p.blocks_per_sm)
        .number("kEarlyUnits", p.early)
        .number("kChains", p.chains);
    c.add("tenon::device::small_m::Weights", "kWeights",
          fmt::format("tenon::device::small_m::Weights::{}", kPaths[p.weights]));
    c.boolean("kEvictFirst", p.evict_first).boolean("kDependent", true);
    const std::int64_t covered = std::int64_t{p.cluster} * p.warps * p.columns;
    c.boolean("kExactK", covered == w_stride()).boolean("kExactX", covered == form_.k);
    c.boolean("kXAligned", x_aligned)
        .boolean("kXStaged", p.staged)
        .boolean("kStatsFirst", p.stats_first);
    config_ = c.build("");
    out_.shared_bytes = ir::small_m_shared_bytes(p, most);
    config_ += fmt::format(
        "static_assert(tenon::device::small_m::Layout<Config>::kSharedBytes == {}, "
        "\"ir/hopper_family.cpp agrees\");\n",
        out_.shared_bytes);
    out_.includes = "#include \"device/small_m/run.cuh\"\n";
    out_.threads = p.threads();
    out_.cluster = p.cluster;
    out_.grid_x = ir::SizeExpr(std::int64_t{groups} * p.cluster);
    std::string fast = fmt::format(
        "  tenon::device::small_m::run<Config, tenon::device::small_m::{}, Stats, Epilogue>({}, "
        "args);\n",
        type(), params_text("small_m"));
    // Copies of 16 bytes take the caller's own W, as X, only where it is aligned.
    std::string condition;
    if (x_aligned) condition = fmt::format("tenon::device::portable::aligned(args.{}, 16)", x());
    if (in_place())
      condition += fmt::format("{}tenon::device::portable::aligned(args.{}, 16)",
                               condition.empty() ? "" : " && ", w());
    entry(p.blocks_per_sm, body(condition, fast));
  }

  void multicast() {
    ir::MulticastParams p = ir::multicast_params(schedule_);
    ConfigText c;
    c.number("kRows", p.rows);
    c.number("kTileN", p.tile_n)
        .number("kStages", p.stages)
        .number("kShare", p.share)
        .number("kEarlyStages", p.early);
    c.boolean("kEvictFirst", p.evict_first).boolean("kDependent", true);
    config_ = c.build("");
    out_.shared_bytes = ir::multicast_shared_bytes(p);
    config_ += fmt::format(
        "static_assert(tenon::device::small_m::Multicast<Config>::kSharedBytes == {}, "
        "\"ir/hopper_family.cpp agrees\");\n",
        out_.shared_bytes);
    out_.includes = "#include \"device/small_m/multicast.cuh\"\n";
    out_.threads = 160;
    out_.cluster = p.share;
    const std::int64_t tiles = (form_.n + p.tile_n - 1) / p.tile_n;
    out_.grid_x = ir::SizeExpr((tiles + p.share - 1) / p.share * p.share);
    add_maps(std::int64_t{p.rows / p.share}, p.tile_n, 0);
    std::string fast = fmt::format(
        "  tenon::device::small_m::run_multicast<Config, tenon::device::small_m::{}, Stats, "
        "Epilogue>(&map0, &map1, {}, args);\n",
        type(), params_text("small_m"));
    entry(1, body(fmt::format("tenon::device::portable::aligned(args.{}, 16)", x()), fast));
  }

  void gemm() {
    ir::GemmParams p = ir::gemm_params(schedule_);
    static const char* kStatistics[] = {"kNone",       "kExternal", "kGlobalRows",
                                        "kTileSlices", "kTile",     "kSpareBlocks"};
    const bool wide = form_.n % 8 == 0 && form_.y_stride % 8 == 0;
    ConfigText c;
    c.number("kTileM", p.tile_m)
        .number("kTileN", p.tile_n)
        .number("kStages", p.stages)
        .number("kConsumers", p.consumers);
    c.boolean("kPingPong", p.ping_pong)
        .number("kClusterM", p.cluster_m)
        .number("kClusterN", p.cluster_n)
        .number("kSplitK", p.split_k);
    c.add("tenon::device::gemm::Raster", "kRaster",
          fmt::format("tenon::device::gemm::Raster::{}", p.raster ? "kAlongN" : "kAlongM"));
    c.number("kRasterGroup", p.group);
    for (auto [name, hint] :
         {std::pair{"kHintX", p.hint_x}, {"kHintW", p.hint_w}, {"kHintY", p.hint_y}})
      c.add("tenon::device::CacheHint", name, fmt::format("tenon::device::{}", kHints[hint]));
    c.number("kProducerRegisters", p.producer_registers)
        .boolean("kDependentLaunch", options_.dependent)
        .boolean("kLateTrigger", p.late_trigger);
    c.add("tenon::device::gemm::Statistics", "kStatistics",
          fmt::format("tenon::device::gemm::Statistics::{}", kStatistics[p.statistics]));
    static const char* kWalks[] = {"kStraight", "kOwnFirst", "kOwnTailFirst"};
    c.add("tenon::device::gemm::Walk", "kWalk",
          fmt::format("tenon::device::gemm::Walk::{}", kWalks[p.rotate]));
    c.number("kSlices", p.slices).number("kRowSlots", p.row_slots);
    c.add("tenon::device::gemm::Stores", "kStores",
          fmt::format("tenon::device::gemm::Stores::{}", !wide      ? "kNarrow"
                                                         : p.stores ? "kShuffled"
                                                                    : "kStaged"));
    config_ = c.build(" : tenon::device::gemm::Defaults");
    config_ += fmt::format(
        "using Plan = tenon::device::gemm::Plan<Config, tenon::device::gemm::{}, Stats>;\n",
        type());
    ir::GemmParams shared = p;
    out_.shared_bytes =
        ir::gemm_shared_bytes(shared, form_.sums) - (wide || p.stores ? 0 : p.consumers * 4 * 2048);
    config_ +=
        fmt::format("static_assert(Plan::kSharedBytes == {}, \"ir/hopper_family.cpp agrees\");\n",
                    out_.shared_bytes);
    out_.includes = "#include \"device/gemm/gemm.cuh\"\n";
    out_.threads = p.threads();
    out_.cluster = p.cluster();
    const std::int64_t tiles_n = (form_.n + std::int64_t{p.tile_n} * p.cluster_n - 1) /
                                 (std::int64_t{p.tile_n} * p.cluster_n);
    const std::string tiles_m =
        fmt::format("ceildiv({}, {})", writer_.rows_size(), p.tile_m * p.cluster_m);
    const int resident = ir::resident_blocks(p.cluster(), target_) / p.cluster();
    const std::string tiles = fmt::format("{} * {}", tiles_m, tiles_n);
    // With spare blocks every cluster that fits, with split k exactly one a tile; otherwise
    // persistent.
    if (p.statistics == 5)
      out_.grid_x = ir::SizeExpr(std::int64_t{resident} * p.cluster());
    else
      out_.grid_x = writer_.size(
          p.split_k > 1 ? fmt::format("{} * {}", tiles, p.cluster())
                        : fmt::format("min({}, {}) * {}", tiles, resident, p.cluster()));
    // The rows shared out evenly over the tiles (Operands::tile_rows), and a block's part of them.
    const std::string atoms = fmt::format("ceildiv({}, {} * {})", writer_.rows_size(),
                                          8 * p.cluster_n * p.cluster_m, tiles_m);
    out_.tile_rows = writer_.size(fmt::format("{} * {}", 8 * p.cluster_n, atoms));
    add_maps(writer_.size("8 * " + atoms), p.tile_n / p.cluster_m, p.promotion);
    std::string workspace = "nullptr";
    if (p.exchanges_sums()) {
      // gemm/workspace.cuh: four words, then for every row its sums and their slices, two words
      // each.
      const int sums = form_.sums * (p.statistics == 3 ? 1 + p.slices : 1);
      out_.scratch =
          writer_.size(fmt::format("4 + {} * {}", tiles_m, p.tile_m * p.cluster_m * 2 * sums));
      workspace = "scratch";
    }
    std::string fast = fmt::format(
        "  tenon::device::gemm::run<Config, tenon::device::gemm::{0}, Stats, Epilogue>(\n"
        "      map0, map1,\n"
        "      tenon::device::gemm::Operands<tenon::device::gemm::{0}>{{reinterpret_cast<const "
        "tenon::device::gemm::{0}*>(args.{1}), {2}, nullptr,\n"
        "          reinterpret_cast<tenon::device::gemm::{0}*>(args.{3}), {4}, nullptr, {5}, {6}, "
        "{7}, {8}, tile_rows}},\n      args);\n",
        type(), x(), x_stride(), y(), form_.y_stride, workspace, writer_.rows_expression(), form_.n,
        k_read());
    std::string condition = fmt::format("tenon::device::portable::aligned(args.{}, 16)", x());
    if (wide) condition += fmt::format(" && tenon::device::portable::aligned(args.{}, 16)", y());
    entry(1, body(condition, fast));
  }

  void entry(int blocks_per_sm, const std::string& text) {
    entry_text_ =
        writer_.hopper_entry(static_cast<int>(out_.maps.size()), out_.scratch.has_value(),
                             out_.tile_rows.has_value(), out_.threads, blocks_per_sm, text);
  }

  void add_pad() {
    Pad pad;
    pad.input = form_.x;
    pad.entry = out_.entry + "_pad";
    pad.rows = writer_.size(writer_.rows_size());
    pad.elements = writer_.size(fmt::format("{} * {}", writer_.rows_size(), k_read()));
    pad.blocks = writer_.size(fmt::format("min(ceildiv({} * {}, 256), {})", writer_.rows_size(),
                                          k_read() / 8, 8 * target_.sm_count));
    pad.code = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(256) {}(const unsigned short* x, unsigned "
        "short* out, int m) {{\n"
        "  tenon::device::hopper::pad_rows<{}>(x, out, m, {}, {}, {});\n}}\n",
        pad.entry, options_.dependent, form_.k, form_.x_stride, k_read());
    out_.includes += "#include \"device/hopper/pad_rows.cuh\"\n";
    out_.pad = pad;
  }

  // W in the order in which the kernel streams it, unless it already is.
  void add_repack() {
    if (in_place()) return;
    Repack r;
    r.input = form_.w;
    r.packed = !rows_layout();
    r.entry = "tenon_repack";
    const std::int64_t multiple = r.packed ? 16 : 1;
    const std::int64_t rows = (form_.n + multiple - 1) / multiple * multiple;
    r.elements = rows * k_padded();
    const std::int64_t tiles = (rows + 31) / 32 * (k_padded() / 32);
    r.blocks = static_cast<int>(std::min<std::int64_t>(tiles, 8 * target_.sm_count));
    r.code = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(256) {}(const unsigned short* w, unsigned "
        "short* out) {{\n"
        "  tenon::device::hopper::repack<tenon::device::hopper::{}>(w, out, {}, {}, {}, {});\n}}\n",
        r.entry, r.packed ? "PackedLayout" : "RowLayout", form_.n, form_.k,
        form_.w_rows_are_columns ? form_.k : 1, form_.w_rows_are_columns ? 1 : form_.n);
    out_.repack = r;
  }

  const ir::KernelFacts& facts_;
  const ir::KernelSchedule& schedule_;
  const ir::Workload& workload_;
  const ir::Target& target_;
  const LowerOptions& options_;
  ir::StreamedProduct form_;
  KernelWriter writer_;
  Lowered out_;
  std::string config_, entry_text_;
};

}  // namespace

Lowered lower_hopper(const ir::KernelFacts& facts, const ir::KernelSchedule& schedule,
                     const ir::Workload& workload, const ir::Target& target,
                     const LowerOptions& options) {
  return HopperLowering(facts, schedule, workload, target, options).run();
}

}  // namespace tenon::codegen
