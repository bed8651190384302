// The CUDA launch path over a stand-in driver: what is launched, with which arguments, when it
// may be a dependent launch, and that nothing is allocated.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "fake_driver.h"
#include "ir/error.h"
#include "ir/plan.h"
#include "ir/sha256.h"
#include "runtime/device.h"

// counting_new.cpp
extern std::atomic<long> heap_allocations;

namespace tenon::runtime {
namespace {

test::FakeRecord& record() {
  static auto* const get = reinterpret_cast<test::FakeRecord* (*)()>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "tenon_fake_record"));
  return *get();
}

const std::vector<std::string> kDims = {"m", "k", "n"};
ir::SizeExpr expr(const std::string& text) { return ir::SizeExpr::parse(text, kDims); }

ir::Arg buffer_arg(int b) {
  ir::Arg a;
  a.buffer = b;
  return a;
}

// prepare: fold(w) -> wp; main: stats(x, map of x, m, k, 0.5) -> ws, then product(ws, wp) -> y in
// clusters of 2.
ir::LaunchPlan make_plan(bool workspace = true) {
  ir::LaunchPlan plan;
  plan.program = "demo";
  plan.dims = kDims;
  plan.extents = {16, 64, 32};
  plan.dynamic_dim = 0;
  plan.m_min = 1;
  plan.m_max = 1 << 24;
  plan.dtype = ir::DType::kBF16;
  plan.device_class = "sm_90a";
  plan.input_count = 2;
  plan.output_count = 1;
  auto buffer = [&](const std::string& name, ir::BufferRole role, const std::string& elements) {
    ir::Buffer b;
    b.name = name;
    b.role = role;
    b.dtype = ir::DType::kBF16;
    b.elements = expr(elements);
    b.in_main = true;
    plan.buffers.push_back(b);
  };
  buffer("x", ir::BufferRole::kActivation, "m * k");
  buffer("w", ir::BufferRole::kParameter, "k * n");
  buffer("y", ir::BufferRole::kOutput, "m * n");
  buffer("wp", ir::BufferRole::kPrepared, "k * n");
  if (workspace) buffer("ws", ir::BufferRole::kWorkspace, "m * 128");
  const int ws = workspace ? 4 : 3;
  plan.modules.push_back({ir::sha256_hex("cubin one"), "sm_90a"});
  ir::TensorMapSpec map;
  map.buffer = 0;
  map.rows = expr("m");
  map.columns = expr("k");
  map.row_stride = expr("k");
  map.box_rows = expr("64");
  map.box_columns = 64;
  map.swizzle_bytes = 128;
  plan.tensor_maps.push_back(map);

  ir::Launch fold;
  fold.module = 0;
  fold.entry = "fold_2";
  fold.args = {buffer_arg(1), buffer_arg(3)};
  plan.prepare.push_back(fold);

  ir::Launch stats;
  stats.module = 0;
  stats.entry = "stats_6";
  stats.grid[0] = expr("ceildiv(m, 16)");
  stats.grid[1] = 2;
  stats.block[0] = 128;
  stats.shared_bytes = 1000;
  stats.dependent = true;
  ir::Arg m, k, half, tensor;
  m.kind = ir::ArgKind::kInt32;
  m.integer = expr("m");
  k.kind = ir::ArgKind::kInt64;
  k.integer = expr("k + 1");
  half.kind = ir::ArgKind::kFloat;
  half.number = 0.5;
  tensor.kind = ir::ArgKind::kTensorMap;
  tensor.tensor_map = 0;
  stats.args = {buffer_arg(0), tensor, m, k, half, buffer_arg(ws)};
  plan.main.push_back(stats);

  ir::Launch product;
  product.module = 0;
  product.entry = "product_3";
  product.grid[0] = expr("2 * ceildiv(n, 32)");
  product.block[0] = 256;
  product.cluster[0] = 2;
  product.dependent = true;
  product.args = {buffer_arg(ws), buffer_arg(3), buffer_arg(2)};
  plan.main.push_back(product);
  return plan;
}

class LaunchPath : public testing::Test {
 protected:
  void SetUp() override {
    device_ = open_device("cuda:0");
    ASSERT_EQ(device_->info().name, "Stand-in GPU");
    record() = {};
  }
  std::unique_ptr<Executable> load(const ir::LaunchPlan& plan) {
    return device_->load(plan, {"cubin one"});
  }
  void launch(Executable& e, std::int64_t m, StreamHandle stream = nullptr, bool dependent = true) {
    const void* inputs[] = {x_, w_};
    void* outputs[] = {y_};
    e.launch(inputs, outputs, m, stream, dependent);
  }
  std::vector<bool> dependent() const {
    std::vector<bool> flags;
    for (const auto& l : record().launches) flags.push_back(l.dependent);
    return flags;
  }

  std::unique_ptr<Device> device_;
  alignas(256) char x_[256] = {}, w_[256] = {}, y_[256] = {};
};

TEST_F(LaunchPath, DeviceIsDescribed) {
  EXPECT_EQ(device_->info().device_class, "sm_90a");
  EXPECT_EQ(device_->info().target.sm_count, 7);
  EXPECT_NE(device_->info().driver.find("CUDA 13.0"), std::string::npos);
  EXPECT_EQ(list_devices()[0].id, "cuda:0");
  EXPECT_THROW(open_device("cuda:1"), DeviceError);
  EXPECT_THROW(device_->allocate(std::size_t{1} << 40), DeviceError);
}

TEST_F(LaunchPath, GridArgumentsAndAttributes) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  int stream = 0;
  launch(*e, 33, &stream);
  const auto& l = record().launches;
  ASSERT_EQ(l.size(), 3u);
  EXPECT_EQ(l[0].entry, "fold_2");
  EXPECT_EQ(l[0].parameters[0], reinterpret_cast<std::uint64_t>(w_));
  const test::FakeLaunch& stats = l[1];
  EXPECT_EQ(stats.entry, "stats_6");
  EXPECT_EQ(stats.grid, (std::array<unsigned, 3>{3, 2, 1}));  // ⌈33/16⌉ × 2
  EXPECT_EQ(stats.block, (std::array<unsigned, 3>{128, 1, 1}));
  EXPECT_EQ(stats.shared_bytes, 1000u);
  EXPECT_EQ(stats.stream, &stream);
  EXPECT_EQ(stats.cluster[0], 0u);
  EXPECT_EQ(stats.parameters[0], reinterpret_cast<std::uint64_t>(x_));
  EXPECT_EQ(stats.parameters[1],
            reinterpret_cast<std::uint64_t>(x_));  // the map begins with its address
  EXPECT_EQ(stats.parameters[2] & 0xffffffffu, 33u);
  EXPECT_EQ(stats.parameters[3], 65u);
  float half;
  std::memcpy(&half, &stats.parameters[4], 4);
  EXPECT_EQ(half, 0.5f);
  EXPECT_EQ(l[2].cluster, (std::array<unsigned, 3>{2, 1, 1}));
  EXPECT_EQ(l[2].grid[0], 2u);
  EXPECT_EQ(l[2].parameters[0], stats.parameters[5]);  // the same workspace
  EXPECT_EQ(l[2].parameters[1], l[0].parameters[1]);   // what prepare made
  EXPECT_EQ(l[2].parameters[2], reinterpret_cast<std::uint64_t>(y_));
}

TEST_F(LaunchPath, FirstAfterPrepareIsNeverDependent) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  launch(*e, 16);
  launch(*e, 16);
  launch(*e, 16, nullptr, false);
  e->prepare({nullptr, w_}, nullptr);
  launch(*e, 16);
  //                               prepare first         second      plain         prepare first
  EXPECT_EQ(dependent(),
            (std::vector<bool>{false, false, true, true, true, false, false, false, false, true}));
}

TEST_F(LaunchPath, AllocatesNothingAndEncodesOnce) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  launch(*e, 16);
  launch(*e, 17);
  record().recording = false;
  const int device_before = record().allocations, maps_before = record().encodings;
  const long heap_before = heap_allocations;
  for (int i = 0; i < 100; ++i) launch(*e, 16 + i % 2);
  EXPECT_EQ(heap_allocations - heap_before, 0);
  EXPECT_EQ(record().allocations, device_before);
  EXPECT_EQ(record().encodings, maps_before);
  EXPECT_EQ(maps_before, 2);  // one for each m
}

TEST_F(LaunchPath, EveryStreamHasItsWorkspaceClearedOnce) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  int a = 0, b = 0;
  for (void* stream : {&a, &b, &a, &b}) launch(*e, 16, stream);
  const auto& l = record().launches;
  std::uint64_t first = l[1].parameters[5], second = l[3].parameters[5];
  EXPECT_NE(first, second);
  EXPECT_EQ(l[5].parameters[5], first);
  EXPECT_EQ(l[7].parameters[5], second);
  for (std::size_t bytes : record().fills) EXPECT_EQ(bytes, 16u * 128 * 2);
}

TEST_F(LaunchPath, WorkspaceGrowsWithM) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  launch(*e, 16);
  launch(*e, 1000);
  launch(*e, 900);
  launch(*e, 16);
  const auto& l = record().launches;
  EXPECT_NE(l[1].parameters[5], l[3].parameters[5]);
  EXPECT_EQ(l[3].parameters[5], l[5].parameters[5]);
  EXPECT_EQ(l[3].parameters[5], l[7].parameters[5]);
  EXPECT_EQ(record().fills.back(), 1000u * 128 * 2);
}

TEST_F(LaunchPath, FillsAndHostLaunches) {
  ir::LaunchPlan plan = make_plan();
  ir::Launch fill;
  fill.kind = ir::LaunchKind::kFill;
  fill.fill_buffer = 2;
  plan.main.insert(plan.main.begin(), fill);
  plan.buffers[2].elements = 100;
  auto e = load(plan);
  e->prepare({nullptr, w_}, nullptr);
  std::memset(y_, 1, sizeof y_);
  int stream = 0;
  launch(*e, 16, &stream);
  EXPECT_EQ(y_[199], 0);
  EXPECT_EQ(y_[200], 1);
  fill.kind = ir::LaunchKind::kHost;
  plan.main[0] = fill;
  EXPECT_THROW(load(plan), UserError);
}

TEST_F(LaunchPath, RefusesBadPlans) {
  ir::LaunchPlan plan = make_plan();
  EXPECT_THROW(device_->load(plan, {}), UserError);
  EXPECT_THROW(device_->load(plan, {"cubin two"}), UserError);  // checksum
  plan.device_class = "sm_80";
  EXPECT_THROW(load(plan), UserError);
  plan = make_plan();
  plan.modules[0].cubin_sha256 = ir::sha256_hex("junk");
  EXPECT_THROW(device_->load(plan, {"junk"}), DeviceError);
  plan = make_plan();
  plan.main[0].entry = "missing";
  EXPECT_THROW(load(plan), DeviceError);
  plan = make_plan();
  plan.main[0].shared_bytes = 1 << 20;
  EXPECT_THROW(load(plan), DeviceError);
  plan = make_plan();
  plan.main[0].args[0].buffer = 9;
  EXPECT_THROW(load(plan), UserError);
  plan = make_plan();
  plan.main[0].module = 3;
  EXPECT_THROW(load(plan), UserError);
  plan = make_plan();
  plan.tensor_maps[0].swizzle_bytes = 48;
  EXPECT_THROW(load(plan), UserError);
}

TEST_F(LaunchPath, ChecksCalls) {
  auto e = load(make_plan());
  EXPECT_THROW(launch(*e, 16), UserError);
  EXPECT_THROW(e->prepare({nullptr, nullptr}, nullptr), UserError);
  e->prepare({nullptr, w_}, nullptr);
  EXPECT_THROW(launch(*e, -1), UserError);
  EXPECT_THROW(launch(*e, (1 << 24) + 1), UserError);
  std::size_t before = record().launches.size();
  launch(*e, 0);
  EXPECT_EQ(record().launches.size(), before);
  const void* misaligned[] = {x_ + 2, w_};
  void* outputs[] = {y_};
  EXPECT_THROW(e->launch(misaligned, outputs, 16, nullptr), DeviceError);  // no tensor map over it
}

TEST_F(LaunchPath, ManyThreadsOnManyStreams) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  std::vector<std::thread> threads;
  char streams[16];
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) launch(*e, 1 + (t + i) % 40, &streams[t]);
    });
  for (std::thread& t : threads) t.join();
  int checked = 0;
  for (const auto& l : record().launches) {
    if (l.entry != "stats_6") continue;
    std::int64_t m = static_cast<std::int64_t>(l.parameters[2] & 0xffffffffu);
    EXPECT_EQ(l.parameters[1], reinterpret_cast<std::uint64_t>(x_));
    EXPECT_EQ(l.grid[0], static_cast<unsigned>((m + 15) / 16));
    ++checked;
  }
  EXPECT_EQ(checked, 16 * 200);
}

TEST_F(LaunchPath, ReplicasShareWorkspaceButNotWeights) {
  auto first = load(make_plan());
  auto second = first->replicate();
  first->prepare({nullptr, w_}, nullptr);
  second->prepare({nullptr, x_}, nullptr);
  launch(*first, 16);
  launch(*second, 16);
  const auto& l = record().launches;
  EXPECT_NE(l[0].parameters[1], l[1].parameters[1]);  // prepared buffers
  EXPECT_EQ(l[1].parameters[0], reinterpret_cast<std::uint64_t>(x_));
  EXPECT_EQ(l[2].parameters[5], l[4].parameters[5]);
  EXPECT_EQ(l[3].parameters[1], l[0].parameters[1]);
  EXPECT_EQ(l[5].parameters[1], l[1].parameters[1]);
}

// A graph may be replayed on any stream: what was captured shares scratch with nothing else.
TEST_F(LaunchPath, CapturesHaveWorkspaceOfTheirOwn) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  int stream = 0;
  launch(*e, 16, &stream);
  record().captures[&stream] = 71;
  launch(*e, 16, &stream);
  launch(*e, 16, &stream);
  record().captures[&stream] = 72;
  launch(*e, 16, &stream);
  record().captures.clear();
  launch(*e, 16, &stream);
  std::vector<std::uint64_t> scratch;
  for (const auto& l : record().launches)
    if (l.entry == "stats_6") scratch.push_back(l.parameters[5]);
  ASSERT_EQ(scratch.size(), 5u);
  EXPECT_EQ(scratch[1], scratch[2]);  // one capture
  EXPECT_EQ(scratch[0], scratch[4]);
  EXPECT_NE(scratch[0], scratch[1]);
  EXPECT_NE(scratch[0], scratch[3]);
  EXPECT_NE(scratch[1], scratch[3]);
}

// CU_STREAM_PER_THREAD is another stream in each thread; the two names of the default stream are
// one.
TEST_F(LaunchPath, WorkspaceFollowsWhatAHandleMeans) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  void *legacy = reinterpret_cast<void*>(1), *per_thread = reinterpret_cast<void*>(2);
  launch(*e, 16, nullptr);
  launch(*e, 16, legacy);
  launch(*e, 16, per_thread);
  std::thread([&] { launch(*e, 16, per_thread); }).join();
  launch(*e, 16, per_thread);
  std::vector<std::uint64_t> scratch;
  for (const auto& l : record().launches)
    if (l.entry == "stats_6") scratch.push_back(l.parameters[5]);
  ASSERT_EQ(scratch.size(), 5u);
  EXPECT_EQ(scratch[0], scratch[1]);
  EXPECT_NE(scratch[0], scratch[2]);
  EXPECT_NE(scratch[2], scratch[3]);
  EXPECT_EQ(scratch[2], scratch[4]);
}

TEST_F(LaunchPath, ManyStreams) {
  auto e = load(make_plan());
  e->prepare({nullptr, w_}, nullptr);
  char streams[200];
  for (char& s : streams) launch(*e, 16, &s);
  std::set<std::uint64_t> scratch;
  for (const auto& l : record().launches)
    if (l.entry == "stats_6") scratch.insert(l.parameters[5]);
  EXPECT_EQ(scratch.size(), 200u);
}

// Plans whose prepare steps are the same use one copy of what it made; others do not.
TEST_F(LaunchPath, AdoptsWhatTheSamePrepareStepMade) {
  auto first = load(make_plan());
  ir::LaunchPlan plan = make_plan();
  plan.main.pop_back();  // another main step, the same prepare step
  auto second = load(plan);
  EXPECT_FALSE(second->adopt(*first));  // not prepared yet
  first->prepare({nullptr, w_}, nullptr);
  const std::size_t before = record().launches.size();
  ASSERT_TRUE(second->adopt(*first));
  EXPECT_EQ(record().launches.size(), before);
  plan = make_plan();
  plan.prepare[0].grid[0] = 2;
  EXPECT_FALSE(load(plan)->adopt(*first));
  const std::uint64_t prepared = record().launches[0].parameters[1];
  launch(*first, 16);
  EXPECT_EQ(record().launches.back().parameters[1], prepared);
  first.reset();  // what it made lives on in the second
  launch(*second, 16);
  EXPECT_FALSE(record().launches.back().dependent);  // the first after binding
}

// fold(w) -> wp, then pack(wp) -> wq, and only wq is read: wp is freed.
TEST_F(LaunchPath, StepsOnTheWayAreFreed) {
  ir::LaunchPlan plan = make_plan();
  ir::Buffer packed = plan.buffers[3];
  packed.name = "wq";
  plan.buffers.push_back(packed);
  plan.buffers[3].in_main = false;
  ir::Launch pack = plan.prepare[0];
  pack.args = {buffer_arg(3), buffer_arg(5)};
  plan.prepare.push_back(pack);
  plan.main[1].args[1] = buffer_arg(5);
  auto e = load(plan);
  const int before = record().live;
  e->prepare({nullptr, w_}, nullptr);
  EXPECT_EQ(record().live - before, 1);
  launch(*e, 16);
  EXPECT_EQ(record().launches.back().parameters[1], record().launches[1].parameters[1]);
}

// One plan reads wp = fold(w), another wq = pack(fold(w)), a third both. Together they hold each of
// the two once, whoever was prepared first, and each step runs once.
TEST_F(LaunchPath, PlansHoldOneCopyOfWhatTheyHaveInCommon) {
  ir::LaunchPlan folded = make_plan(), packed = make_plan();
  ir::Buffer wq = packed.buffers[3];
  wq.name = "wq";
  packed.buffers.push_back(wq);
  packed.buffers[3].in_main = false;
  ir::Launch pack = packed.prepare[0];
  pack.args = {buffer_arg(3), buffer_arg(5)};
  packed.prepare.push_back(pack);
  ir::LaunchPlan both = packed;
  packed.main[1].args[1] = buffer_arg(5);
  both.buffers[3].in_main = true;
  both.main.push_back(packed.main[1]);
  auto a = load(folded), b = load(packed), c = load(both);
  const int before = record().live;
  a->prepare({nullptr, w_}, nullptr);
  ASSERT_EQ(record().launches.size(), 1u);
  const std::uint64_t wp = record().launches[0].parameters[1];
  EXPECT_FALSE(b->adopt(*a));
  b->prepare({nullptr, w_}, nullptr);
  ASSERT_EQ(record().launches.size(), 2u);  // pack alone, of the other's wp
  EXPECT_EQ(record().launches[1].parameters[0], wp);
  EXPECT_FALSE(c->adopt(*a));
  EXPECT_TRUE(c->adopt(*b));
  EXPECT_EQ(record().launches.size(), 2u);
  EXPECT_EQ(record().live - before, 2);
  launch(*c, 16);
  EXPECT_EQ(record().launches[3].parameters[1], wp);
  EXPECT_EQ(record().launches[4].parameters[1], record().launches[1].parameters[1]);
  // Other weights: nothing of what was shared is taken for them.
  b->prepare({nullptr, x_}, nullptr);
  EXPECT_EQ(record().launches[5].parameters[0], reinterpret_cast<std::uintptr_t>(x_));
  EXPECT_NE(record().launches[5].parameters[1], wp);
  EXPECT_EQ(record().launches.size(), 7u);
}

TEST_F(LaunchPath, ParametersUnderATensorMapAreAligned) {
  ir::LaunchPlan plan = make_plan();
  plan.tensor_maps[0].buffer = 1;
  auto e = load(plan);
  try {
    e->prepare({nullptr, w_ + 2}, nullptr);
    FAIL() << "it was prepared";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("parameter w"), std::string::npos) << error.what();
  }
  e->prepare({nullptr, w_}, nullptr);
}

template <class Call>
std::string sentence_of(const Call& call) {
  try {
    call();
  } catch (const DeviceError& e) {
    return e.what();
  } catch (const UserError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// What cannot run here is said in one sentence that names both sides.
TEST_F(LaunchPath, OtherGpusAndOlderDriversAreNamed) {
  record().compute_major = 7;
  record().compute_minor = 5;
  std::string said = sentence_of([] { open_device("cuda:0"); });
  EXPECT_NE(said.find("compute capability 75"), std::string::npos) << said;
  EXPECT_NE(said.find("8.0"), std::string::npos) << said;
  record().compute_major = 8;
  record().compute_minor = 0;
  auto ampere = open_device("cuda:0");
  said = sentence_of([&] { ampere->load(make_plan(), {"cubin one"}); });
  EXPECT_NE(said.find("sm_90a"), std::string::npos) << said;
  EXPECT_NE(said.find("sm_80"), std::string::npos) << said;
  record().compute_major = 9;
  // The toolchain that made the cubin is newer than the driver.
  for (CUresult result : {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_NO_BINARY_FOR_GPU,
                          CUDA_ERROR_INVALID_IMAGE}) {
    record().module_result = result;
    said = sentence_of([&] { load(make_plan()); });
    EXPECT_NE(said.find("newer driver than"), std::string::npos) << said;
    EXPECT_NE(said.find("CUDA 13.0"), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace tenon::runtime
