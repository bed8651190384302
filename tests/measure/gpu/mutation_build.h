// From a mutation case to candidates: the original, its mutants, and both with delays.
#pragma once

#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "codegen/codegen.h"
#include "delays.h"
#include "ir/target.h"
#include "measure/measure.h"
#include "mutation_cases.h"
#include "source_mutants.h"

namespace tenon::test {

// f(0) … f(count - 1), some at once.
template <class F>
void in_parallel(std::size_t count, std::size_t at_once, const F& f) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < at_once && t < count; ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) f(i);
    });
  for (std::thread& t : threads) t.join();
}

struct BuiltCase {
  const MutationCase* mutation_case = nullptr;
  ir::Target target;
  // Flattened sources, so that only an edit makes a difference; one for each module of the plan.
  std::vector<codegen::Source> sources;
  std::vector<std::vector<std::string>> launched;  // of each module the kernels that are launched
  measure::Candidate right;
};
// Throws codegen::Rejected, UserError, and std::runtime_error with the log of a failed compile.
BuiltCase build(const MutationCase& c, const ir::Target& target);

struct BuiltMutant {
  SourceMutant mutant;
  std::size_t module = 0;
  measure::Candidate wrong;
};
// Up to `wanted` mutants that compile to other instructions of launched kernels than the original
// and each other; the same ones in every run. Edits in `used` are left out, and those taken put
// there. Another `start` takes other edits first.
std::vector<BuiltMutant> build_mutants(const BuiltCase& built, std::size_t wanted,
                                       std::size_t start, std::set<std::string>& used,
                                       std::size_t at_once);

// The same edit of another case's kernel; nothing where it has no such line, or the same code.
std::optional<BuiltMutant> build_same(const BuiltCase& other, const SourceMutant& mutant);

// The original with delays in every module; and a mutant of one module, with delays in all.
measure::Candidate build_delayed(const BuiltCase& built, Delay delay);
measure::Candidate build_delayed(const BuiltCase& built, const BuiltMutant& mutant, Delay delay);

}  // namespace tenon::test
