// What a launch plan must satisfy before anything is allocated or launched for it. A plan
// may come from a database that someone else wrote.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/error.h"
#include "ir/plan.h"
#include "ir/text_lexer.h"

namespace tenon::ir {
namespace {

constexpr std::size_t kMaxPlanDims = 64;
constexpr std::int64_t kMaxExtent = INT32_MAX;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of a buffer, as tuned
constexpr std::int64_t kMaxThreads = 1024;                    // of a block
constexpr std::int64_t kMaxGridX = INT32_MAX;
constexpr std::int64_t kMaxGridYZ = 65535;
constexpr std::int64_t kMaxSharedBytes = 227 * 1024;
constexpr int kMaxCluster = 16;
constexpr int kMaxAlgorithm = 4096;

bool is_target(const std::string& text) {
  if (text.size() < 5 || text.size() > 7 || text.compare(0, 3, "sm_") != 0) return false;
  const bool suffix = text.back() >= 'a' && text.back() <= 'z';
  const std::string digits = text.substr(3, text.size() - 3 - (suffix ? 1 : 0));
  return digits.size() >= 2 && digits.size() <= 3 &&
         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_checksum(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

class PlanChecker {
 public:
  explicit PlanChecker(const LaunchPlan& plan) : plan_(plan) {}

  void run() {
    check_head();
    check_dims();
    check_buffers();
    for (std::size_t i = 0; i < plan_.tensor_maps.size(); ++i) check_tensor_map(i);
    for (std::size_t i = 0; i < plan_.modules.size(); ++i) {
      const Module& module = plan_.modules[i];
      // Empty until the source is compiled.
      if (!module.cubin_sha256.empty() && !is_checksum(module.cubin_sha256)) {
        fail(fmt::format("modules[{}].cubin_sha256", i), module.cubin_sha256,
             "64 hexadecimal digits");
      }
      if (!is_target(module.target))
        fail(fmt::format("modules[{}].target", i), module.target, "a target such as sm_90a");
    }
    if (plan_.main.empty())
      throw UserError("launch plan: main is empty; accepted: at least one launch");
    for (std::size_t i = 0; i < plan_.prepare.size(); ++i)
      check_launch(plan_.prepare[i], fmt::format("prepare[{}]", i), false);
    for (std::size_t i = 0; i < plan_.main.size(); ++i)
      check_launch(plan_.main[i], fmt::format("main[{}]", i), true);
  }

 private:
  template <class T>
  [[noreturn]] static void fail(const std::string& field, const T& value,
                                const std::string& accepted) {
    throw UserError(fmt::format("launch plan: {} is {}; accepted: {}", field,
                                quote(fmt::format("{}", value)), accepted));
  }

  void check_head() const {
    if (plan_.version != kPlanVersion) fail("version", plan_.version, std::to_string(kPlanVersion));
    if (!is_name(plan_.program)) fail("program", plan_.program, "a name");
    if (plan_.device_class != "host" && !is_target(plan_.device_class)) {
      fail("device_class", plan_.device_class, "host or a target such as sm_90a");
    }
    if (plan_.dtype == DType::kElem) fail("dtype", "T", "bf16, fp16, fp32");
    for (double value : plan_.attributes) {
      if (!std::isfinite(value)) fail("attributes", value, "finite numbers");
    }
  }

  void check_dims() {
    if (plan_.dims.size() > kMaxPlanDims) fail("dims", plan_.dims.size(), "at most 64 dims");
    std::set<std::string> names;
    for (const std::string& dim : plan_.dims) {
      if (!is_name(dim) || !names.insert(dim).second) fail("dims", dim, "distinct names");
    }
    if (plan_.extents.size() != plan_.dims.size()) {
      fail("extents", fmt::format("{} extents", plan_.extents.size()), "one for each dim");
    }
    for (std::int64_t extent : plan_.extents) {
      if (extent < 1 || extent > kMaxExtent) fail("extents", extent, "1 to 2147483647");
    }
    const int last = static_cast<int>(plan_.dims.size()) - 1;
    if (plan_.dynamic_dim < -1 || plan_.dynamic_dim > last) {
      fail("dynamic_dim", plan_.dynamic_dim, fmt::format("-1 to {}", last));
    }
    if (plan_.m_min < 1 || plan_.m_min > plan_.m_max || plan_.m_max > kMaxExtent) {
      fail("m_min and m_max", fmt::format("{} and {}", plan_.m_min, plan_.m_max),
           "1 <= m_min <= m_max <= 2147483647");
    }
    at_ = {plan_.extents};
    if (plan_.dynamic_dim < 0) return;
    const auto dynamic = static_cast<std::size_t>(plan_.dynamic_dim);
    if (plan_.extents[dynamic] < plan_.m_min || plan_.extents[dynamic] > plan_.m_max) {
      fail("extents", plan_.extents[dynamic],
           fmt::format("{} from m_min to m_max, {} to {}", plan_.dims[dynamic], plan_.m_min,
                       plan_.m_max));
    }
    for (std::int64_t m : {plan_.m_min, plan_.m_max}) {
      at_.push_back(plan_.extents);
      at_.back()[dynamic] = m;
    }
  }

  // Runs `check(extents)` as tuned, at m_min and at m_max.
  template <class F>
  void for_each_m(const std::string& field, F&& check) const {
    for (const Extents& extents : at_) {
      try {
        check(extents.data());
      } catch (const UserError& error) {
        const std::string message = error.what();
        if (message.rfind("launch plan:", 0) == 0) throw;
        throw UserError(fmt::format("launch plan: {}: {}", field, message));
      }
    }
  }

  void check_buffers() const {
    const std::size_t fixed = static_cast<std::size_t>(std::max(0, plan_.input_count)) +
                              static_cast<std::size_t>(std::max(0, plan_.output_count));
    if (plan_.input_count < 1 || plan_.output_count < 1 || fixed > plan_.buffers.size()) {
      fail("input_count and output_count",
           fmt::format("{} and {}", plan_.input_count, plan_.output_count),
           fmt::format("at least 1 each and {} together at most", plan_.buffers.size()));
    }
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) check_buffer(i, fixed);
  }

  void check_buffer(std::size_t i, std::size_t fixed) const {
    const Buffer& buffer = plan_.buffers[i];
    const std::string field = fmt::format("buffers[{}]", i);
    const BufferRole role = buffer.role;
    const bool is_input = role == BufferRole::kActivation || role == BufferRole::kParameter;
    if (i < static_cast<std::size_t>(plan_.input_count)) {
      if (!is_input) fail(field + ".role", "another role", "activation or parameter for an input");
    } else if (i < fixed) {
      if (role != BufferRole::kOutput)
        fail(field + ".role", "another role", "output for an output");
    } else if (is_input || role == BufferRole::kOutput) {
      fail(field + ".role", "one of the caller's",
           "prepared or workspace after the inputs and outputs");
    }
    if (buffer.name.empty() || buffer.name.size() > kMaxNameBytes)
      fail(field + ".name", buffer.name, "1 to 128 bytes");
    if (buffer.dtype == DType::kElem) fail(field + ".dtype", "T", "bf16, fp16, fp32");
    const bool constant = role == BufferRole::kParameter || role == BufferRole::kPrepared;
    if (constant && plan_.dynamic_dim >= 0 && buffer.elements.depends_on(plan_.dynamic_dim)) {
      fail(field + ".elements", buffer.elements.text(),
           "no dynamic dim in a parameter or prepared buffer");
    }
    for_each_m(field + ".elements",
               [&](const std::int64_t* extents) { buffer.elements.evaluate(extents); });
    if (buffer.elements.evaluate(plan_.extents.data()) > kMaxElements) {
      fail(field + ".elements", buffer.elements.text(), "at most 2^40 elements as tuned");
    }
  }

  const Buffer& buffer_at(int index, const std::string& field) const {
    if (index < 0 || static_cast<std::size_t>(index) >= plan_.buffers.size()) {
      fail(field, index, fmt::format("a buffer, 0 to {}", plan_.buffers.size() - 1));
    }
    return plan_.buffers[static_cast<std::size_t>(index)];
  }

  // A buffer that a launch reads or writes.
  const Buffer& used_buffer(int index, const std::string& field, bool in_main, bool written) const {
    const Buffer& buffer = buffer_at(index, field);
    const BufferRole role = buffer.role;
    if (in_main) {
      if (!buffer.in_main) fail(field, buffer.name, "a buffer that is marked in_main");
    } else if (role == BufferRole::kActivation || role == BufferRole::kOutput) {
      fail(field, buffer.name, "a parameter, prepared or workspace buffer in prepare");
    }
    if (written && (role == BufferRole::kActivation || role == BufferRole::kParameter)) {
      fail(field, buffer.name, "a buffer that may be written");
    }
    return buffer;
  }

  static void check_bytes(const std::string& field, int bytes, const std::vector<int>& accepted) {
    if (std::find(accepted.begin(), accepted.end(), bytes) == accepted.end()) {
      fail(field, bytes, fmt::format("{}", fmt::join(accepted, ", ")));
    }
  }

  void check_tensor_map(std::size_t i) const {
    const TensorMapSpec& map = plan_.tensor_maps[i];
    const std::string field = fmt::format("tensor_maps[{}]", i);
    const Buffer& buffer = buffer_at(map.buffer, field + ".buffer");
    if (map.box_columns < 1 || map.box_columns > 256)
      fail(field + ".box_columns", map.box_columns, "1 to 256");
    check_bytes(field + ".swizzle_bytes", map.swizzle_bytes, {0, 32, 64, 128});
    check_bytes(field + ".l2_promotion_bytes", map.l2_promotion_bytes, {0, 64, 128, 256});
    for_each_m(field, [&](const std::int64_t* extents) {
      const std::int64_t box_rows = map.box_rows.evaluate(extents);
      if (box_rows < 1 || box_rows > 256) fail(field + ".box_rows", box_rows, "1 to 256");
      const std::int64_t rows = map.rows.evaluate(extents);
      const std::int64_t columns = map.columns.evaluate(extents);
      const std::int64_t stride = map.row_stride.evaluate(extents);
      if (rows < 1 || columns < 1 || stride < columns) {
        fail(field, fmt::format("{} x {} with stride {}", rows, columns, stride),
             "rows and columns >= 1 and stride >= columns");
      }
      std::int64_t end = 0;
      if (__builtin_mul_overflow(rows - 1, stride, &end) ||
          __builtin_add_overflow(end, columns, &end) || end > buffer.elements.evaluate(extents)) {
        fail(field, fmt::format("{} x {} with stride {}", rows, columns, stride),
             "what lies within its buffer");
      }
    });
  }

  void check_launch(const Launch& launch, const std::string& field, bool in_main) const {
    switch (launch.kind) {
      case LaunchKind::kCubin:
        return check_cubin(launch, field, in_main);
      case LaunchKind::kLibrary:
        return check_library(launch, field, in_main);
      case LaunchKind::kHost:
        return check_host(launch, field, in_main);
      case LaunchKind::kFill:
        used_buffer(launch.fill_buffer, field + ".fill_buffer", in_main, true);
        return;
    }
    throw UserError(fmt::format("launch plan: {} is of an unknown kind", field));
  }

  void check_host(const Launch& launch, const std::string& field, bool in_main) const {
    if (plan_.device_class != "host")
      fail(field + ".kind", "host", "cubin, library or fill on " + plan_.device_class);
    const bool number = !launch.entry.empty() && launch.entry.size() <= 4 &&
                        std::all_of(launch.entry.begin(), launch.entry.end(),
                                    [](char c) { return c >= '0' && c <= '9'; });
    if (in_main ? !number : launch.entry != "prepare") {
      fail(field + ".entry", launch.entry, in_main ? "the index of a kernel" : "prepare");
    }
    if (plan_.mugraph.empty()) fail("mugraph", "", "the text form that a host launch executes");
  }

  void check_cubin(const Launch& launch, const std::string& field, bool in_main) const {
    if (launch.module < 0 || static_cast<std::size_t>(launch.module) >= plan_.modules.size()) {
      fail(field + ".module", launch.module, fmt::format("a module of {}", plan_.modules.size()));
    }
    if (!is_name(launch.entry)) fail(field + ".entry", launch.entry, "the name of a kernel");
    if (launch.shared_bytes < 0 || launch.shared_bytes > kMaxSharedBytes) {
      fail(field + ".shared_bytes", launch.shared_bytes, fmt::format("0 to {}", kMaxSharedBytes));
    }
    check_geometry(launch, field);
    for (std::size_t i = 0; i < launch.args.size(); ++i) {
      check_arg(launch.args[i], fmt::format("{}.args[{}]", field, i), in_main);
    }
  }

  void check_geometry(const Launch& launch, const std::string& field) const {
    int cluster = 1;
    for (int size : launch.cluster) {
      if (size < 1 || size > kMaxCluster) fail(field + ".cluster", size, "1 to 16");
      cluster *= size;
    }
    if (cluster > kMaxCluster) fail(field + ".cluster", cluster, "at most 16 blocks");
    for_each_m(field, [&](const std::int64_t* extents) {
      std::int64_t threads = 1;
      for (int i = 0; i < 3; ++i) {
        const std::int64_t block = launch.block[i].evaluate(extents);
        if (block < 1 || block > kMaxThreads || (threads *= block) > kMaxThreads) {
          fail(field + ".block", launch.block[i].text(), "1 to 1024 threads in a block");
        }
        const std::int64_t grid = launch.grid[i].evaluate(extents);
        if (grid < 1 || grid % launch.cluster[i] != 0) {
          fail(field + ".grid", launch.grid[i].text(), "at least 1 and a multiple of the cluster");
        }
      }
    });
    // At m_max a grid may be larger than any device takes; the interval is the tuner's.
    for (int i = 0; i < 3; ++i) {
      const std::int64_t most = i == 0 ? kMaxGridX : kMaxGridYZ;
      if (launch.grid[i].evaluate(plan_.extents.data()) > most) {
        fail(field + ".grid", launch.grid[i].text(), fmt::format("at most {} as tuned", most));
      }
    }
  }

  void check_arg(const Arg& arg, const std::string& field, bool in_main) const {
    switch (arg.kind) {
      case ArgKind::kBuffer:
        used_buffer(arg.buffer, field + ".buffer", in_main, false);
        return;
      case ArgKind::kTensorMap:
        if (arg.tensor_map < 0 ||
            static_cast<std::size_t>(arg.tensor_map) >= plan_.tensor_maps.size()) {
          fail(field + ".tensor_map", arg.tensor_map,
               fmt::format("a tensor map of {}", plan_.tensor_maps.size()));
        }
        used_buffer(plan_.tensor_maps[static_cast<std::size_t>(arg.tensor_map)].buffer,
                    field + ".tensor_map", in_main, false);
        return;
      case ArgKind::kFloat:
        if (!std::isfinite(static_cast<float>(arg.number)))
          fail(field + ".float", arg.number, "a number that fp32 can hold");
        return;
      case ArgKind::kInt32:
      case ArgKind::kInt64:
        for_each_m(field, [&](const std::int64_t* extents) {
          if (arg.integer.evaluate(extents) > INT32_MAX && arg.kind == ArgKind::kInt32) {
            fail(field + ".int32", arg.integer.text(), "what fits 32 bits up to m_max");
          }
        });
        return;
    }
    throw UserError(fmt::format("launch plan: {} is of an unknown kind", field));
  }

  void check_library(const Launch& launch, const std::string& field, bool in_main) const {
    const Buffer& a = used_buffer(launch.a, field + ".a", in_main, false);
    const Buffer& b = used_buffer(launch.b, field + ".b", in_main, false);
    const Buffer& out = used_buffer(launch.out, field + ".out", in_main, true);
    if (launch.algorithm < 0 || launch.algorithm > kMaxAlgorithm) {
      fail(field + ".algorithm", launch.algorithm, fmt::format("0 to {}", kMaxAlgorithm));
    }
    for_each_m(field, [&](const std::int64_t* extents) {
      const std::int64_t m = launch.m.evaluate(extents);
      const std::int64_t n = launch.n.evaluate(extents);
      const std::int64_t k = launch.k.evaluate(extents);
      if (m < 1 || n < 1 || k < 1 || m > kMaxExtent || n > kMaxExtent || k > kMaxExtent) {
        fail(field, fmt::format("a product of {} x {} x {}", m, k, n),
             "extents of 1 to 2147483647");
      }
      check_fits(m * k, a, extents, field + ".a");
      check_fits(k * n, b, extents, field + ".b");
      check_fits(m * n, out, extents, field + ".out");
    });
  }

  void check_fits(std::int64_t elements, const Buffer& buffer, const std::int64_t* extents,
                  const std::string& field) const {
    const std::int64_t have = buffer.elements.evaluate(extents);
    if (elements > have)
      fail(field, fmt::format("{} elements", elements),
           fmt::format("at most the {} of {}", have, buffer.name));
  }

  const LaunchPlan& plan_;
  std::vector<Extents> at_;  // as tuned; at m_min and m_max where a dim is dynamic
};

}  // namespace

void validate(const LaunchPlan& plan) { PlanChecker(plan).run(); }

}  // namespace tenon::ir
