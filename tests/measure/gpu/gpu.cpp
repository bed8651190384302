#include "gpu.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>

#include "codegen/embedded.h"
#include "ir/error.h"
#include "ir/family.h"

namespace tenon::codegen {
extern const EmbeddedFile kTestFixtures[];
extern const std::size_t kTestFixtures_count;
}  // namespace tenon::codegen

namespace tenon::test {

std::unique_ptr<runtime::Device> open_gpu(std::string* why) {
  try {
    auto device = runtime::open_device("cuda:0");
    if (!codegen::nvrtc_available(why)) return nullptr;
    return device;
  } catch (const DeviceError& error) {
    *why = error.what();
    return nullptr;
  }
}

std::vector<std::string> embedded_fixtures() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < codegen::kTestFixtures_count; ++i) {
    std::string name = codegen::kTestFixtures[i].name;
    names.push_back(name.substr(0, name.find('.')));
  }
  return names;
}

ir::MuGraph embedded_fixture(const std::string& name) {
  for (std::size_t i = 0; i < codegen::kTestFixtures_count; ++i)
    if (codegen::kTestFixtures[i].name == name + ".mugraph")
      return ir::parse_mugraph(codegen::kTestFixtures[i].text);
  throw std::runtime_error("no fixture " + name);
}

codegen::Source as_tools_want(codegen::Source source) {
  const char* racecheck = std::getenv("TENON_RACECHECK");
  if (racecheck && *racecheck) source.text = "#define TENON_RACECHECK\n" + source.text;
  return source;
}

measure::Candidate compile(const ir::MuGraph& graph, const ir::Schedule& schedule,
                           const ir::Workload& workload, const ir::Target& target) {
  codegen::Generated generated = codegen::generate(graph, schedule, workload, target);
  measure::Candidate candidate{generated.plan, {}};
  for (std::size_t i = 0; i < generated.sources.size(); ++i) {
    codegen::Compiled compiled = codegen::compile(as_tools_want(generated.sources[i]), target);
    if (!compiled.ok) throw std::runtime_error(ir::print(schedule) + "\n" + compiled.log);
    candidate.plan.modules[i].cubin_sha256 = compiled.sha256;
    candidate.cubins.push_back(compiled.cubin);
  }
  return candidate;
}

std::vector<ir::Schedule> sample_schedules(const ir::MuGraph& graph, const ir::Workload& workload,
                                           const ir::Target& target) {
  // Per kernel the schedules to try; the i-th of the µGraph takes each kernel's i-th, cyclically.
  std::vector<std::vector<ir::KernelSchedule>> choices;
  std::size_t most = 0;
  for (std::size_t k = 0; k < graph.kernels.size(); ++k) {
    ir::KernelView kernel = ir::view(graph, k);
    std::vector<ir::KernelSchedule> own;
    for (const std::string& family : ir::families_for(kernel, workload, target)) {
      std::vector<ir::KernelSchedule> all =
          ir::enumerate_schedules(kernel, family, workload, target);
      if (all.empty()) continue;
      for (std::size_t i : {std::size_t{0}, all.size() / 2, all.size() - 1})
        if (std::find(own.begin(), own.end(), all[i]) == own.end()) own.push_back(all[i]);
    }
    if (own.empty()) return {};
    most = std::max(most, own.size());
    choices.push_back(std::move(own));
  }
  std::vector<ir::Schedule> schedules;
  for (std::size_t i = 0; i < most; ++i) {
    ir::Schedule schedule;
    for (const auto& own : choices) schedule.kernels.push_back(own[i % own.size()]);
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}

}  // namespace tenon::test
