#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "cli/cli.h"
#include "ir/error.h"
#include "ir/layout.h"
#include "search/search.h"

namespace tenon::cli {

namespace {

sigset_t interrupt_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// "NAME=V" -> (NAME, V).
std::pair<std::string, std::string> split_binding(const std::string& argument,
                                                  const std::string& text) {
  std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw UserError(argument, text, "NAME=VALUE");
  return {text.substr(0, at), text.substr(at + 1)};
}

constexpr std::int64_t kMaxExtent = 2147483647;

}  // namespace

void WorkloadOptions::add_to(CLI::App& app, bool program_required) {
  app.add_option("program", program, "A catalog name (tenon programs) or a file in the text form")
      ->required(program_required);
  app.add_option("--m", dims["m"], "Rows of the activation");
  app.add_option("--k", dims["k"],
                 "Columns of the activation: the dim that is normalized and summed");
  app.add_option("--n", dims["n"], "Columns of the result");
  app.add_option("--dim", more_dims, "Extent of another dim of the program, NAME=V (repeatable)");
  app.add_option("--dtype", dtype, "bf16, fp16 or fp32")->capture_default_str();
  app.add_option("--attribute", attributes,
                 "Value of an attribute of the program, NAME=V, as eps=1e-5 (repeatable)");
  app.add_option(
         "--layout", layouts,
         "Order in which an input's axes lie in memory, as w=n,k for weights that PyTorch's "
         "nn.Linear keeps (repeatable)")
      ->delimiter(';');
  app.add_option("--row-stride", row_strides,
                 "Elements between the rows of an activation or output that do not lie one behind "
                 "the other, as x=640 (repeatable)");
  app.add_flag("--keep-weights", keep_weights,
               "Only plans that read the weights where they are: none that keeps a copy of them, "
               "repacked or with a norm's scale folded in");
}

ir::Workload WorkloadOptions::make() const {
  if (program.empty()) throw UserError("program is required (tenon programs lists them)");
  ir::Program loaded = load_program_to_search(program);
  for (const std::string& layout : layouts) loaded = ir::with_layout(loaded, layout);
  std::map<std::string, std::int64_t> extents;
  for (const auto& [name, text] : dims)
    if (text) extents[name] = parse_integer("--" + name, *text, 1, kMaxExtent);
  for (const std::string& binding : more_dims) {
    auto [name, value] = split_binding("--dim", binding);
    const std::int64_t extent = parse_integer("--dim " + name, value, 1, kMaxExtent);
    if (!extents.emplace(name, extent).second)
      throw UserError("--dim", binding, fmt::format("an extent of {} once", name));
  }
  auto type = ir::dtype_from_name(dtype);
  if (!type || *type == ir::DType::kElem) throw UserError("--dtype", dtype, "bf16, fp16, fp32");
  std::map<std::string, double> values;
  for (const std::string& binding : attributes) {
    auto [name, text] = split_binding("--attribute", binding);
    char* end = nullptr;
    errno = 0;  // what a double cannot hold becomes 0 or infinity
    double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0' || !std::isfinite(value) || errno == ERANGE)
      throw UserError("--attribute " + name, text, "a finite number that a double can hold");
    values[name] = value;
  }
  ir::Workload workload = ir::make_workload(loaded, extents, *type, values);
  workload.keep_weights = keep_weights;
  for (const std::string& binding : row_strides) {
    auto [name, value] = split_binding("--row-stride", binding);
    workload = ir::with_row_stride(std::move(workload), name,
                                   parse_integer("--row-stride " + name, value, 1, kMaxExtent));
  }
  return workload;
}

std::string read_file(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    throw UserError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    throw UserError(fmt::format("cannot read '{}': it is not a regular file", path));
  constexpr std::int64_t kLimit = 16 << 20;
  if (info.st_size > kLimit)
    throw UserError(fmt::format("cannot read '{}': it has more than 16 MiB", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // that some editors write
  if (text.rfind(kByteOrderMark, 0) == 0) text.erase(0, kByteOrderMark.size());
  if (const std::size_t at = text.find('\0'); at != std::string::npos)
    throw UserError(fmt::format("cannot read '{}': it is no text: byte {} is 0", path, at));
  return text;
}

ir::Program load_program(const std::string& name_or_path) {
  for (const ir::CatalogEntry& entry : ir::catalog())
    if (entry.name == name_or_path) return ir::catalog_program(name_or_path);
  struct stat info {};
  bool looks_like_path =
      name_or_path.find('/') != std::string::npos || name_or_path.find('.') != std::string::npos;
  if (!looks_like_path && stat(name_or_path.c_str(), &info) != 0)
    return ir::catalog_program(name_or_path);  // its error
  try {
    return ir::parse_program(read_file(name_or_path));
  } catch (const UserError& e) {
    std::string what = e.what();
    if (what.rfind("cannot read", 0) == 0) throw;
    throw UserError(fmt::format("{}: {}", name_or_path, what));
  }
}

ir::Program load_program_to_search(const std::string& name_or_path) {
  ir::Program program = load_program(name_or_path);
  try {
    search::check(program);
  } catch (const search::OutputError& refused) {
    try {
      ir::fail_at_output(read_file(name_or_path), refused.output, refused.what());
    } catch (const UserError& placed) {
      throw UserError(fmt::format("{}: {}", name_or_path, placed.what()));
    }
  }
  return program;
}

double parse_duration(const std::string& argument, const std::string& text) {
  const char* accepted = "a positive duration such as 90, 60s, 2m or 1h";
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double factor = unit.empty() || unit == "s" ? 1
                  : unit == "m"               ? 60
                  : unit == "h"               ? 3600
                  : unit == "ms"              ? 1e-3
                                              : 0;
  if (end == text.c_str() || factor == 0 || !(value * factor > 0) || !(value * factor < 1e7))
    throw UserError(argument, text, accepted);
  return value * factor;
}

std::int64_t parse_integer(const std::string& argument, const std::string& text, std::int64_t low,
                           std::int64_t high) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw UserError(argument, text, fmt::format("an integer from {} to {}", low, high));
  return value;
}

bool parse_launch(const std::string& text) {
  if (text != "plain" && text != "dependent") throw UserError("--launch", text, "plain, dependent");
  return text == "dependent";
}

std::string environment(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

void block_interrupts() {
  sigset_t set = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Interruption::Interruption(double limit_s, std::string sentence) {
  watcher_ = std::thread([this, limit_s, sentence = std::move(sentence)] {
    using Clock = std::chrono::steady_clock;
    sigset_t set = interrupt_signals();
    const timespec poll{0, 50'000'000};
    Clock::time_point stopped;
    while (!end_.stop_requested()) {
      if (sigtimedwait(&set, nullptr, &poll) > 0) {
        if (!source_.request_stop()) std::_Exit(130);  // the second time: at once
        stopped = Clock::now();
      }
      // What was committed is safe at every moment; workers end with this process.
      if (limit_s > 0 && source_.stop_requested() &&
          std::chrono::duration<double>(Clock::now() - stopped).count() > limit_s) {
        fmt::print(stderr, "tenon: {}\n", sentence);
        std::fflush(stderr);
        std::_Exit(kNothingFound);
      }
    }
  });
}

Interruption::~Interruption() {
  end_.request_stop();
  watcher_.join();
}

}  // namespace tenon::cli
