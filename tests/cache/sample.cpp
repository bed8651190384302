#include "tests/cache/sample.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

#include "ir/sha256.h"

namespace tenon::cache {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tenon-cache-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string key_of(const Sample& sample) {
  return fmt::format(
      R"({{"attributes":{{"eps":1e-06}},"dims":{{"k":{},"n":{}}},"dtype":"{}","program":"rmsnorm_linear","program_id":"{}"}})",
      sample.k, sample.n, sample.dtype, ir::sha256_hex(sample.program_text));
}

Query query_for(const Sample& sample) {
  Query query;
  query.workload_key = key_of(sample);
  query.m = sample.m;
  query.device_class = sample.device_class;
  query.device_name = sample.device_name;
  query.dependent_launch = sample.dependent_launch;
  return query;
}

std::int64_t add(Database& database, const Sample& sample) {
  std::int64_t plan_id = 0;
  database.transaction([&] {
    WorkloadRow workload;
    workload.key = key_of(sample);
    workload.program = "rmsnorm_linear";
    workload.program_text = sample.program_text;
    workload.m = sample.m;
    workload.dims_json = fmt::format(R"({{"m":{},"k":{},"n":{}}})", sample.m, sample.k, sample.n);
    workload.dtype = sample.dtype;
    workload.attributes_json = R"({"eps":1e-06})";
    EnvironmentRow environment;
    environment.device_name = sample.device_name;
    environment.device_class = sample.device_class;
    environment.sm_count = 132;
    environment.driver = sample.driver;
    environment.nvrtc = sample.nvrtc;
    environment.tenon = sample.tenon;
    MuGraphRow mugraph;
    mugraph.text = sample.mugraph;
    mugraph.label = "label of " + sample.mugraph.substr(0, sample.mugraph.find('\n'));
    mugraph.program = "rmsnorm_linear";
    ScheduleRow schedule;
    schedule.text = sample.schedule;

    PlanRow plan;
    plan.workload = database.put(workload);
    plan.mugraph = database.put(mugraph);
    plan.schedule = database.put(schedule);
    plan.device_class = sample.device_class;
    plan.m_min = sample.m_min;
    plan.m_max = sample.m_max;
    plan.dependent_launch = sample.dependent_launch;
    plan.uses_library = sample.uses_library;
    plan.text = fmt::format(R"({{"schedule":"{}","mugraph":"{}","dependent":{}}})", sample.schedule,
                            sample.mugraph, sample.dependent_launch);
    if (!sample.cubin.empty()) {
      KernelRow kernel;
      kernel.source = "// source of " + sample.mugraph + sample.schedule;
      kernel.options = "-arch=sm_90a";
      kernel.target = "sm_90a";
      kernel.nvrtc = sample.nvrtc;
      kernel.cubin = sample.cubin;
      kernel.resources_json = "[]";
      kernel.registers = 128;
      kernel.status = "ok";
      plan.kernels.push_back(database.put(kernel));
      plan.text += ir::sha256_hex(sample.cubin);
    }
    plan_id = database.put(plan);

    auto evidence = [&](const char* method, const std::string& verdict, std::int64_t of_plan) {
      if (verdict.empty()) return;
      EvidenceRow row;
      row.mugraph = plan.mugraph;
      row.plan = of_plan;
      row.method = method;
      row.verdict = verdict;
      row.reason = fmt::format("{} says {}", method, verdict);
      row.figures_json = "{}";
      row.program_sha256 = ir::sha256_hex(sample.program_text);
      database.put(row);
    };
    evidence("random", sample.random, 0);
    evidence("z3", sample.z3, 0);
    evidence("numeric", sample.numeric, plan_id);

    SessionRow session;
    session.workload = plan.workload;
    session.environment = database.put(environment);
    session.seed = 1;
    session.reference_time_us = sample.reference_us;
    MeasurementRow measurement;
    measurement.plan = plan_id;
    measurement.environment = session.environment;
    measurement.session = database.put(session);
    measurement.kind = sample.kind;
    measurement.status = sample.status;
    measurement.reason = sample.reason;
    measurement.time_us = sample.time_us;
    measurement.spread_us = 0.5;
    measurement.samples_us = {sample.time_us, sample.time_us + 0.5};
    measurement.protocol = "two samples";
    measurement.created = sample.created;
    measurement.disturbance = sample.disturbance;
    measurement.decides = sample.decides;
    database.put(measurement);
  });
  return plan_id;
}

}  // namespace tenon::cache
