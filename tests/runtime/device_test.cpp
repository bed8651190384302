// Finding and opening devices, with and without a GPU.
#include "runtime/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "host_plan.h"
#include "ir/error.h"

namespace tenon::runtime {
namespace {

TEST(Devices, AlwaysListHostAndCompileTargets) {
  std::string note;
  std::vector<DeviceInfo> infos = list_devices(&note);
  auto find = [&](const std::string& id) {
    return std::find_if(infos.begin(), infos.end(),
                        [&](const DeviceInfo& i) { return i.id == id; });
  };
  ASSERT_NE(find("host"), infos.end());
  EXPECT_FALSE(find("host")->name.empty());
  EXPECT_TRUE(find("host")->target.is_host());
  EXPECT_GE(find("host")->target.sm_count, 1);
  for (const char* id : {"compile:sm_80", "compile:sm_90a"}) {
    ASSERT_NE(find(id), infos.end()) << id;
    EXPECT_FALSE(find(id)->executes);
    EXPECT_EQ(find(id)->device_class, std::string(id).substr(8));
  }
  if (find("cuda:0") == infos.end()) {
    EXPECT_FALSE(note.empty());
  }
}

TEST(Devices, RefuseMalformedIds) {
  for (const char* id : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:99999",
                         "compile:", "compile:sm_10", "compile:host", "host:1"})
    EXPECT_THROW(open_device(id), UserError) << id;
}

TEST(Devices, SayWhenAGpuIsMissing) {
  try {
    open_device("cuda:77");
    FAIL() << "there is no cuda:77";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:77"), std::string::npos);
  }
}

TEST(Devices, AutoOpensSomethingThatExecutes) { EXPECT_TRUE(open_device("auto")->info().executes); }

TEST(CompileDevice, ExecutesNothing) {
  auto device = open_device("compile:sm_90a");
  char byte = 0;
  EXPECT_EQ(device->info().target.name, "sm_90a");
  EXPECT_THROW(device->allocate(16), DeviceError);
  EXPECT_THROW(device->upload(&byte, &byte, 1), DeviceError);
  EXPECT_THROW(device->load({}, {}), DeviceError);
}

TEST(HostDevice, MemoryIsAlignedAndMoves) {
  auto device = open_device("host");
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100003}}) {
    auto memory = device->allocate(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 256, 0u);
    EXPECT_EQ(memory->size(), size);
    std::vector<std::uint8_t> from(size, 7), to(size, 0);
    device->upload(memory->data(), from.data(), size);
    device->download(to.data(), memory->data(), size);
    EXPECT_EQ(from, to);
  }
}

// Threads that launch one executable at different m do not disturb each other.
TEST(HostExecutable, LaunchesFromManyThreads) {
  using test::Dims;
  for (const char* name : {"rmsnorm_deferred_scale", "rmsnorm_split_k"}) {
    ir::MuGraph graph = test::fixture(name);
    ir::LaunchPlan plan =
        test::host_plan(graph, {{"m", 8}, {"k", 70}, {"n", 50}}, ir::DType::kF32,
                        {"host", {{"tile_m", 2}, {"tile_n", 16}, {"tile_k", 16}}});
    auto device = open_device("host");
    auto executable = device->load(plan, {});
    auto inputs = test::normal_inputs(
        graph, test::extents_of(graph, {{"m", 8}, {"k", 70}, {"n", 50}}), ir::DType::kF32, 4);
    std::vector<const void*> in;
    for (const auto& v : inputs) in.push_back(v.data.data());
    executable->prepare(in, nullptr);
    std::vector<float> want(8 * 50);
    void* out[] = {want.data()};
    executable->launch(in.data(), out, 8, nullptr);
    std::vector<int> wrong(6, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 30; ++i) {
          std::int64_t m = 1 + static_cast<std::int64_t>((t + static_cast<std::size_t>(i)) % 8);
          std::vector<float> y(8 * 50, -1);
          void* outputs[] = {y.data()};
          executable->launch(in.data(), outputs, m, nullptr);
          wrong[t] += std::memcmp(y.data(), want.data(), static_cast<std::size_t>(m * 50) * 4) != 0;
          if (m < 8) wrong[t] += y[static_cast<std::size_t>(m * 50)] != -1;
        }
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, std::vector<int>(6, 0)) << name;
  }
}

TEST(HostExecutable, ReplicasHaveTheirOwnWeights) {
  ir::MuGraph graph = test::fixture("rmsnorm_gamma_folded");
  ir::LaunchPlan plan =
      test::host_plan(graph, {{"m", 2}, {"k", 30}, {"n", 20}}, ir::DType::kF32, {"host", {}});
  auto first = open_device("host")->load(plan, {});
  auto second = first->replicate();
  auto inputs = test::normal_inputs(
      graph, test::extents_of(graph, {{"m", 2}, {"k", 30}, {"n", 20}}), ir::DType::kF32, 4);
  std::vector<float> zeros(30, 0), y(40), z(40, -1);
  std::vector<const void*> in = {inputs[0].data.data(), inputs[1].data.data(),
                                 inputs[2].data.data()},
                           other = in;
  other[1] = zeros.data();
  first->prepare(in, nullptr);
  second->prepare(other, nullptr);
  void* out[] = {y.data()};
  void* out2[] = {z.data()};
  first->launch(in.data(), out, 2, nullptr);
  second->launch(other.data(), out2, 2, nullptr);
  EXPECT_NE(y[0], 0);
  EXPECT_EQ(z, std::vector<float>(40, 0));
}

}  // namespace
}  // namespace tenon::runtime
