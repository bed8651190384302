// Kernels that fault, hang, trap, assert or ask for too much, among good ones, in a worker.
#include <gtest/gtest.h>

#include <stdexcept>

#include "cubin_text.h"
#include "gpu.h"
#include "ir/family.h"

namespace tenon::test {
namespace {

struct Fault {
  const char* name;
  const char* code;  // at the start of the kernel; empty: the plan itself asks for too much
  measure::Status status;
};

// The compiler sees through neither the clock nor the address, so it keeps the loop and the store.
constexpr Fault kFaults[] = {
    {"illegal address", "*reinterpret_cast<volatile int*>(16) = 1;", measure::Status::kLaunchError},
    {"infinite loop", "while (clock64() != -1) {}", measure::Status::kTimeout},
    {"trap", "asm volatile(\"trap;\");", measure::Status::kLaunchError},
    {"200 GiB allocation", "", measure::Status::kLaunchError},
    {"misaligned address",
     "__shared__ int word[2];\n"
     "  unsigned long long odd = reinterpret_cast<unsigned long long>(word);\n"
     "  asm volatile(\"or.b64 %0, %0, 1;\" : \"+l\"(odd));\n"
     "  *reinterpret_cast<volatile int*>(odd) = 1;",
     measure::Status::kLaunchError}};

class WorkerOnGpu : public testing::Test {
 protected:
  ir::Workload workload_ = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                             {{"m", 16}, {"k", 576}, {"n", 960}}, ir::DType::kBF16);

  ir::Schedule schedule(const ir::MuGraph& graph, const ir::Target& target) const {
    ir::Schedule schedule;
    for (std::size_t k = 0; k < graph.kernels.size(); ++k)
      schedule.kernels.push_back(ir::default_schedule(ir::view(graph, k), workload_, target));
    return schedule;
  }

  // The form with its main kernel's body preceded by the fault.
  measure::Candidate faulty(const Fault& fault, const ir::Target& target) const {
    const ir::MuGraph graph = embedded_fixture("rmsnorm_one_pass");
    codegen::Generated generated =
        codegen::generate(graph, schedule(graph, target), workload_, target);
    const ir::Launch* main = nullptr;
    for (const ir::Launch& launch : generated.plan.main)
      if (launch.kind == ir::LaunchKind::kCubin) main = &launch;
    if (main == nullptr) throw std::runtime_error("the form has no kernel of its own");
    std::string& text = generated.sources[static_cast<std::size_t>(main->module)].text;
    const std::size_t entry = text.rfind(" " + main->entry + "(");
    const std::size_t alone =
        entry == std::string::npos ? text.rfind("\n" + main->entry + "(") : entry;
    if (alone == std::string::npos) throw std::runtime_error("no entry " + main->entry);
    text.insert(text.find(") {", alone) + 3, std::string("\n  ") + fault.code + "\n");
    measure::Candidate candidate{generated.plan, {}};
    for (std::size_t i = 0; i < generated.sources.size(); ++i) {
      codegen::Compiled compiled = codegen::compile(generated.sources[i], target);
      if (!compiled.ok) throw std::runtime_error(fault.name + ("\n" + compiled.log));
      candidate.plan.modules[i].cubin_sha256 = compiled.sha256;
      candidate.cubins.push_back(compiled.cubin);
    }
    if (*fault.code == '\0') {
      ir::Buffer huge;
      huge.name = "huge";
      huge.role = ir::BufferRole::kWorkspace;
      huge.dtype = ir::DType::kF32;
      huge.elements = std::int64_t{50} << 30;
      huge.in_main = true;
      candidate.plan.buffers.push_back(huge);
    }
    return candidate;
  }
};

// Without a GPU: every fault compiles, into code of its own.
TEST_F(WorkerOnGpu, FaultsAreInTheCode) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  for (const char* name : {"sm_80", "sm_90a"}) {
    const ir::Target target = ir::target_from_name(name);
    auto code_of = [&](const Fault& fault) {
      std::string code;
      for (const std::string& cubin : faulty(fault, target).cubins) code += cubin_text(cubin);
      return code;
    };
    const std::string good = code_of({"none", "", {}});
    for (const Fault& fault : kFaults)
      EXPECT_EQ(code_of(fault) != good, *fault.code != '\0') << name << ": " << fault.name;
    // A loop that NVRTC removes is seen to be missing.
    const Fault removed{"no loop", "for (volatile int forever = 1; forever == 1;) {}", {}};
    EXPECT_EQ(code_of(removed), good) << name;
  }
}

TEST_F(WorkerOnGpu, FaultsCostTheFaultyCandidateOnly) {
  TENON_REQUIRE_GPU(device);
  const ir::Target target = device->info().target;
  const std::vector<std::string> forms = embedded_fixtures();
  constexpr std::size_t kGood = 50;
  std::vector<measure::Candidate> good, candidates;
  for (const std::string& form : forms) {
    const ir::MuGraph graph = embedded_fixture(form);
    good.push_back(compile(graph, schedule(graph, target), workload_, target));
  }
  std::vector<const Fault*> expected;
  for (std::size_t i = 0; i < kGood; ++i) {
    if (i % 11 == 5 && i / 11 < std::size(kFaults)) {
      candidates.push_back(faulty(kFaults[i / 11], target));
      expected.push_back(&kFaults[i / 11]);
    }
    candidates.push_back(good[i % good.size()]);
    expected.push_back(nullptr);
  }
  ASSERT_EQ(candidates.size(), kGood + std::size(kFaults));
  measure::Protocol protocol;
  protocol.samples = 3;
  protocol.hang_limit_s = 1;
  auto runner = measure::make_worker_runner("cuda:0", workload_);
  std::vector<measure::Timing> timings = runner->time(candidates, protocol);
  ASSERT_EQ(timings.size(), candidates.size());
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const measure::Timing& t = timings[i];
    if (expected[i] == nullptr) {
      EXPECT_EQ(t.status, measure::Status::kOk) << i << ": " << t.reason;
      EXPECT_EQ(t.samples_us.size(), 3u);
    } else {
      EXPECT_EQ(t.status, expected[i]->status) << expected[i]->name << ": " << t.reason;
      EXPECT_FALSE(t.reason.empty());
    }
    EXPECT_FALSE(t.not_run);
  }
  EXPECT_EQ(runner->accept(good[0], 1).verdict, verifier::Verdict::kPass);
}

TEST_F(WorkerOnGpu, AcceptanceSurvivesFaultsToo) {
  TENON_REQUIRE_GPU(device);
  const ir::Target target = device->info().target;
  auto runner = measure::make_worker_runner("cuda:0", workload_);
  const ir::MuGraph graph = embedded_fixture("rmsnorm_one_pass");
  const measure::Candidate good = compile(graph, schedule(graph, target), workload_, target);
  measure::Protocol protocol;
  protocol.samples = 1;
  protocol.hang_limit_s = 1;
  runner->time({good}, protocol);
  for (const Fault& fault : kFaults) {
    verifier::Evidence e = runner->accept(faulty(fault, target), 1);
    EXPECT_EQ(measure::status_of(e), fault.status) << fault.name << ": " << e.reason;
    EXPECT_EQ(runner->accept(good, 1).verdict, verifier::Verdict::kPass) << fault.name;
  }
}

// The worker starts in less than a second once the driver is warm, and times as this process does.
TEST_F(WorkerOnGpu, AnswersHaveTheFormOfThoseOfTheProcessItself) {
  TENON_REQUIRE_GPU(device);
  const ir::MuGraph graph = embedded_fixture("rmsnorm_one_pass");
  const measure::Candidate good =
      compile(graph, schedule(graph, device->info().target), workload_, device->info().target);
  auto worker = measure::make_worker_runner("cuda:0", workload_);
  auto local = measure::make_local_runner("cuda:0", workload_);
  measure::Timing a = worker->time({good}, {}).at(0), b = local->time({good}, {}).at(0);
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.samples_us.size(), b.samples_us.size());
  RecordProperty("worker_us", std::to_string(a.median_us));
  RecordProperty("local_us", std::to_string(b.median_us));
  std::printf("median: worker %.3f us (+- %.3f), this process %.3f us (+- %.3f); disturbed: '%s'\n",
              a.median_us, a.spread_us, b.median_us, b.spread_us, a.disturbance.c_str());
  EXPECT_EQ(worker->accept(good, 5).figures, local->accept(good, 5).figures);
}

}  // namespace
}  // namespace tenon::test
