#include "catalog_evidence.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <mutex>

#include "ir/mugraph.h"
#include "ir/program.h"
#include "search/search.h"
#include "verifier/verifier.h"

namespace tenon::test {

CatalogEvidence catalog_evidence(const std::string& name, std::size_t most) {
  const ir::Program program = ir::catalog_program(name);
  const search::Result found = search::enumerate(program, {});
  CatalogEvidence out;
  out.found = found.graphs.size();
  out.checked = std::min(most, out.found);
  if (found.counters.stop_reason != "exhausted")
    out.problems.push_back(name + ": the search stopped: " + found.counters.stop_reason);
  std::mutex mutex;
  tbb::parallel_for(std::size_t{0}, out.checked, [&](std::size_t i) {
    const ir::MuGraph& graph = found.graphs[i * out.found / out.checked];
    const verifier::Evidence random = verifier::random_test(program, graph, {});
    verifier::Z3Options options;
    options.timeout_ms = 120000;  // the machine may be busy, and the proof is wanted
    const verifier::Evidence bounded = verifier::z3_check(program, graph, options);
    const verifier::Evidence unbounded = verifier::induction_check(program, graph, options);
    std::lock_guard lock(mutex);
    out.random_s += random.seconds;
    out.bounded_s += bounded.seconds;
    out.unbounded_s += unbounded.seconds;
    out.slowest_s = std::max(out.slowest_s, random.seconds + bounded.seconds + unbounded.seconds);
    auto want = [&](const verifier::Evidence& e, verifier::Verdict verdict) {
      if (e.verdict != verdict)
        out.problems.push_back(fmt::format("{}: {}: {}: {}\n{}", name, e.method,
                                           verifier::name(e.verdict), e.reason, ir::print(graph)));
    };
    want(random, verifier::Verdict::kPass);
    want(bounded, verifier::Verdict::kProved);
    want(unbounded, verifier::Verdict::kProved);
    out.proved_for_every_extent += unbounded.verdict == verifier::Verdict::kProved;
  });
  return out;
}

}  // namespace tenon::test
