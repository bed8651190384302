#include "measure/device_math.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "codegen/codegen.h"
#include "ir/error.h"
#include "measure/device_math_source.h"
#include "measure/storage.h"
#include "runtime/cuda/context.h"

namespace tenon::measure {

namespace {

namespace cuda = runtime::cuda;

// As the kernels write it.
struct RowReport {
  double difference2, norm2, worst_element;
  long long column;
  int finite;
};

class CudaMath final : public DeviceMath {
 public:
  CudaMath(runtime::Device& device, const ir::Workload& workload, MathSource source)
      : device_(device),
        workload_(workload),
        source_(std::move(source)),
        context_(cuda::context_of(device)),
        driver_(context_->driver()) {
    codegen::Compiled compiled = codegen::compile({source_.text, {}}, device.info().target);
    if (!compiled.ok) throw DeviceError("the reference kernels do not compile: " + compiled.log);
    cuda::Scope scope(*context_);
    driver_.check(driver_.module_load(&module_, compiled.cubin.data()),
                  "loading the reference kernels");
  }
  ~CudaMath() override {
    cuda::Scope scope(*context_);
    if (module_) driver_.module_unload(module_);
  }
  CudaMath(const CudaMath&) = delete;
  CudaMath& operator=(const CudaMath&) = delete;

  bool equal(const void* a, const void* b, std::size_t bytes) override {
    auto count = device_.allocate(sizeof(unsigned long long));
    device_.fill(count->data(), 0, count->size());
    long long size = static_cast<long long>(bytes);
    void* to = count->data();
    void* arguments[] = {&a, &b, &size, &to};
    launch("differences", 1024, 256, arguments);
    unsigned long long found = 1;
    device_.download(&found, count->data(), sizeof found);
    return found == 0;
  }

  Result evaluate(const std::vector<const void*>& inputs) override {
    Result result;
    std::vector<std::unique_ptr<runtime::Memory>> exact = run(source_.exact, inputs, 8);
    const ir::Signature& s = workload_.program.signature;
    for (std::size_t o = 0; o < s.outputs.size(); ++o) {
      Result::Output out;
      const ir::Axes& axes = s.output_axes[o];
      const std::size_t value = static_cast<std::size_t>(s.outputs[o].value);
      // Outputs are stored in the order of the value's own axes, or there is no device reference.
      TENON_CHECK(workload_.program.graph.axes(s.outputs[o].value) == axes,
                  "the output has the axes of its value");
      out.columns = axes.empty() ? 1 : workload_.extents[axes.back().dim];
      out.rows = source_.counts[value] / std::max<std::int64_t>(1, out.columns);
      out.exact = std::move(exact[value]);
      result.outputs.push_back(std::move(out));
    }
    exact.clear();
    std::vector<std::unique_ptr<runtime::Memory>> rounded = run(source_.rounded, inputs, 4);
    for (std::size_t o = 0; o < s.outputs.size(); ++o) {
      Result::Output& out = result.outputs[o];
      const std::size_t value = static_cast<std::size_t>(s.outputs[o].value);
      // A bound of zero fails every element, but the figure wanted here is the rows' error.
      for (const RowReport& row : reports(rounded[value]->data(), ir::DType::kF32,
                                          out.exact->data(), out.rows, out.columns, 0))
        if (row.finite && row.norm2 > 0)
          out.reference_error =
              std::max(out.reference_error, std::sqrt(row.difference2 / row.norm2));
      out.bound =
          verifier::row_bound(out.reference_error, ir::bind(s.outputs[o].dtype, workload_.dtype));
    }
    return result;
  }

  verifier::NumericReport compare(const void* y, ir::DType dtype, const void* exact,
                                  std::int64_t rows, std::int64_t columns, double bound) override {
    verifier::NumericReport report;
    if (!(bound >= 0 && std::isfinite(bound))) {
      report.reason = fmt::format("the row bound is {}", bound);
      return report;
    }
    report.pass = true;
    auto violation = [&](std::int64_t row, std::int64_t column, std::string reason) {
      if (!report.pass) return;
      report.pass = false;
      report.row = row;
      report.column = column;
      report.reason = std::move(reason);
    };
    std::vector<RowReport> all = reports(y, dtype, exact, rows, columns, bound);
    for (std::int64_t r = 0; r < rows; ++r) {
      const RowReport& row = all[static_cast<std::size_t>(r)];
      if (row.column >= 0)
        violation(r, row.column,
                  fmt::format("row {}, column {}: {} where float64 has {}", r, row.column,
                              element(y, dtype, r * columns + row.column),
                              element(exact, r * columns + row.column)));
      if (!row.finite || row.norm2 == 0) continue;
      const double error = std::sqrt(row.difference2 / row.norm2);
      report.worst_row = std::max(report.worst_row, error);
      report.worst_element = std::max(report.worst_element, row.worst_element);
      if (!(error <= bound))
        violation(r, -1,
                  fmt::format("row {}: relative error {:.3g} exceeds {:.3g}", r, error, bound));
    }
    return report;
  }

  double evaluation_bytes() const override {
    double bytes = 0;
    for (std::int64_t count : source_.counts) bytes += 8.0 * static_cast<double>(count);
    return bytes;
  }

 private:
  void launch(const std::string& entry, std::int64_t blocks, int threads, void** arguments) {
    if (blocks > std::numeric_limits<int>::max())
      throw DeviceError(fmt::format("the reference needs {} blocks", blocks));
    cuda::Scope scope(*context_);
    CUfunction function = nullptr;
    driver_.check(driver_.module_function(&function, module_, entry.c_str()),
                  "finding a reference kernel");
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(blocks);
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = static_cast<unsigned>(threads);
    driver_.check(driver_.launch(&config, function, arguments, nullptr),
                  "launching a reference kernel");
  }

  // Every value of the program; those that nothing reads any more and that are no output are freed.
  std::vector<std::unique_ptr<runtime::Memory>> run(const std::vector<MathKernel>& kernels,
                                                    const std::vector<const void*>& inputs,
                                                    std::size_t size) {
    std::vector<std::unique_ptr<runtime::Memory>> values(kernels.size());
    std::vector<std::size_t> last(kernels.size(), 0);
    for (std::size_t v = 0; v < kernels.size(); ++v)
      for (int operand : kernels[v].operands) last[static_cast<std::size_t>(operand)] = v;
    for (const auto& output : workload_.program.signature.outputs)
      last[static_cast<std::size_t>(output.value)] = kernels.size();
    for (std::size_t v = 0; v < kernels.size(); ++v) {
      values[v] = device_.allocate(static_cast<std::size_t>(kernels[v].count) * size);
      std::vector<const void*> pointers{values[v]->data()};
      if (v < inputs.size()) pointers.push_back(inputs[v]);
      for (int operand : kernels[v].operands)
        pointers.push_back(values[static_cast<std::size_t>(operand)]->data());
      std::vector<void*> arguments;
      for (const void*& p : pointers) arguments.push_back(&p);
      launch(kernels[v].entry, kernels[v].blocks, kernels[v].threads, arguments.data());
      // Freeing waits for the kernels that read.
      for (int operand : kernels[v].operands)
        if (last[static_cast<std::size_t>(operand)] == v)
          values[static_cast<std::size_t>(operand)].reset();
    }
    device_.synchronize();
    return values;
  }

  std::vector<RowReport> reports(const void* y, ir::DType dtype, const void* exact,
                                 std::int64_t rows, std::int64_t columns, double bound) {
    auto memory = device_.allocate(static_cast<std::size_t>(rows) * sizeof(RowReport));
    int type = dtype == ir::DType::kBF16 ? 0 : dtype == ir::DType::kF16 ? 1 : 2;
    long long width = columns;
    void* to = memory->data();
    void* arguments[] = {&y, &type, &exact, &width, &bound, &to};
    launch("compare_rows", rows, 256, arguments);
    std::vector<RowReport> out(static_cast<std::size_t>(rows));
    device_.download(out.data(), memory->data(), memory->size());
    return out;
  }

  std::string element(const void* y, ir::DType dtype, std::int64_t at) {
    std::vector<std::byte> bytes(ir::size_of(dtype));
    device_.download(bytes.data(),
                     static_cast<const std::byte*>(y) + static_cast<std::size_t>(at) * bytes.size(),
                     bytes.size());
    return fmt::format("{:.6g}", from_bytes(bytes, dtype, 0, 1)[0]);
  }
  std::string element(const void* exact, std::int64_t at) {
    double value = 0;
    device_.download(&value, static_cast<const double*>(exact) + at, sizeof value);
    return fmt::format("{:.6g}", value);
  }

  runtime::Device& device_;
  const ir::Workload& workload_;
  MathSource source_;
  std::shared_ptr<const cuda::Context> context_;
  const cuda::Driver& driver_;
  CUmodule module_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceMath> make_device_math(runtime::Device& device, const ir::Workload& workload,
                                             std::string* why) {
  if (device.info().target.is_host() || !device.info().executes) {
    if (why) *why = "the device is not a GPU";
    return nullptr;
  }
  const ir::Signature& s = workload.program.signature;
  for (std::size_t o = 0; o < s.outputs.size(); ++o)
    if (!(workload.program.graph.axes(s.outputs[o].value) == s.output_axes[o])) {
      if (why) *why = "output " + s.outputs[o].name + " is stored in another order of axes";
      return nullptr;
    }
  std::optional<MathSource> source = write_math(workload, why);
  if (!source) return nullptr;
  return std::make_unique<CudaMath>(device, workload, std::move(*source));
}

}  // namespace tenon::measure
