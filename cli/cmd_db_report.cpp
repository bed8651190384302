// tenon db report: one page that holds its data, its plotting library and nothing from elsewhere.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cache/report_rows.h"
#include "cli/db.h"
#include "codegen/embedded.h"
#include "ir/error.h"
#include "ir/target.h"
#include "measure/reference.h"
#include "optimizer/reverify.h"
#include "optimizer/session.h"

namespace tenon::codegen {
// The page, its script and the plotting library (cli/CMakeLists.txt).
extern const EmbeddedFile kReportFiles[];
extern const std::size_t kReportFiles_count;
}  // namespace tenon::codegen

namespace tenon::cli {

namespace {

using nlohmann::json;

std::string embedded(const std::string& name) {
  for (std::size_t i = 0; i < codegen::kReportFiles_count; ++i)
    if (codegen::kReportFiles[i].name == name) return std::string(codegen::kReportFiles[i].text);
  throw InternalError("the report has no part " + name);
}

// Additions and multiplications of one call, and bytes of its inputs and outputs, each read or
// written once: where the roofline puts it.
void put_work(json& out, const cache::WorkloadRow& row) {
  out["flops"] = 0.0;
  out["intensity"] = 1.0;
  try {
    const ir::Workload w = optimizer::workload_of(row);
    const ir::Signature& s = w.program.signature;
    double bytes = 0, flops = 0;
    for (const ir::ProgramInput& in : s.inputs)
      bytes += static_cast<double>(ir::element_count(in.axes, w.extents)) *
               static_cast<double>(ir::size_of(ir::bind(in.dtype, w.dtype)));
    for (std::size_t o = 0; o < s.outputs.size(); ++o)
      bytes += static_cast<double>(ir::element_count(s.output_axes[o], w.extents)) *
               static_cast<double>(ir::size_of(ir::bind(s.outputs[o].dtype, w.dtype)));
    for (std::size_t d = 0; d < s.dims.size(); ++d)
      if (s.dims[d] == "m")
        flops =
            2 * static_cast<double>(w.extents[d]) * measure::row_cost(w, static_cast<ir::DimId>(d));
    out["flops"] = flops;
    if (bytes > 0 && flops > 0) out["intensity"] = flops / bytes;
  } catch (const UserError&) {
    // A row that does not describe a workload any more keeps its times.
  }
}

void put_peaks(json& out, const std::string& device_class) {
  ir::Target target;
  try {
    target = ir::target_from_name(device_class);
  } catch (const UserError&) {
    // Of an unknown device the roof is the host's default; the times are what they are.
  }
  out["peak_tflops"] = target.matrix_tflops;
  out["memory_tb_per_s"] = target.memory_tb_per_s;
}

json to_json(const cache::ReportEntry& e) {
  json history = json::array();
  for (const auto& point : e.history)
    history.push_back(
        {{"created", point.created}, {"toolchain", point.toolchain}, {"best_us", point.best_us}});
  json counters = json::parse(e.counters_json, nullptr, false);
  const json dims = json::parse(e.workload.dims_json, nullptr, false);
  std::string name = e.workload.program;
  if (dims.is_object())
    for (const auto& [dim, extent] : dims.items())
      name += fmt::format(" {}={}", dim, extent.dump());
  json out = {{"name", name + " " + e.workload.dtype},
              {"device", e.device},
              {"launch", e.dependent_launch ? "dependent" : "plain"},
              {"best", e.best},
              {"label", e.label},
              {"schedule", e.schedule},
              {"best_us", e.best_us},
              {"spread_us", e.spread_us},
              {"unfused_us", e.unfused_us},
              {"library_us", e.library_us},
              {"own_us", e.own_us},
              {"times_us", e.times_us},
              {"statuses", e.statuses},
              {"counters", counters.is_object() ? counters : json::object()},
              {"history", history}};
  put_work(out, e.workload);
  put_peaks(out, e.device_class);
  return out;
}

void replace(std::string& text, const std::string& mark, const std::string& by) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) throw InternalError("the report's page has no " + mark);
  text.replace(at, mark.size(), by);
}

// JSON that may stand inside a script element: no "</" ends it, no "<!--" changes its meaning.
std::string inside_script(const json& data) {
  std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace), out;
  for (char c : text) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

}  // namespace

int db_report(const DbArguments& a) {
  const std::string database = database_path(a);
  json data = {{"database", database},
               {"written", date_before("--html", "1ms")},
               {"tenon", optimizer::tenon_version()},
               {"workloads", json::array()}};
  for (const cache::ReportEntry& entry : cache::report_entries(database))
    data["workloads"].push_back(to_json(entry));
  std::string page = embedded("page.html");
  // The data last: what it holds is never taken for a mark.
  replace(page, "@SCRIPT@", embedded("page.js"));
  replace(page, "@LIBRARY@", embedded("chart.min.js"));
  replace(page, "@DATA@", inside_script(data));
  const std::string fresh = fmt::format("{}.new-{}", a.file, getpid());
  {
    std::ofstream out(fresh, std::ios::binary);
    out << page;
    out.flush();
    if (!out) {
      const int code = errno;
      std::remove(fresh.c_str());
      throw UserError(fmt::format("cannot write '{}': {}", a.file, std::strerror(code)));
    }
  }
  if (std::rename(fresh.c_str(), a.file.c_str()) != 0)
    throw UserError(fmt::format("cannot write '{}': {}", a.file, std::strerror(errno)));
  if (a.json)
    fmt::print("{}\n", json{{"file", a.file}, {"workloads", data["workloads"].size()}}.dump(2));
  else
    fmt::print("{}: {} workloads\n", a.file, data["workloads"].size());
  return kDone;
}

}  // namespace tenon::cli
