// The search, step by step: expressions, kernels, kernel graphs, µGraphs.
#include <fmt/format.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "search/goal_search.h"
#include "search/kernel_cost.h"
#include "search/kernel_search.h"
#include "search/parallel.h"
#include "search/rewrite.h"
#include "search/spelling.h"
#include "search/symmetry.h"

namespace tenon::search {

namespace {

using Clock = std::chrono::steady_clock;

// Once stopped, so many of the kernel graphs that follow from the kernels found are still made.
constexpr std::uint64_t kVisitsAfterStop = 100000;
constexpr std::size_t kGraphsAfterStop = 512;

// Rounds of deepening: a third of the operators, two thirds, all.
constexpr int kDepths = 3;

// One part of the search for kernels.
using Task = std::function<BlockResult(const BlockBounds&)>;

// Kernels of the unfused form: one for each product, one for what comes before, one for what
// follows (beside rounding).
int unfused_kernels(const ir::Program& program) {
  const ir::Graph& graph = program.graph;
  std::vector<bool> after(static_cast<std::size_t>(graph.value_count()), false);
  std::vector<bool> computed = after;
  int products = 0;
  bool before = false;
  bool follows = false;
  for (ir::ValueId v = static_cast<ir::ValueId>(graph.inputs().size()); v < graph.value_count();
       ++v) {
    const ir::Node& node = graph.node(v);
    std::size_t i = static_cast<std::size_t>(v);
    for (ir::ValueId operand : {node.a, node.b}) {
      if (operand == ir::kNoValue) continue;
      after[i] = after[i] || after[static_cast<std::size_t>(operand)];
      computed[i] = computed[i] || computed[static_cast<std::size_t>(operand)];
    }
    if (node.op == ir::OpKind::kMatmul) {
      ++products;
      before = before || computed[i];
      after[i] = true;
    } else if (node.op != ir::OpKind::kCast && node.op != ir::OpKind::kConst) {
      follows = follows || after[i];
    }
    computed[i] = computed[i] || node.op != ir::OpKind::kCast;
  }
  return products + before + follows;
}

// Two outputs of one value, or an output that is an input, would need a kernel that copies.
void check_outputs(const ir::Program& program, const ExpressionTable& table) {
  const std::vector<ir::ProgramOutput>& outputs = program.signature.outputs;
  std::map<ClassId, std::size_t> seen;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Expression& e = table[table.outputs()[o]];
    if (e.input >= 0 || e.is_constant)
      throw OutputError(o, fmt::format("output is '{}'; accepted: a value that some operator "
                                       "computes from the inputs",
                                       outputs[o].name));
    const auto [first, fresh] = seen.emplace(table.outputs()[o], o);
    if (!fresh)
      throw OutputError(o, fmt::format("output is '{}', the same value as '{}'; accepted: a value "
                                       "that no other output has",
                                       outputs[o].name, outputs[first->second].name));
  }
}

class Enumeration {
 public:
  Enumeration(const ir::Program& program, const Options& options, std::stop_token stop)
      : program_(program),
        options_(options),
        rules_(options.rules_off),
        stop_(std::move(stop)),
        arena_(concurrency(options.threads)) {
    stopped_ = [this] {
      if (stop_.stop_requested()) return true;
      return options_.budget_seconds > 0 && seconds() > options_.budget_seconds;
    };
  }

  Result run() {
    arena_.execute([this] { search(); });
    return finish();
  }

 private:
  void search() {
    check();
    std::vector<Sample> samples = make_samples(program_, options_.seed);
    ExpressionTable table(program_, samples);
    check_outputs(program_, table);
    if (saturate(table, options_.max_expressions).cut_off) cut("max_expressions");
    Space space(table, rules_);
    pruned_.add(RuleId::kCut, space.cut_intermediates());
    end_step("expressions");

    std::vector<KernelForm> forms = find_kernels(space);
    end_step("kernels");
    std::vector<Choice> choice = choices(space, std::move(forms), library_forms(space, program_));
    if (rules_.on(RuleId::kCost)) choice = drop_dear_kernels(space, std::move(choice), pruned_);
    end_step("dear kernels");
    std::vector<std::vector<int>> graphs = find_kernel_graphs(space, choice);
    end_step("kernel graphs");
    make_mugraphs(space, samples, choice, graphs);
    end_step("µGraphs");
  }

  // No more than the machine has: more would find the same.
  static int concurrency(int threads) {
    int most = tbb::info::default_concurrency();
    return threads > 0 ? std::min(threads, most) : most;
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void end_step(const char* name) {
    double before = 0;
    for (const auto& [step, took] : steps_) before += took;
    steps_.emplace_back(name, seconds() - before);
  }

  void cut(const std::string& bound) { cuts_.insert(bound); }

  void check() const {
    ir::validate(program_);
    auto positive = [](const char* name, int value) {
      if (value < 1) throw UserError(name, std::to_string(value), "a positive number");
    };
    if (options_.max_kernels < 0)
      throw UserError("max_kernels", std::to_string(options_.max_kernels),
                      "0 (as many as the program needs) or a positive number");
    positive("max_block_ops", options_.max_block_ops);
    positive("max_kernel_reads", options_.max_kernel_reads);
    positive("max_expressions", options_.max_expressions);
    if (options_.max_prepare_ops < 0)
      throw UserError("max_prepare_ops", std::to_string(options_.max_prepare_ops),
                      "a number that is not negative");
    if (options_.threads < 0)
      throw UserError("threads", std::to_string(options_.threads), "0 (all) or a positive number");
  }

  // The walk from stores to loads takes the exact rules for granted.
  bool goal_directed() const {
    for (RuleId rule : {RuleId::kOrder, RuleId::kEquivalence, RuleId::kExpression, RuleId::kMaps,
                        RuleId::kBounds, RuleId::kEnds, RuleId::kGoal})
      if (!rules_.on(rule)) return false;
    return true;
  }

  // The walk from stores to loads, cut by cut and set of stores by set of stores.
  std::vector<Task> backward_tasks(Space& space, const std::vector<Frame>& cuts,
                                   std::vector<std::unique_ptr<GoalSearch>>& searches) {
    searches.resize(cuts.size());
    tbb::parallel_for(std::size_t{0}, cuts.size(), [&](std::size_t i) {
      if (!stopped_()) searches[i] = std::make_unique<GoalSearch>(space, cuts[i], rules_, stopped_);
    });
    std::vector<Task> tasks;
    for (const auto& search : searches)
      for (std::size_t b = 0; search && b < search->branches(); ++b)
        tasks.push_back([this, &space, s = search.get(), b](const BlockBounds& bounds) {
          BlockResult result = s->run(b, bounds);
          // Kernels with different cuts or stores are never spellings of one another.
          if (rules_.on(RuleId::kThread)) merge_spellings(space, result.forms, result.pruned);
          return result;
        });
    return tasks;
  }

  std::vector<Task> forward_tasks(Space& space, const std::vector<Frame>& cuts,
                                  std::vector<std::unique_ptr<BlockSearch>>& searches,
                                  BlockResult& roots) {
    std::vector<Task> tasks;
    for (const Frame& frame : cuts) {
      if (stopped_()) break;
      searches.push_back(std::make_unique<BlockSearch>(space, frame, rules_, stopped_));
      roots += searches.back()->root();
      for (std::size_t b = 0; b < searches.back()->branches(); ++b)
        tasks.push_back([s = searches.back().get(), b](auto& bounds) { return s->run(b, bounds); });
    }
    return tasks;
  }

  // Iterative deepening, so that a search that is stopped has the smaller kernels of every cut.
  std::vector<KernelForm> find_kernels(Space& space) {
    std::vector<std::unique_ptr<BlockSearch>> forward;
    std::vector<std::unique_ptr<GoalSearch>> backward;
    BlockResult roots;
    const std::vector<Frame> cuts = frames(space, rules_);
    const std::vector<Task> tasks = goal_directed() ? backward_tasks(space, cuts, backward)
                                                    : forward_tasks(space, cuts, forward, roots);
    std::vector<BlockResult> results(tasks.size());
    for (int part = 1; part <= kDepths && !(part > 1 && stopped_()); ++part) {
      BlockBounds bounds;
      bounds.max_ops = (options_.max_block_ops * part + kDepths - 1) / kDepths;
      bounds.max_reads = options_.max_kernel_reads;
      deepen(tasks, bounds, part == 1, results);
    }
    BlockResult all = gathered(std::move(results));
    all += std::move(roots);
    if ((!goal_directed() || stopped_()) && rules_.on(RuleId::kThread))
      merge_spellings(space, all.forms, all.pruned);
    note_stop();
    enumerated_ += all.visited;
    pruned_ += all.pruned;
    // A search that was stopped may not have come to the full depth: that is another cut.
    if (stop_reason_ == "exhausted") {
      if (all.cut_by_ops) cut("max_block_ops");
      if (all.cut_by_reads) cut("max_kernel_reads");
    }
    return std::move(all.forms);
  }

  // Runs again what the bound before cut off: the deeper run repeats the one before, whose counts
  // are then forgotten. What took longest is likely to again, and is begun first.
  void deepen(const std::vector<Task>& tasks, const BlockBounds& bounds, bool first,
              std::vector<BlockResult>& results) const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (first || results[i].cut_by_ops) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return results[a].visited > results[b].visited;
    });
    in_turn(order.size(), [&](std::size_t turn) {
      if (stopped_()) return;
      BlockResult& result = results[order[turn]];
      BlockResult deeper = tasks[order[turn]](bounds);
      if (stopped_()) {  // perhaps before it found what the run before had
        std::set<KernelForm> known(deeper.forms.begin(), deeper.forms.end());
        for (KernelForm& form : result.forms)
          if (!known.count(form)) deeper.forms.push_back(std::move(form));
      }
      result = std::move(deeper);
    });
  }

  static BlockResult gathered(std::vector<BlockResult> results) {
    BlockResult all;
    std::vector<std::size_t> begin;
    std::size_t n = 0;
    for (BlockResult& r : results) {
      begin.push_back(n);
      n += r.forms.size();
    }
    std::vector<KernelForm> forms(n);
    tbb::parallel_for(std::size_t{0}, results.size(), [&](std::size_t i) {
      std::move(results[i].forms.begin(), results[i].forms.end(),
                forms.begin() + static_cast<std::ptrdiff_t>(begin[i]));
      results[i].forms = {};
    });
    for (BlockResult& r : results) all += std::move(r);
    all.forms = std::move(forms);
    return all;
  }

  std::vector<std::vector<int>> find_kernel_graphs(const Space& space,
                                                   const std::vector<Choice>& choice) {
    KernelBounds bounds;
    bounds.max_kernels =
        options_.max_kernels > 0 ? options_.max_kernels : std::max(3, unfused_kernels(program_));
    bounds.max_block_ops = options_.max_block_ops;
    std::atomic<std::uint64_t> visits = 0;
    std::function<bool()> stop = [&] {
      if (!stopped_()) return false;
      return ++visits > kVisitsAfterStop;
    };
    KernelResult result =
        kernel_graphs(space, choice, rules_, bounds, exchanges(space, program_), stop);
    note_stop();
    enumerated_ += result.visited;
    pruned_ += result.pruned;
    if (result.cut_by_kernels) cut("max_kernels");
    if (result.cut_by_graphs) cut("max_graphs");
    if (stop_reason_ != "exhausted" && result.graphs.size() > kGraphsAfterStop)
      result.graphs.resize(kGraphsAfterStop);
    return std::move(result.graphs);
  }

  // Does the µGraph compute what the program does, run block by block and step by step?
  bool equals_program(const ir::MuGraph& graph, const std::vector<Sample>& samples) const {
    for (const Sample& s : samples) {
      ir::FieldDomain domain = s.domain;
      std::vector<std::int64_t> parts(s.extents.size(), 2);
      try {
        std::vector<FieldValues> out =
            ir::evaluate(graph, s.extents, ir::Partition{parts, parts}, domain, s.inputs);
        for (std::size_t o = 0; o < out.size(); ++o)
          if (out[o].data != s.outputs[o].data) return false;
      } catch (const ir::Undefined&) {
        return false;
      }
    }
    return true;
  }

  void make_mugraphs(const Space& space, const std::vector<Sample>& samples,
                     const std::vector<Choice>& choice,
                     const std::vector<std::vector<int>>& graphs) {
    struct Made {
      std::string identity;
      ir::MuGraph graph;
      bool too_much_to_prepare = false;
      bool differs = false;
    };
    std::vector<Made> made(graphs.size());
    tbb::parallel_for(std::size_t{0}, graphs.size(), [&](std::size_t i) {
      std::vector<const KernelChoice*> kernels;
      for (int k : graphs[i]) kernels.push_back(&choice[static_cast<std::size_t>(k)].kernel);
      if (prepare_steps(space, kernels) > static_cast<std::size_t>(options_.max_prepare_ops)) {
        made[i].too_much_to_prepare = true;
        return;
      }
      made[i].graph = ir::canonical(lower(space, program_, kernels));
      ir::validate(made[i].graph);
      made[i].differs = !equals_program(made[i].graph, samples);
      made[i].identity = ir::identity(made[i].graph);
    });
    for (Made& m : made) {
      if (m.too_much_to_prepare) {
        cut("max_prepare_ops");
        continue;
      }
      TENON_CHECK(!m.differs, "a finished µGraph equals the program: " + ir::print(m.graph));
      if (!found_.emplace(std::move(m.identity), std::move(m.graph)).second) ++deduplicated_;
    }
  }

  static std::size_t prepare_steps(const Space& space,
                                   const std::vector<const KernelChoice*>& kernels) {
    std::set<ClassId> prepared;
    auto add = [&](ClassId c) {
      if (space.is_prepared(c)) prepared.insert(c);
    };
    for (const KernelChoice* k : kernels) {
      if (k->library) {
        add(k->library->a);
        add(k->library->b);
      } else {
        for (const Load& load : k->form->loads) add(load.cls);
      }
    }
    return prepare_ways(space, {prepared.begin(), prepared.end()}).size();
  }

  void note_stop() {
    if (stop_reason_ != "exhausted") return;
    if (stop_.stop_requested())
      stop_reason_ = "interrupted";
    else if (stopped_())
      stop_reason_ = "budget";
  }

  Result finish() {
    Result result;
    for (auto& [id, graph] : found_) result.graphs.push_back(std::move(graph));
    Counters& c = result.counters;
    c.enumerated = enumerated_;
    for (std::size_t i = 0; i < kRuleCount; ++i) c.pruned[rules()[i].name] = pruned_.by_rule[i];
    c.deduplicated = deduplicated_;
    c.distinct = result.graphs.size();
    c.stop_reason = stop_reason_;
    if (stop_reason_ != "exhausted") cut(stop_reason_);
    c.cuts.assign(cuts_.begin(), cuts_.end());
    c.cut_off = !cuts_.empty();
    c.seconds = seconds();
    c.steps = steps_;
    return result;
  }

  const ir::Program& program_;
  const Options& options_;
  RuleSet rules_;
  std::stop_token stop_;
  Clock::time_point start_ = Clock::now();
  std::function<bool()> stopped_;
  tbb::task_arena arena_;
  std::vector<std::pair<std::string, double>> steps_;
  std::set<std::string> cuts_;
  std::string stop_reason_ = "exhausted";
  PruneCounts pruned_;
  std::uint64_t enumerated_ = 0;
  std::uint64_t deduplicated_ = 0;
  std::map<std::string, ir::MuGraph> found_;  // by identity
};

}  // namespace

void check(const ir::Program& program) {
  ir::validate(program);
  const std::vector<Sample> samples = make_samples(program, 0);
  check_outputs(program, ExpressionTable(program, samples));
}

Result enumerate(const ir::Program& program, const Options& options, std::stop_token stop) {
  return Enumeration(program, options, std::move(stop)).run();
}

}  // namespace tenon::search
