#include <fmt/format.h>

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

std::string Protocol::text() const {
  return fmt::format("samples={} min_sample_us={} launch={} rotate={} hang_limit_s={}", samples,
                     min_sample_us, dependent_launch ? "dependent" : "plain", rotate ? "yes" : "no",
                     hang_limit_s);
}

}  // namespace tenon::measure
