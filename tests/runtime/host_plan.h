// Host plans made by hand from µGraphs, inputs for them, and the evaluator's answers.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ir/domain.h"
#include "ir/evaluate.h"
#include "ir/mugraph.h"
#include "ir/plan.h"
#include "ir/schedule.h"

namespace tenon::test {

using Dims = std::map<std::string, std::int64_t>;

std::string read_file(const std::string& path);
std::string fixture_path(const std::string& name);
ir::MuGraph fixture(const std::string& name);

ir::Extents extents_of(const ir::MuGraph& graph, const Dims& dims);
ir::AttributeValues attributes_of(const ir::MuGraph& graph);

// All kernels on the host, `schedule` for each of them.
ir::LaunchPlan host_plan(const ir::MuGraph& graph, const Dims& dims, ir::DType dtype,
                         const ir::KernelSchedule& schedule);

// Inputs in signature order, representable in their types.
std::vector<ir::Values<float>> normal_inputs(const ir::MuGraph& graph, const ir::Extents& extents,
                                             ir::DType dtype, std::uint32_t seed);

std::vector<std::byte> to_storage(const std::vector<float>& values, ir::DType dtype);
std::vector<float> from_storage(const std::byte* bytes, std::size_t count, ir::DType dtype);

std::vector<ir::Values<double>> widen(const std::vector<ir::Values<float>>& values);

// The largest relative row error of `y` against `reference`; rows of `columns` elements. NaN and
// Inf count as an infinite error.
double row_error(const std::vector<float>& y, const std::vector<double>& reference,
                 std::int64_t columns);

// Loads, prepares and launches on the host device at m (0: as tuned); outputs in signature order.
// Outputs are poisoned first.
std::vector<std::vector<float>> run_on_host(const ir::LaunchPlan& plan,
                                            const std::vector<ir::Values<float>>& inputs,
                                            std::int64_t m = 0);

}  // namespace tenon::test
