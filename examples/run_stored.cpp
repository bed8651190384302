// Finds the tuned kernel of a shape in the tuning database and runs it.
//   tenon optimize rmsnorm_linear --m 16 --k 576 --n 960 --device host
//   run_stored [database] [device]
#include <cstdio>
#include <random>
#include <vector>

#include "examples/reference.h"
#include "ir/workload.h"
#include "runtime/load.h"

int main(int argc, char** argv) try {
  using namespace tenon;
  auto database =
      cache::Database::open(argc > 1 ? argv[1] : cache::default_path(), /*read_only=*/true);
  auto device = runtime::open_device(argc > 2 ? argv[2] : "auto");
  ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                            {{"m", 16}, {"k", 576}, {"n", 960}}, ir::DType::kBF16);
  std::string why;
  auto stored = database->best(runtime::make_query(workload, device->info()), &why);
  if (!stored) {
    std::fprintf(stderr, "no kernel: %s\n", why.c_str());
    return 1;
  }
  auto kernel = runtime::load(*stored, *device);

  // x [16, 576], g [576], w [576, 960] in bf16: values here, bits on the device.
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> values;
  std::vector<std::unique_ptr<runtime::Memory>> memory;
  std::vector<const void*> inputs;
  for (std::size_t count : {16 * 576, 576, 576 * 960}) {
    std::vector<std::uint16_t> bits(count);
    values.emplace_back();
    for (auto& b : bits)
      values.back().push_back(
          ir::from_bits16(ir::DType::kBF16, b = ir::to_bits16(ir::DType::kBF16, normal(engine))));
    memory.push_back(device->allocate(count * 2));
    device->upload(memory.back()->data(), bits.data(), count * 2);
    inputs.push_back(memory.back()->data());
  }
  auto output = device->allocate(16 * 960 * 2);
  void* outputs[] = {output->data()};
  kernel->prepare(inputs, nullptr);  // once per weights
  kernel->launch(inputs.data(), outputs, 16, nullptr);
  device->synchronize();
  std::vector<std::uint16_t> y(16 * 960);
  device->download(y.data(), output->data(), y.size() * 2);
  const double worst = examples::worst_row_error(values[0], values[1], values[2], y, 16, 576, 960);
  const bool good = worst <= 6e-3;  // about 1.5 roundings of bf16 a row; NaN is not good
  std::printf("plan %lld on %s, stored at %.2f us: worst row error %.2g, %s the contract\n",
              static_cast<long long>(stored->plan.id), device->info().id.c_str(),
              stored->measurement.time_us, worst, good ? "within" : "OUTSIDE");
  return good ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "run_stored: %s\n", e.what());
  return 1;
}
