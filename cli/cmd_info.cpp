// tenon devices, programs, version.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cache/database.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "codegen/codegen.h"
#include "optimizer/version.h"
#include "runtime/device.h"

namespace tenon::cli {

namespace {

using json = nlohmann::json;

int devices(bool as_json) {
  std::string note;
  auto found = runtime::list_devices(&note);
  if (as_json) {
    json list = json::array();
    for (const auto& d : found)
      list.push_back({{"id", d.id},
                      {"name", d.name},
                      {"class", d.device_class},
                      {"driver", d.driver},
                      {"executes", d.executes},
                      {"sm_count", d.target.sm_count},
                      {"memory_bytes", d.memory_bytes}});
    fmt::print("{}\n", json{{"devices", list}, {"note", note}}.dump(2));
    return kDone;
  }
  Table table({{"device"}, {"name"}, {"class"}, {"driver"}, {"runs kernels"}});
  for (const auto& d : found)
    table.add({d.id, d.name, d.device_class, d.driver,
               d.executes ? "yes" : "no, compiles and estimates"});
  fmt::print("{}", table.render());
  if (!note.empty()) fmt::print("note: {}\n", note);
  return kDone;
}

int programs(bool as_json, const std::string& name) {
  if (!name.empty()) {
    const ir::Program program = load_program(name);
    if (as_json)
      fmt::print("{}\n",
                 json{{"name", program.signature.program}, {"text", ir::print(program)}}.dump(2));
    else
      fmt::print("{}", ir::print(program));
    return kDone;
  }
  if (as_json) {
    json list = json::array();
    for (const auto& e : ir::catalog())
      list.push_back({{"name", e.name}, {"formula", e.formula}, {"found_in", e.found_in}});
    fmt::print("{}\n", json{{"programs", list}}.dump(2));
    return kDone;
  }
  Table table(
      {{"program"}, {"formula", Table::Align::kLeft, 72}, {"found in", Table::Align::kLeft, 72}});
  for (const auto& e : ir::catalog()) table.add({e.name, e.formula, e.found_in});
  fmt::print("{}tenon programs NAME prints one in the text form.\n", table.render());
  return kDone;
}

int version(bool as_json) {
  std::string why;
  bool nvrtc = codegen::nvrtc_available(&why);
  if (as_json) {
    json out = {{"tenon", optimizer::kVersion}, {"database", cache::default_path()}};
    out["nvrtc"] = nvrtc ? json(codegen::nvrtc_version()) : json(nullptr);
    fmt::print("{}\n", out.dump(2));
    return kDone;
  }
  fmt::print("tenon {}\nNVRTC {}\ndatabase {}\n", optimizer::kVersion,
             nvrtc ? codegen::nvrtc_version() : "not found: " + why, cache::default_path());
  return kDone;
}

}  // namespace

void add_info(CLI::App& app, Command& run) {
  auto as_json = std::make_shared<bool>(false);
  auto name = std::make_shared<std::string>();
  auto* devices_command = app.add_subcommand("devices", "The devices of this machine");
  devices_command->add_flag("--json", *as_json, "One JSON object on stdout");
  devices_command->callback([as_json, &run] { run = [as_json] { return devices(*as_json); }; });
  auto* programs_command =
      app.add_subcommand("programs", "The catalog of programs, or the text of one");
  programs_command->add_option("name", *name, "Print this program in the text form");
  programs_command->add_flag("--json", *as_json, "One JSON object on stdout");
  programs_command->callback(
      [as_json, name, &run] { run = [as_json, name] { return programs(*as_json, *name); }; });
  auto* version_command =
      app.add_subcommand("version", "Versions of Tenon and of the toolchain it finds");
  version_command->add_flag("--json", *as_json, "One JSON object on stdout");
  version_command->callback([as_json, &run] { run = [as_json] { return version(*as_json); }; });
}

}  // namespace tenon::cli
