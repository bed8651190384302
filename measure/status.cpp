#include <fmt/format.h>

#include <algorithm>

#include "measure/measure.h"

namespace tenon::measure {

std::string name(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kCompileError:
      return "compile_error";
    case Status::kLaunchError:
      return "launch_error";
    case Status::kWrongResult:
      return "wrong_result";
    case Status::kTimeout:
      return "timeout";
    case Status::kCrashed:
      return "crashed";
    case Status::kUnsupported:
      return "unsupported";
  }
  return "unsupported";
}

Status status_from_name(const std::string& text) {
  for (Status status : {Status::kOk, Status::kCompileError, Status::kLaunchError,
                        Status::kWrongResult, Status::kTimeout, Status::kCrashed})
    if (name(status) == text) return status;
  return Status::kUnsupported;
}

std::string Protocol::text() const {
  return fmt::format("samples={} min_sample_us={} launch={} rotate={}{}", samples, min_sample_us,
                     dependent_launch ? "dependent" : "plain", rotate ? "yes" : "no",
                     screening ? " screening" : "");
}

double hang_limit_s(double unfused_us) {
  constexpr double kUnknown = 10, kLeast = 1, kMost = 60, kTimes = 1e4;
  // Written as acceptance: a time that is no number is unknown.
  if (!(unfused_us > 0)) return kUnknown;
  return std::clamp(unfused_us * 1e-6 * kTimes, kLeast, kMost);
}

Status status_of(const verifier::Evidence& numeric) {
  if (numeric.verdict == verifier::Verdict::kPass) return Status::kOk;
  if (numeric.verdict == verifier::Verdict::kUnsupported) return Status::kUnsupported;
  for (Status status : {Status::kLaunchError, Status::kTimeout, Status::kCrashed})
    if (numeric.reason.rfind(name(status) + ": ", 0) == 0) return status;
  return Status::kWrongResult;
}

}  // namespace tenon::measure
