// The pipeline, written once. Each step is named and timed, and leaves what it made in the
// session and in the database, so that an interrupted run keeps what it had.
#include "optimizer/optimize.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "optimizer/session.h"

namespace tenon::optimizer {

namespace {

void step(Session& session, const char* name, void (*body)(Session&)) {
  auto begin = std::chrono::steady_clock::now();
  body(session);
  session.report.steps.push_back({name, seconds_since(begin)});
}

// A compile: device stands for every GPU of its kind; none that is compiled for has more (H200).
constexpr double kLargestMemory = 144.0 * (1 << 30);

// Inputs and outputs lie in memory at once: what no device can hold is not searched for.
void check_memory(const ir::Workload& workload, const runtime::DeviceInfo& device) {
  double bytes = 0;
  auto add = [&](const ir::Axes& axes, ir::DType dtype) {
    double size = static_cast<double>(ir::size_of(ir::bind(dtype, workload.dtype)));
    for (const ir::Axis& axis : axes) size *= static_cast<double>(workload.extents[axis.dim]);
    bytes += size;
  };
  const ir::Signature& signature = workload.program.signature;
  for (const ir::ProgramInput& input : signature.inputs) add(input.axes, input.dtype);
  for (std::size_t o = 0; o < signature.outputs.size(); ++o)
    add(signature.output_axes[o], signature.outputs[o].dtype);
  const double memory = device.executes ? static_cast<double>(device.memory_bytes) : kLargestMemory;
  if (memory > 0 && !(bytes <= memory))
    throw UserError("workload", ir::print(workload),
                    fmt::format("inputs and outputs of at most the {:.1f} GB of {} (these have "
                                "{:.1f} GB)",
                                memory / 1e9, device.id, bytes / 1e9));
}

}  // namespace

double Session::checking_seconds() const {
  // Fitted to times on an H200 with 16 cores (bench/results/2026-11-30-h200-tuning-*.json): the
  // host makes inputs of every family, and the device evaluates them in float64.
  constexpr double kFixed = 0.5, kPerElement = 5e-8, kPerMultiplication = 3.5e-11;
  const ir::Signature& s = options.workload.program.signature;
  const ir::Extents& extents = options.workload.extents;
  const int dynamic = ir::dynamic_dim(options.workload);
  const double rows =
      dynamic < 0 ? 1 : static_cast<double>(extents[static_cast<std::size_t>(dynamic)]);
  double elements = 0, multiplications = 0;
  for (const ir::ProgramInput& in : s.inputs) {
    const double count = static_cast<double>(ir::element_count(in.axes, extents));
    elements += count;
    if (in.role == ir::Role::kParameter && in.axes.size() > 1) multiplications += rows * count;
  }
  for (const ir::Axes& axes : s.output_axes)
    elements += static_cast<double>(ir::element_count(axes, extents));
  return kFixed + kPerElement * elements + kPerMultiplication * multiplications;
}

bool Session::may_go_on(double deadline) {
  if (!stop.stop_requested() && elapsed() < deadline) return true;
  cut_off = true;
  return false;
}

Report optimize(const Options& options, Progress& progress, std::stop_token stop) {
  Session session(options, progress, stop);
  session.report.workload = options.workload;
  session.device = runtime::open_device(options.device);
  session.report.device = session.device->info().id;
  session.report.device_name = session.device->info().name;
  check_memory(options.workload, session.device->info());
  const bool needs_compiler = !session.device->info().target.is_host();
  std::string why;
  if (needs_compiler && !codegen::nvrtc_available(&why)) throw DeviceError(why);

  session.database =
      cache::Database::open(options.database.empty() ? cache::default_path() : options.database);
  session.report.database = session.database->path();
  identify(session);
  if (!options.retune && answer_from_database(session)) return std::move(session.report);
  if (options.answer_only) {
    session.report.stop_reason = "budget";
    return std::move(session.report);
  }

  try {
    step(session, "prepare", begin_session);
  } catch (const measure::Interrupted&) {
    session.report.stop_reason = "interrupted";
    return std::move(session.report);
  }
  step(session, "enumerate", enumerate_graphs);
  step(session, "verify", verify_graphs);
  step(session, "schedule", make_space);
  if (session.executes()) {
    step(session, "explore", explore_candidates);
    step(session, "screen", screen_candidates);
    step(session, "accept", accept_candidates);
    step(session, "measure", measure_finalists);
  } else {
    step(session, "compile", compile_candidates);
    step(session, "rank", rank_by_estimate);
  }
  step(session, "choose", choose_best);
  step(session, "store", end_session);
  return std::move(session.report);
}

}  // namespace tenon::optimizer
