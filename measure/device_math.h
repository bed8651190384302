// What numeric acceptance asks of a GPU when outputs are too large to be judged on the host: a
// float64 evaluation of the program, the comparison of every row by the contract of design.md,
// and whether two buffers are equal. Kernels are written for one workload and compiled once; they
// share no code with generated candidates. Inner header of measure/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/workload.h"
#include "runtime/device.h"
#include "verifier/numeric.h"

namespace tenon::measure {

class DeviceMath {
 public:
  virtual ~DeviceMath() = default;

  // Are the first `bytes` equal?
  virtual bool equal(const void* a, const void* b, std::size_t bytes) = 0;

  // Evaluates the program at the workload's extents over inputs as the device holds them
  // (signature order): in float64 without rounding, and as the reference pipeline, in float32
  // with every cast.
  struct Result {
    struct Output {
      std::unique_ptr<runtime::Memory> exact;  // float64, row-major
      std::int64_t rows = 1, columns = 1;      // of the comparison: columns are the last axis
      double reference_error = 0;              // e(reference) over every finite row
      double bound = 0;                        // B
    };
    std::vector<Output> outputs;
  };
  virtual Result evaluate(const std::vector<const void*>& inputs) = 0;

  // verifier::compare over all rows, of `y` of type `dtype` on the device.
  virtual verifier::NumericReport compare(const void* y, ir::DType dtype, const void* exact,
                                          std::int64_t rows, std::int64_t columns,
                                          double bound) = 0;

  // Memory that one evaluation takes for a while, in bytes.
  virtual double evaluation_bytes() const = 0;
};

// For a CUDA device; null on others, and where an operator of the program has no kernel here,
// which `why` then names. Throws DeviceError when the kernels cannot be compiled or loaded.
std::unique_ptr<DeviceMath> make_device_math(runtime::Device& device, const ir::Workload& workload,
                                             std::string* why = nullptr);

}  // namespace tenon::measure
