#include "stored.h"

#include "ir/sha256.h"
#include "runtime/load.h"

namespace tenon::test {

std::int64_t store_winner(cache::Database& database, const ir::Workload& workload,
                          const ir::MuGraph& graph, const ir::LaunchPlan& plan,
                          const std::vector<std::string>& cubins, const runtime::DeviceInfo& device,
                          double time_us, const std::string& schedule) {
  cache::WorkloadRow w;
  w.key = ir::key(workload);
  w.program = workload.program.signature.program;
  w.program_text = ir::print(workload.program);
  w.m = runtime::dynamic_extent(workload);
  w.dims_json = "{}";
  w.dtype = std::string(ir::name(workload.dtype));
  w.attributes_json = "{}";
  cache::EnvironmentRow e;
  e.device_name = device.name;
  e.device_class = device.device_class;
  e.tenon = "test";
  cache::MuGraphRow g;
  g.text = ir::print(ir::canonical(graph));
  g.sha256 = ir::identity(graph);
  g.label = "test";
  g.program = w.program;
  cache::ScheduleRow s;
  s.text = schedule.empty() ? plan.schedule : schedule;
  s.sha256 = ir::sha256_hex(s.text);
  cache::PlanRow p;
  for (std::size_t i = 0; i < cubins.size(); ++i) {
    cache::KernelRow kernel;
    kernel.source = "test " + ir::sha256_hex(cubins[i]);
    kernel.source_sha256 = ir::sha256_hex(kernel.source);
    kernel.target = plan.device_class;
    kernel.cubin = cubins[i];
    kernel.cubin_sha256 = ir::sha256_hex(cubins[i]);
    kernel.status = "ok";
    p.kernels.push_back(database.put(kernel));
  }
  p.workload = database.put(w);
  p.mugraph = database.put(g);
  p.schedule = database.put(s);
  p.device_class = plan.device_class;
  p.text = ir::print(plan);
  p.sha256 = ir::sha256_hex(p.text);
  p.m_min = plan.m_min;
  p.m_max = plan.m_max;
  p.dependent_launch = plan.dependent_launch;
  const std::int64_t id = database.put(p);
  cache::SessionRow session;
  session.workload = p.workload;
  session.environment = database.put(e);
  cache::MeasurementRow m;
  m.plan = id;
  m.environment = session.environment;
  m.session = database.put(session);
  m.status = "ok";
  m.kind = "measured";
  m.time_us = time_us;
  m.samples_us = {time_us};
  database.put(m);
  for (const char* method : {"random", "numeric"}) {
    cache::EvidenceRow evidence;
    evidence.mugraph = p.mugraph;
    evidence.plan = std::string(method) == "numeric" ? id : 0;
    evidence.method = method;
    evidence.verdict = "pass";
    evidence.figures_json = "{}";
    database.put(evidence);
  }
  return id;
}

}  // namespace tenon::test
