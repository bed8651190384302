// One rmsnorm_linear candidate, with inputs on a device and what it gives for them.
#pragma once

#include "gpu.h"
#include "ir/family.h"
#include "ir/schedule.h"
#include "measure/families.h"
#include "measure/storage.h"

namespace tenon::test {

struct DeviceCase {
  // `schedule` in text form; empty: each kernel's default.
  DeviceCase(runtime::Device& d, const std::string& fixture, std::int64_t m, std::int64_t k,
             std::int64_t n, ir::DType dtype, const std::string& schedule = "")
      : device(d),
        workload(ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                                   {{"m", m}, {"k", k}, {"n", n}}, dtype)) {
    ir::MuGraph graph = embedded_fixture(fixture);
    ir::Schedule chosen;
    if (!schedule.empty()) chosen = ir::parse_schedule(schedule);
    for (std::size_t i = chosen.kernels.size(); i < graph.kernels.size(); ++i)
      chosen.kernels.push_back(ir::default_schedule(ir::view(graph, i), workload, d.info().target));
    candidate = compile(graph, chosen, workload, d.info().target);
    auto parameters = measure::make_parameters(workload, false, 1);
    auto activations =
        measure::make_activations(workload, workload.extents, measure::Family::kNormal, 1);
    for (std::size_t i = 0; i < 3; ++i) {
      values.push_back(i == 0 ? activations[i].data : parameters[i].data);
      auto bytes = measure::to_bytes(values.back(), dtype);
      memory.push_back(device.allocate(bytes.size()));
      device.upload(memory.back()->data(), bytes.data(), bytes.size());
      inputs.push_back(memory.back()->data());
    }
    output_bytes = static_cast<std::size_t>(m * n) * ir::size_of(dtype);
  }
  std::unique_ptr<runtime::Memory> output() {
    auto out = device.allocate(output_bytes);
    device.fill(out->data(), 0xff, output_bytes);
    return out;
  }
  std::vector<std::byte> bytes(runtime::Memory& out) {
    std::vector<std::byte> b(output_bytes);
    device.download(b.data(), out.data(), b.size());
    return b;
  }
  std::vector<std::byte> run(runtime::Executable& executable) {
    auto out = output();
    void* outputs[] = {out->data()};
    executable.launch(inputs.data(), outputs, workload.extents[0], nullptr);
    device.synchronize();
    return bytes(*out);
  }

  runtime::Device& device;
  ir::Workload workload;
  measure::Candidate candidate;
  std::vector<std::unique_ptr<runtime::Memory>> memory;
  std::vector<const void*> inputs;
  std::vector<std::vector<float>> values;  // of the inputs: x, g, w
  std::size_t output_bytes = 0;
};

}  // namespace tenon::test
