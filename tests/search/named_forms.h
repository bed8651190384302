// One µGraph of each named form of each program of the catalog, to be run on a device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "ir/family.h"
#include "ir/workload.h"
#include "measure/measure.h"
#include "tests/search/catalog_forms.h"

namespace tenon::search::test {

struct NamedForm {
  std::string program, form;
  ir::MuGraph graph;
  bool stable = true;  // within the numeric contract at a mean of 1000 deviations
};

inline std::vector<NamedForm> find_named_forms(const std::string& program) {
  Result found = enumerate(ir::catalog_program(program), Options{});
  std::vector<NamedForm> out;
  const bool cancels = program == "layernorm_linear";
  auto add = [&](const std::string& form, bool stable, auto&& is) {
    for (const ir::MuGraph& g : found.graphs)
      if (is(g)) {
        out.push_back({program, form, g, stable});
        return;
      }
  };
  int unfused = find_unfused(found.graphs);
  if (unfused >= 0)
    out.push_back({program, "unfused", found.graphs[static_cast<std::size_t>(unfused)], true});
  auto is_folded = [](const ir::MuGraph& g) { return !g.prepare.outputs.empty(); };
  add("deferred, folded", !cancels,
      [&](const ir::MuGraph& g) { return is_deferred(g) && is_folded(g); });
  add("deferred", !cancels, [&](const ir::MuGraph& g) { return is_deferred(g) && !is_folded(g); });
  for (bool split : {false, true}) {
    std::string cut = split ? ", split" : "";
    add("one pass, folded" + cut, !cancels, [&](const ir::MuGraph& g) {
      return is_one_pass(g) && is_folded(g) && is_split_one_pass(g) == split &&
             running_means(*g.kernels[0].block()) == 0;
    });
    add("one pass" + cut, !cancels, [&](const ir::MuGraph& g) {
      return is_one_pass(g) && !is_folded(g) && is_split_one_pass(g) == split;
    });
    add("running mean" + cut, true,
        [&](const ir::MuGraph& g) { return is_running_mean(g) && is_split_one_pass(g) == split; });
  }
  if (cancels) {
    add("norm as prologue, two passes", true,
        [](const ir::MuGraph& g) { return is_norm_as_prologue(g) && squares_deviations(g); });
    add("norm as prologue, two sums", false,
        [](const ir::MuGraph& g) { return is_norm_as_prologue(g) && !squares_deviations(g); });
  } else {
    add("norm as prologue", true, is_norm_as_prologue);
  }
  if (program.rfind("linear_", 0) == 0 || program == "batchnorm_linear" || program == "dyt_linear")
    add("one kernel", true, is_one_kernel);
  return out;
}

// Searched once a program.
inline const std::vector<NamedForm>& named_forms(const std::string& program) {
  static std::map<std::string, std::vector<NamedForm>> known;
  auto it = known.find(program);
  if (it == known.end()) it = known.emplace(program, find_named_forms(program)).first;
  return it->second;
}

// Forms of the program that have a lowering, at least; of a norm after the product the unfused.
inline int least_lowered(const std::string& program) {
  return program.rfind("linear_", 0) == 0 ? 1 : 2;
}

inline ir::Workload small_workload(const std::string& program, std::int64_t scale) {
  const std::map<std::string, std::int64_t> extents = {
      {"m", 5},           {"k", 100 * scale}, {"n", 200 * scale}, {"nq", 48 * scale},
      {"nk", 16 * scale}, {"nv", 23},         {"h", 3},           {"d", 16 * scale}};
  ir::Program p = ir::catalog_program(program);
  std::map<std::string, std::int64_t> dims;
  for (const std::string& dim : p.signature.dims) dims[dim] = extents.at(dim);
  return ir::make_workload(p, dims, ir::DType::kBF16);
}

inline ir::Schedule default_schedule(const ir::MuGraph& graph, const ir::Workload& workload,
                                     const ir::Target& target) {
  ir::Schedule schedule;
  for (std::size_t k = 0; k < graph.kernels.size(); ++k)
    schedule.kernels.push_back(ir::default_schedule(ir::view(graph, k), workload, target));
  return schedule;
}

// Passes, or is refuted only where its form is known to cancel.
inline bool as_expected(const NamedForm& form, const verifier::Evidence& e) {
  if (e.verdict == verifier::Verdict::kPass) return true;
  return !form.stable && e.verdict == verifier::Verdict::kRefuted &&
         e.reason.find("_sigma") != std::string::npos;
}

}  // namespace tenon::search::test
