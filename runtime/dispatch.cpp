#include "runtime/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tenon::runtime {

namespace {

// Where the plan that `best` chooses may change: where an interval begins or has ended, and
// between two tuned m where the larger one becomes the nearer (in ratio; a tie goes to it).
std::set<std::int64_t> breakpoints(const std::vector<cache::TunedInterval>& tuned) {
  std::set<std::int64_t> points;
  std::set<std::int64_t> ms;
  for (const cache::TunedInterval& t : tuned) {
    points.insert(t.m_min);
    points.insert(t.m_max + 1);
    ms.insert(t.m);
  }
  for (auto a = ms.begin(); a != ms.end(); ++a)
    for (auto b = std::next(a); b != ms.end(); ++b) {
      // The least m with m / a >= b / m. Pairs of neighbours do not suffice: the plans of an m
      // between them may be of no use.
      const double product = static_cast<double>(*a) * static_cast<double>(*b);
      auto m = std::max<std::int64_t>(*a, 1);
      std::int64_t high = *b;
      while (m < high) {
        const std::int64_t middle = m + (high - m) / 2;
        if (static_cast<double>(middle) * static_cast<double>(middle) >= product)
          high = middle;
        else
          m = middle + 1;
      }
      points.insert(m);
    }
  return points;
}

std::size_t index_of(std::vector<cache::Stored>& plans, cache::Stored&& stored) {
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (plans[i].plan.id == stored.plan.id) return i;
  plans.push_back(std::move(stored));
  return plans.size() - 1;
}

// Adds `segment`, joined with the one before where both say the same.
void append(std::vector<Segment>& segments, const Segment& segment) {
  if (!segments.empty()) {
    Segment& last = segments.back();
    if (last.plan == segment.plan && last.chunk == segment.chunk) {
      last.high = segment.high;
      return;
    }
  }
  segments.push_back(segment);
}

}  // namespace

bool is_row_wise(const ir::Program& program) {
  const ir::Signature& s = program.signature;
  auto found = std::find(s.dims.begin(), s.dims.end(), "m");
  if (found == s.dims.end()) return false;
  const auto m = static_cast<ir::DimId>(found - s.dims.begin());
  auto leads = [m](const ir::Axes& axes) { return !axes.empty() && axes[0].dim == m; };
  for (const ir::ProgramInput& in : s.inputs) {
    const bool has = std::any_of(in.axes.begin(), in.axes.end(),
                                 [m](const ir::Axis& axis) { return axis.dim == m; });
    if (in.role == ir::Role::kActivation ? !leads(in.axes) : has) return false;
  }
  for (const ir::ProgramOutput& out : s.outputs)
    if (!leads(program.graph.axes(out.value))) return false;
  for (const ir::Node& node : program.graph.nodes())
    if ((node.op == ir::OpKind::kSum || node.op == ir::OpKind::kMatmul) && node.dim == m)
      return false;
  return true;
}

DispatchTable make_dispatch(cache::Database& database, const cache::Query& query,
                            std::int64_t m_min, std::int64_t m_max, bool row_wise,
                            std::string& why) {
  DispatchTable table;
  const std::set<std::int64_t> points = breakpoints(database.tuned(query));
  std::int64_t largest = 0;  // the largest m so far that a plan serves directly
  for (std::int64_t m = m_min; m <= m_max;) {
    auto next = points.upper_bound(m);
    std::int64_t end = next == points.end() ? m_max : std::min(m_max, *next - 1);
    cache::Query asked = query;
    asked.m = m;
    std::string said;
    auto stored = database.best(asked, &said);
    if (stored) {
      end = std::min(end, stored->plan.m_max);
      if (table.note.empty() && (!stored->fresh || stored->passed_over > 0))
        table.note = stored->note;
      append(table.segments, {m, end, index_of(table.plans, std::move(*stored)), 0});
      largest = end;
    } else if (row_wise && largest > 0) {
      append(table.segments, {m, end, table.segments.back().plan, largest});
    } else if (row_wise && m_min > 1 && table.segments.empty()) {
      // Nothing below to cut into yet.
      return make_dispatch(database, query, 1, m_max, row_wise, why);
    } else {
      why = fmt::format("no plan serves m={}: {}", m, said);
      return {};
    }
    m = end + 1;
  }
  return table;
}

}  // namespace tenon::runtime
