#include "cli/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "cli/cli.h"
#include "ir/error.h"

namespace tenon::cli {

void set_up_log() {
  const std::string wanted = environment("TENON_LOG", "warn");
  const spdlog::level::level_enum level = spdlog::level::from_str(wanted);
  if (level == spdlog::level::off && wanted != "off")
    throw UserError("TENON_LOG", wanted, "trace, debug, info, warn, error, off");
  auto logger = spdlog::stderr_color_mt("tenon");
  logger->set_pattern("%H:%M:%S.%e %l %v");
  logger->set_level(level);
  spdlog::set_default_logger(logger);
}

}  // namespace tenon::cli
