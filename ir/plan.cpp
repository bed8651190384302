// Launch plans as JSON. What the values must satisfy is in plan_check.cpp.
#include "ir/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/error.h"
#include "ir/text_lexer.h"

namespace tenon::ir {
namespace {

// Written in the order of the fields, readable and repeatable. Read into sorted objects,
// because an ordered one looks its keys up one by one.
using Json = nlohmann::ordered_json;
using Document = nlohmann::json;

constexpr std::size_t kMaxPlanBytes = std::size_t{4} << 20;
constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxItems = 4096;

template <class Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};
constexpr EnumName<BufferRole> kRoles[] = {{BufferRole::kActivation, "activation"},
                                           {BufferRole::kParameter, "parameter"},
                                           {BufferRole::kPrepared, "prepared"},
                                           {BufferRole::kWorkspace, "workspace"},
                                           {BufferRole::kOutput, "output"}};
constexpr EnumName<ArgKind> kArgs[] = {{ArgKind::kBuffer, "buffer"},
                                       {ArgKind::kInt32, "int32"},
                                       {ArgKind::kInt64, "int64"},
                                       {ArgKind::kFloat, "float"},
                                       {ArgKind::kTensorMap, "tensor_map"}};
constexpr EnumName<LaunchKind> kLaunches[] = {{LaunchKind::kCubin, "cubin"},
                                              {LaunchKind::kLibrary, "library"},
                                              {LaunchKind::kHost, "host"},
                                              {LaunchKind::kFill, "fill"}};

template <class Enum, std::size_t N>
std::string_view enum_name(const EnumName<Enum> (&table)[N], Enum value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  TENON_CHECK(false, "a value outside of its enum");
  return {};
}

// ---- printing

Json print_sizes(const SizeExpr (&sizes)[3]) {
  return Json::array({sizes[0].text(), sizes[1].text(), sizes[2].text()});
}

Json print_arg(const Arg& arg) {
  const std::string kind(enum_name(kArgs, arg.kind));
  switch (arg.kind) {
    case ArgKind::kBuffer:
      return {{kind, arg.buffer}};
    case ArgKind::kTensorMap:
      return {{kind, arg.tensor_map}};
    case ArgKind::kFloat:
      return {{kind, arg.number}};
    default:
      return {{kind, arg.integer.text()}};
  }
}

Json print_launch(const Launch& launch) {
  Json json;
  json["kind"] = enum_name(kLaunches, launch.kind);
  json["dependent"] = launch.dependent;
  switch (launch.kind) {
    case LaunchKind::kCubin:
      json["module"] = launch.module;
      json["entry"] = launch.entry;
      json["grid"] = print_sizes(launch.grid);
      json["block"] = print_sizes(launch.block);
      json["cluster"] = launch.cluster;
      json["shared_bytes"] = launch.shared_bytes;
      json["args"] = Json::array();
      for (const Arg& arg : launch.args) json["args"].push_back(print_arg(arg));
      break;
    case LaunchKind::kLibrary:
      json["a"] = launch.a;
      json["b"] = launch.b;
      json["out"] = launch.out;
      json["m"] = launch.m.text();
      json["n"] = launch.n.text();
      json["k"] = launch.k.text();
      json["b_transposed"] = launch.b_transposed;
      json["algorithm"] = launch.algorithm;
      break;
    case LaunchKind::kHost:
      json["entry"] = launch.entry;
      break;
    case LaunchKind::kFill:
      json["fill_buffer"] = launch.fill_buffer;
      break;
  }
  return json;
}

Json print_buffer(const Buffer& buffer) {
  return {{"name", buffer.name},
          {"role", enum_name(kRoles, buffer.role)},
          {"dtype", name(buffer.dtype)},
          {"elements", buffer.elements.text()},
          {"in_main", buffer.in_main}};
}

Json print_tensor_map(const TensorMapSpec& map) {
  return {{"buffer", map.buffer},
          {"rows", map.rows.text()},
          {"columns", map.columns.text()},
          {"row_stride", map.row_stride.text()},
          {"box_rows", map.box_rows.text()},
          {"box_columns", map.box_columns},
          {"swizzle_bytes", map.swizzle_bytes},
          {"l2_promotion_bytes", map.l2_promotion_bytes}};
}

// ---- parsing

// A value of the document with its path, "main[0].grid", for messages.
class Field {
 public:
  Field(const Document& json, std::string path) : json_(&json), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& accepted) const {
    std::string shown = json_->is_structured() ? json_->type_name() : json_->dump();
    throw UserError(
        fmt::format("launch plan: {} is {}; accepted: {}", path_, quote(shown), accepted));
  }

  // An object with exactly these fields.
  void expect_fields(std::initializer_list<std::string_view> names) const {
    if (!json_->is_object()) fail("an object");
    for (const auto& item : json_->items()) {
      if (std::find(names.begin(), names.end(), item.key()) == names.end()) {
        throw UserError(
            fmt::format("launch plan: {} has the unknown field {}", path_, quote(item.key())));
      }
    }
  }

  Field operator[](std::string_view name) const {
    if (!json_->is_object()) fail("an object");
    const auto found = json_->find(std::string(name));
    if (found == json_->end()) {
      throw UserError(fmt::format("launch plan: {} lacks the field '{}'", path_, name));
    }
    return {*found, path_ == kRoot ? std::string(name) : fmt::format("{}.{}", path_, name)};
  }

  std::vector<Field> items(std::size_t most = kMaxItems) const {
    if (!json_->is_array() || json_->size() > most)
      fail(fmt::format("an array of at most {} items", most));
    std::vector<Field> fields;
    for (std::size_t i = 0; i < json_->size(); ++i) {
      fields.emplace_back((*json_)[i], fmt::format("{}[{}]", path_, i));
    }
    return fields;
  }

  bool is_integer() const { return json_->is_number_integer(); }
  std::int64_t integer(std::int64_t low, std::int64_t high) const {
    const std::string accepted = fmt::format("an integer from {} to {}", low, high);
    if (!json_->is_number_integer()) fail(accepted);
    // Above 2^63 - 1 the number is stored as unsigned and would turn negative.
    if (json_->is_number_unsigned() &&
        json_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
      fail(accepted);
    const auto value = json_->get<std::int64_t>();
    if (value < low || value > high) fail(accepted);
    return value;
  }
  int index() const { return static_cast<int>(integer(-1, INT32_MAX)); }

  double number() const {
    if (!json_->is_number()) fail("a number");
    const auto value = json_->get<double>();
    if (!std::isfinite(value)) fail("a finite number");
    return value;
  }

  bool boolean() const {
    if (!json_->is_boolean()) fail("true or false");
    return json_->get<bool>();
  }

  std::string text(std::size_t most) const {
    if (!json_->is_string()) fail("a string");
    const auto& value = json_->get_ref<const std::string&>();
    if (value.size() > most || value.find('\0') != std::string::npos) {
      fail(fmt::format("text of at most {} bytes without NUL", most));
    }
    return value;
  }

  SizeExpr size(const std::vector<std::string>& dims) const {
    const std::string expression = text(kMaxTextBytes);
    try {
      return SizeExpr::parse(expression, dims);
    } catch (const UserError& error) {
      throw UserError(fmt::format("launch plan: {}: {}", path_, error.what()));
    }
  }

  DType dtype() const {
    const std::optional<DType> value = dtype_from_name(text(kMaxNameBytes));
    if (!value || *value == DType::kElem) fail("bf16, fp16, fp32");
    return *value;
  }

  template <class Enum, std::size_t N>
  Enum choice(const EnumName<Enum> (&table)[N]) const {
    const std::string given = text(kMaxNameBytes);
    std::string accepted;
    for (const auto& row : table) {
      if (row.name == given) return row.value;
      accepted += (accepted.empty() ? "" : ", ") + std::string(row.name);
    }
    fail(accepted);
  }

  // The one kind whose name is a field of the object.
  template <class Enum, std::size_t N>
  Enum only_field(const EnumName<Enum> (&table)[N]) const {
    std::string accepted;
    for (const auto& row : table) {
      if (json_->is_object() && json_->size() == 1 && json_->contains(std::string(row.name)))
        return row.value;
      accepted += (accepted.empty() ? "" : ", ") + std::string(row.name);
    }
    fail("an object with one field of " + accepted);
  }

  static constexpr std::string_view kRoot = "the plan";

 private:
  const Document* json_;
  std::string path_;
};

using Dims = std::vector<std::string>;

void parse_sizes(const Field& field, const Dims& dims, SizeExpr (&sizes)[3]) {
  const std::vector<Field> items = field.items(3);
  if (items.size() != 3) field.fail("three sizes");
  for (std::size_t i = 0; i < 3; ++i) sizes[i] = items[i].size(dims);
}

Arg parse_arg(const Field& field, const Dims& dims) {
  Arg arg;
  arg.kind = field.only_field(kArgs);
  const Field value = field[enum_name(kArgs, arg.kind)];
  switch (arg.kind) {
    case ArgKind::kBuffer:
      arg.buffer = value.index();
      break;
    case ArgKind::kTensorMap:
      arg.tensor_map = value.index();
      break;
    case ArgKind::kFloat:
      arg.number = value.number();
      break;
    default:
      arg.integer = value.size(dims);
      break;
  }
  return arg;
}

void parse_cubin_launch(const Field& field, const Dims& dims, Launch& launch) {
  field.expect_fields(
      {"kind", "dependent", "module", "entry", "grid", "block", "cluster", "shared_bytes", "args"});
  launch.module = field["module"].index();
  launch.entry = field["entry"].text(kMaxTextBytes);
  parse_sizes(field["grid"], dims, launch.grid);
  parse_sizes(field["block"], dims, launch.block);
  const std::vector<Field> cluster = field["cluster"].items(3);
  if (cluster.size() != 3) field["cluster"].fail("three integers");
  for (std::size_t i = 0; i < 3; ++i)
    launch.cluster[i] = static_cast<int>(cluster[i].integer(1, 16));
  launch.shared_bytes = field["shared_bytes"].integer(0, INT32_MAX);
  for (const Field& arg : field["args"].items()) launch.args.push_back(parse_arg(arg, dims));
}

void parse_library_launch(const Field& field, const Dims& dims, Launch& launch) {
  field.expect_fields(
      {"kind", "dependent", "a", "b", "out", "m", "n", "k", "b_transposed", "algorithm"});
  launch.a = field["a"].index();
  launch.b = field["b"].index();
  launch.out = field["out"].index();
  launch.m = field["m"].size(dims);
  launch.n = field["n"].size(dims);
  launch.k = field["k"].size(dims);
  launch.b_transposed = field["b_transposed"].boolean();
  launch.algorithm = static_cast<int>(field["algorithm"].integer(0, INT32_MAX));
}

Launch parse_launch(const Field& field, const Dims& dims) {
  Launch launch;
  launch.kind = field["kind"].choice(kLaunches);
  launch.dependent = field["dependent"].boolean();
  switch (launch.kind) {
    case LaunchKind::kCubin:
      parse_cubin_launch(field, dims, launch);
      break;
    case LaunchKind::kLibrary:
      parse_library_launch(field, dims, launch);
      break;
    case LaunchKind::kHost:
      field.expect_fields({"kind", "dependent", "entry"});
      launch.entry = field["entry"].text(kMaxNameBytes);
      break;
    case LaunchKind::kFill:
      field.expect_fields({"kind", "dependent", "fill_buffer"});
      launch.fill_buffer = field["fill_buffer"].index();
      break;
  }
  return launch;
}

Buffer parse_buffer(const Field& field, const Dims& dims) {
  field.expect_fields({"name", "role", "dtype", "elements", "in_main"});
  Buffer buffer;
  buffer.name = field["name"].text(kMaxNameBytes);
  buffer.role = field["role"].choice(kRoles);
  buffer.dtype = field["dtype"].dtype();
  buffer.elements = field["elements"].size(dims);
  buffer.in_main = field["in_main"].boolean();
  return buffer;
}

TensorMapSpec parse_tensor_map(const Field& field, const Dims& dims) {
  field.expect_fields({"buffer", "rows", "columns", "row_stride", "box_rows", "box_columns",
                       "swizzle_bytes", "l2_promotion_bytes"});
  TensorMapSpec map;
  map.buffer = field["buffer"].index();
  map.rows = field["rows"].size(dims);
  map.columns = field["columns"].size(dims);
  map.row_stride = field["row_stride"].size(dims);
  // Plans of earlier versions have a number here.
  map.box_rows = field["box_rows"].is_integer() ? SizeExpr(field["box_rows"].integer(1, 256))
                                                : field["box_rows"].size(dims);
  map.box_columns = static_cast<int>(field["box_columns"].integer(1, 256));
  map.swizzle_bytes = static_cast<int>(field["swizzle_bytes"].integer(0, 128));
  map.l2_promotion_bytes = static_cast<int>(field["l2_promotion_bytes"].integer(0, 256));
  return map;
}

void parse_shape(const Field& root, LaunchPlan& plan) {
  for (const Field& dim : root["dims"].items()) plan.dims.push_back(dim.text(kMaxNameBytes));
  for (const Field& extent : root["extents"].items())
    plan.extents.push_back(extent.integer(1, INT32_MAX));
  plan.dynamic_dim = root["dynamic_dim"].index();
  plan.m_min = root["m_min"].integer(1, INT32_MAX);
  plan.m_max = root["m_max"].integer(1, INT32_MAX);
  plan.dtype = root["dtype"].dtype();
}

LaunchPlan parse_document(const Field& root) {
  LaunchPlan plan;
  // The version comes first: another one may have other fields.
  plan.version = static_cast<int>(root["version"].integer(0, INT32_MAX));
  if (plan.version != kPlanVersion) root["version"].fail(std::to_string(kPlanVersion));
  root.expect_fields(
      {"version",     "workload_key", "program", "dims",         "extents",          "dynamic_dim",
       "m_min",       "m_max",        "dtype",   "device_class", "dependent_launch", "attributes",
       "input_count", "output_count", "buffers", "tensor_maps",  "modules",          "prepare",
       "main",        "schedule",     "mugraph"});
  plan.workload_key = root["workload_key"].text(kMaxTextBytes);
  plan.program = root["program"].text(kMaxNameBytes);
  parse_shape(root, plan);
  plan.device_class = root["device_class"].text(kMaxNameBytes);
  plan.dependent_launch = root["dependent_launch"].boolean();
  plan.mugraph = root["mugraph"].text(kMaxTextBytes);
  plan.schedule = root["schedule"].text(kMaxTextBytes);
  for (const Field& value : root["attributes"].items()) plan.attributes.push_back(value.number());
  plan.input_count = static_cast<int>(root["input_count"].integer(0, INT32_MAX));
  plan.output_count = static_cast<int>(root["output_count"].integer(0, INT32_MAX));
  for (const Field& buffer : root["buffers"].items())
    plan.buffers.push_back(parse_buffer(buffer, plan.dims));
  for (const Field& map : root["tensor_maps"].items())
    plan.tensor_maps.push_back(parse_tensor_map(map, plan.dims));
  for (const Field& module : root["modules"].items()) {
    module.expect_fields({"cubin_sha256", "target"});
    plan.modules.push_back(
        {module["cubin_sha256"].text(kMaxNameBytes), module["target"].text(kMaxNameBytes)});
  }
  for (const Field& launch : root["prepare"].items())
    plan.prepare.push_back(parse_launch(launch, plan.dims));
  for (const Field& launch : root["main"].items())
    plan.main.push_back(parse_launch(launch, plan.dims));
  return plan;
}

Document parse_json(const std::string& text) {
  if (text.size() > kMaxPlanBytes) {
    throw UserError(fmt::format("launch plan: the text has {} bytes; accepted: at most {}",
                                text.size(), kMaxPlanBytes));
  }
  // Nesting is refused while reading: a document of brackets alone would take a hundred
  // times its size in memory.
  auto shallow = [](int depth, Document::parse_event_t, Document&) {
    if (depth > kMaxDepth) throw UserError("launch plan: it is nested too deeply");
    return true;
  };
  try {
    return Document::parse(text, shallow);
  } catch (const Document::parse_error& error) {
    throw UserError(fmt::format("launch plan: not JSON at byte {}", error.byte));
  } catch (const Document::exception&) {  // a number beyond double
    throw UserError("launch plan: a value of the JSON text is out of range");
  }
}

}  // namespace

std::string print(const LaunchPlan& plan) {
  Json json;
  json["version"] = plan.version;
  json["workload_key"] = plan.workload_key;
  json["program"] = plan.program;
  json["dims"] = plan.dims;
  json["extents"] = plan.extents;
  json["dynamic_dim"] = plan.dynamic_dim;
  json["m_min"] = plan.m_min;
  json["m_max"] = plan.m_max;
  json["dtype"] = name(plan.dtype);
  json["device_class"] = plan.device_class;
  json["dependent_launch"] = plan.dependent_launch;
  json["attributes"] = plan.attributes;
  json["input_count"] = plan.input_count;
  json["output_count"] = plan.output_count;
  for (const char* list : {"buffers", "tensor_maps", "modules", "prepare", "main"})
    json[list] = Json::array();
  for (const Buffer& buffer : plan.buffers) json["buffers"].push_back(print_buffer(buffer));
  for (const TensorMapSpec& map : plan.tensor_maps)
    json["tensor_maps"].push_back(print_tensor_map(map));
  for (const Module& module : plan.modules) {
    json["modules"].push_back({{"cubin_sha256", module.cubin_sha256}, {"target", module.target}});
  }
  for (const Launch& launch : plan.prepare) json["prepare"].push_back(print_launch(launch));
  for (const Launch& launch : plan.main) json["main"].push_back(print_launch(launch));
  json["schedule"] = plan.schedule;
  json["mugraph"] = plan.mugraph;
  return json.dump(1);
}

LaunchPlan parse_plan(const std::string& text) {
  const Document json = parse_json(text);
  LaunchPlan plan = parse_document(Field(json, std::string(Field::kRoot)));
  validate(plan);
  return plan;
}

}  // namespace tenon::ir
