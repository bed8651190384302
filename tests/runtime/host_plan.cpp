#include "host_plan.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "runtime/device.h"

namespace tenon::test {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string fixture_path(const std::string& name) {
  return std::string(TENON_FIXTURES) + "/" + name + ".mugraph";
}

ir::MuGraph fixture(const std::string& name) {
  return ir::parse_mugraph(read_file(fixture_path(name)));
}

ir::Extents extents_of(const ir::MuGraph& graph, const Dims& dims) {
  ir::Extents extents;
  for (const std::string& d : graph.signature.dims) extents.push_back(dims.at(d));
  return extents;
}

ir::AttributeValues attributes_of(const ir::MuGraph& graph) {
  ir::AttributeValues values;
  for (const auto& [name, value] : graph.signature.attributes) values[name] = value.to_double();
  return values;
}

ir::LaunchPlan host_plan(const ir::MuGraph& graph, const Dims& dims, ir::DType dtype,
                         const ir::KernelSchedule& schedule) {
  ir::LaunchPlan plan;
  plan.workload_key = "test";
  plan.program = graph.signature.program;
  plan.dims = graph.signature.dims;
  plan.extents = extents_of(graph, dims);
  plan.dynamic_dim = -1;
  for (std::size_t d = 0; d < plan.dims.size(); ++d)
    if (plan.dims[d] == "m") plan.dynamic_dim = static_cast<int>(d);
  plan.m_min = 1;
  plan.m_max =
      plan.dynamic_dim < 0 ? 1 : 4 * plan.extents[static_cast<std::size_t>(plan.dynamic_dim)];
  plan.dtype = dtype;
  plan.device_class = "host";
  plan.mugraph = ir::print(graph);
  ir::Schedule all;
  for (std::size_t i = 0; i < graph.kernels.size(); ++i) all.kernels.push_back(schedule);
  plan.schedule = ir::print(all);
  plan.input_count = static_cast<int>(graph.signature.inputs.size());
  plan.output_count = static_cast<int>(graph.signature.outputs.size());
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const ir::Tensor& tensor = graph.tensors[t];
    if (tensor.kind == ir::TensorKind::kIntermediate) continue;
    std::string elements = "1";
    for (const ir::Axis& axis : tensor.axes) elements += " * " + plan.dims[axis.dim];
    ir::Buffer buffer;
    buffer.name = tensor.name;
    buffer.role = tensor.kind == ir::TensorKind::kPrepared ? ir::BufferRole::kPrepared
                  : t >= graph.signature.inputs.size()     ? ir::BufferRole::kOutput
                  : graph.signature.inputs[t].role == ir::Role::kParameter
                      ? ir::BufferRole::kParameter
                      : ir::BufferRole::kActivation;
    buffer.dtype = ir::bind(tensor.dtype, dtype);
    buffer.elements = ir::SizeExpr::parse(elements, plan.dims);
    buffer.in_main = true;
    plan.buffers.push_back(buffer);
  }
  if (!graph.prepare.outputs.empty()) {
    ir::Launch launch;
    launch.kind = ir::LaunchKind::kHost;
    launch.entry = "prepare";
    plan.prepare.push_back(launch);
  }
  for (std::size_t i = 0; i < graph.kernels.size(); ++i) {
    ir::Launch launch;
    launch.kind = ir::LaunchKind::kHost;
    launch.entry = std::to_string(i);
    plan.main.push_back(launch);
  }
  for (const auto& [name, value] : attributes_of(graph)) plan.attributes.push_back(value);
  return plan;
}

std::vector<ir::Values<float>> normal_inputs(const ir::MuGraph& graph, const ir::Extents& extents,
                                             ir::DType dtype, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<ir::Values<float>> inputs;
  for (const ir::ProgramInput& in : graph.signature.inputs) {
    ir::Values<float> v;
    v.axes = in.axes;
    std::size_t count = 1;
    for (const ir::Axis& axis : in.axes) {
      v.extents.push_back(extents[axis.dim]);
      count *= static_cast<std::size_t>(extents[axis.dim]);
    }
    v.data.resize(count);
    for (float& x : v.data) x = ir::round_to(ir::bind(in.dtype, dtype), normal(random));
    inputs.push_back(std::move(v));
  }
  return inputs;
}

std::vector<std::byte> to_storage(const std::vector<float>& values, ir::DType dtype) {
  std::vector<std::byte> bytes(values.size() * ir::size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == ir::DType::kF32) {
      std::memcpy(&bytes[i * 4], &values[i], 4);
    } else {
      std::uint16_t bits = ir::to_bits16(dtype, values[i]);
      std::memcpy(&bytes[i * 2], &bits, 2);
    }
  }
  return bytes;
}

std::vector<float> from_storage(const std::byte* bytes, std::size_t count, ir::DType dtype) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (dtype == ir::DType::kF32) {
      std::memcpy(&values[i], bytes + i * 4, 4);
    } else {
      std::uint16_t bits;
      std::memcpy(&bits, bytes + i * 2, 2);
      values[i] = ir::from_bits16(dtype, bits);
    }
  }
  return values;
}

std::vector<ir::Values<double>> widen(const std::vector<ir::Values<float>>& values) {
  std::vector<ir::Values<double>> wide;
  for (const auto& v : values)
    wide.push_back({v.axes, v.extents, std::vector<double>(v.data.begin(), v.data.end())});
  return wide;
}

double row_error(const std::vector<float>& y, const std::vector<double>& reference,
                 std::int64_t columns) {
  double worst = y.size() == reference.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < reference.size() && row < y.size();
       row += static_cast<std::size_t>(columns)) {
    double error = 0, norm = 0;
    for (std::size_t i = row; i < row + static_cast<std::size_t>(columns); ++i) {
      double d = static_cast<double>(y[i]) - reference[i];
      error += d * d;
      norm += reference[i] * reference[i];
    }
    double ratio = error == 0 ? 0 : std::sqrt(error / norm);
    if (!(ratio <= worst))
      worst = std::isfinite(ratio) ? ratio : std::numeric_limits<double>::infinity();
  }
  return worst;
}

std::vector<std::vector<float>> run_on_host(const ir::LaunchPlan& plan,
                                            const std::vector<ir::Values<float>>& inputs,
                                            std::int64_t m) {
  auto device = runtime::open_device("host");
  auto executable = device->load(plan, {});
  ir::Extents extents = plan.extents;
  if (m == 0 && plan.dynamic_dim >= 0) m = extents[static_cast<std::size_t>(plan.dynamic_dim)];
  if (plan.dynamic_dim >= 0) extents[static_cast<std::size_t>(plan.dynamic_dim)] = m;
  std::vector<std::vector<std::byte>> storage;
  std::vector<const void*> in;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    storage.push_back(to_storage(inputs[i].data, plan.buffers[i].dtype));
  for (const auto& s : storage) in.push_back(s.data());
  executable->prepare(in, nullptr);
  std::vector<std::vector<std::byte>> out_storage;
  std::vector<void*> out;
  for (int o = 0; o < plan.output_count; ++o) {
    const ir::Buffer& buffer = plan.buffers[static_cast<std::size_t>(plan.input_count + o)];
    std::size_t count = static_cast<std::size_t>(buffer.elements.evaluate(extents.data()));
    out_storage.emplace_back(count * ir::size_of(buffer.dtype), std::byte{0xff});
  }
  for (auto& s : out_storage) out.push_back(s.data());
  executable->launch(in.data(), out.data(), m, nullptr);
  std::vector<std::vector<float>> results;
  for (int o = 0; o < plan.output_count; ++o) {
    ir::DType type = plan.buffers[static_cast<std::size_t>(plan.input_count + o)].dtype;
    const auto& s = out_storage[static_cast<std::size_t>(o)];
    results.push_back(from_storage(s.data(), s.size() / ir::size_of(type), type));
  }
  return results;
}

}  // namespace tenon::test
