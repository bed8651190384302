#include "optimizer/reverify.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/mugraph.h"
#include "measure/measure.h"
#include "runtime/device.h"

namespace tenon::optimizer {

using verifier::Evidence;
using verifier::Verdict;

namespace {

bool stands(const std::string& verdict) { return verdict == "pass" || verdict == "proved"; }

// Of each method what is stored now: the newest row that counts for this program. A refutation
// is never outdone by an older pass.
std::map<std::string, std::string> stored_verdicts(const cache::Stored& stored,
                                                   const std::string& program_id) {
  std::map<std::string, std::string> out;
  for (const cache::EvidenceRow& row : stored.evidence)  // oldest first
    if (row.program_sha256.empty() || row.program_sha256 == program_id)
      out[row.method] = row.verdict;
  return out;
}

Evidence numeric_again(const cache::Stored& stored, const ir::Workload& workload,
                       const ReverifyOptions& options) {
  measure::Candidate candidate;
  candidate.plan = ir::parse_plan(stored.plan.text);
  for (const cache::KernelRow& kernel : stored.kernels) candidate.cubins.push_back(kernel.cubin);
  return measure::make_worker_runner(options.device, workload)->accept(candidate, options.seed);
}

// Why the numeric test cannot be repeated on `device`; empty when it can.
std::string obstacle(const cache::Stored& stored, const std::string& device) {
  if (device.empty()) return "no device was named";
  if (stored.plan.text.empty()) return "the candidate has no plan";
  const runtime::DeviceInfo info = runtime::open_device(device)->info();
  if (!info.executes) return fmt::format("{} does not execute kernels", device);
  if (info.device_class != stored.plan.device_class)
    return fmt::format("the plan is for {}, and {} is {}", stored.plan.device_class, device,
                       info.device_class);
  return "";
}

void run(const cache::Stored& stored, const ReverifyOptions& options, Reverification& out) {
  const ir::Workload workload = workload_of(stored.workload);
  const ir::MuGraph graph = ir::parse_mugraph(stored.mugraph.text);
  if (ir::identity(graph) != stored.mugraph.sha256)
    out.worse.push_back("the stored µGraph's text has another identity than is stored");
  verifier::RandomOptions random;
  random.seed = options.seed;
  verifier::Z3Options z3;
  z3.timeout_ms = options.z3_timeout_ms;
  out.evidence.push_back(verifier::random_test(workload.program, graph, random));
  out.evidence.push_back(verifier::z3_check(workload.program, graph, z3));
  out.evidence.push_back(verifier::induction_check(workload.program, graph, z3));
  out.not_repeated = obstacle(stored, options.device);
  if (out.not_repeated.empty()) out.evidence.push_back(numeric_again(stored, workload, options));

  const auto before = stored_verdicts(stored, ir::identity(workload.program));
  for (const Evidence& e : out.evidence) {
    const auto it = before.find(e.method);
    const bool stood = it != before.end() && stands(it->second);
    const std::string now = verifier::name(e.verdict);
    if (e.verdict == Verdict::kRefuted || (stood && !stands(now)))
      out.worse.push_back(fmt::format("{}: {} now{}{}", e.method, now,
                                      stood ? ", " + it->second + " before" : "",
                                      e.reason.empty() ? "" : " (" + e.reason + ")"));
  }
}

}  // namespace

ir::Workload workload_of(const cache::WorkloadRow& row) {
  const ir::Program program = ir::parse_program(row.program_text);
  const auto dtype = ir::dtype_from_name(row.dtype);
  if (!dtype) throw UserError("dtype", row.dtype, "bf16, fp16, fp32");
  try {
    auto dims = nlohmann::json::parse(row.dims_json).get<std::map<std::string, std::int64_t>>();
    for (const std::string& dim : program.signature.dims)
      if (dim == "m") dims["m"] = row.m;
    return ir::make_workload(
        program, dims, *dtype,
        nlohmann::json::parse(row.attributes_json).get<std::map<std::string, double>>());
  } catch (const nlohmann::json::exception& e) {
    throw UserError(fmt::format("the stored workload {} is malformed: {}", row.id, e.what()));
  }
}

Reverification reverify(const cache::Stored& stored, const ReverifyOptions& options) {
  Reverification out;
  try {
    run(stored, options, out);
  } catch (const UserError& e) {
    out.worse.push_back(e.what());
  } catch (const DeviceError& e) {
    out.not_repeated = e.what();
  }
  return out;
}

}  // namespace tenon::optimizer
