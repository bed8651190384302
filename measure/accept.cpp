#include "measure/accept.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/schedule.h"
#include "measure/contender.h"
#include "measure/storage.h"
#include "verifier/numeric.h"

namespace tenon::measure {

namespace {

using Bytes = std::vector<std::byte>;
using nlohmann::json;

constexpr std::size_t kOneHotLimit = 512;
constexpr double kOneHotWork = 2e11;     // multiplications of all one-hot launches on a GPU
constexpr double kOneHotWorkHost = 5e9;  // and on the host
constexpr double kMisalignedWork =
    2e10;  // multiplications of a launch off alignment, which is slow

// A candidate's result is wrong; the message says where.
class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

double number(double v) { return std::isfinite(v) ? v : 1e300; }  // JSON has no infinity

class Acceptance {
 public:
  Acceptance(runtime::Device& device, Expectations& expected, const Candidate& candidate,
             DeviceExpectations* on_device, Watch* watch, double limit_s)
      : device_(device),
        expected_(expected),
        on_device_(on_device),
        watch_(watch),
        limit_s_(limit_s),
        plan_(candidate.plan) {
    {
      Watched watched(watch_, 0, limit_s_);
      executable_ = device.load(candidate.plan, candidate.cubins);
    }
    const ir::Signature& s = signature();
    if (plan_.input_count != static_cast<int>(s.inputs.size()) ||
        plan_.output_count != static_cast<int>(s.outputs.size()))
      throw UserError("the plan has other inputs or outputs than the workload's program");
  }

  void run(json& figures) {
    figures_ = &figures;
    const std::int64_t tuned = tuned_m();
    figures["m"] = tuned;
    figures["dtype"] = std::string(ir::name(plan_.dtype));
    figures["poison"] = fmt::format("0x{:02x}", kPoison);
    figures["guard_bytes"] = GuardedBuffer::kGuardBytes;
    figures["repeats_compared"] = 2;
    figures["families"] = json::array();

    bind(false);
    for (Family f : families())
      if (!hostile_weights(f)) check_family(f, tuned);
    one_hot(tuned);
    other_rows(tuned);
    misaligned(tuned);
    inputs_unchanged();
    bind(true);
    for (Family f : families())
      if (hostile_weights(f)) check_family(f, tuned);
    inputs_unchanged();
    figures["reference_rows"] =
        expected_.row_dim() < 0
            ? "all"
            : fmt::format("at most {} of a family on the host", expected_.row_limit());
    if (sampled(tuned))
      figures["device_reference"] = all_rows_    ? "every row of every family"
                                    : on_device_ ? on_device_->why()
                                                 : "none";
  }

 private:
  const ir::Signature& signature() const { return expected_.workload().program.signature; }
  ir::DType input_type(std::size_t i) const {
    return ir::bind(signature().inputs[i].dtype, plan_.dtype);
  }
  ir::DType output_type(std::size_t o) const {
    return ir::bind(signature().outputs[o].dtype, plan_.dtype);
  }
  std::int64_t tuned_m() const {
    return plan_.dynamic_dim < 0 ? 1 : plan_.extents[static_cast<std::size_t>(plan_.dynamic_dim)];
  }

  // Uploads the parameters and runs the prepare step.
  void bind(bool hostile) {
    const std::vector<Tensor>& parameters = expected_.parameters(hostile);
    parameters_.resize(parameters.size());
    parameter_bytes_.resize(parameters.size());
    std::vector<const void*> inputs(parameters.size(), nullptr);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (signature().inputs[i].role != ir::Role::kParameter) continue;
      parameter_bytes_[i] = to_bytes(parameters[i].data, input_type(i));
      parameters_[i] = std::make_unique<GuardedBuffer>(device_, parameter_bytes_[i].size());
      parameters_[i]->upload(parameter_bytes_[i]);
      inputs[i] = parameters_[i]->data();
    }
    Watched watched(watch_, 0, limit_s_);
    executable_->prepare(inputs, nullptr);
    device_.synchronize();
  }

  // Does the host's reference leave rows out?
  bool sampled(std::int64_t m) const {
    return expected_.row_dim() >= 0 && expected_.rows_at(m) > expected_.row_limit();
  }

  using Buffers = std::vector<std::unique_ptr<GuardedBuffer>>;

  // Buffers are kept between launches of one size: allocating costs more than small kernels do.
  void ensure(std::unique_ptr<GuardedBuffer>& buffer, std::size_t bytes, std::size_t shift) {
    if (!buffer || buffer->size() != bytes || buffer->shift() != shift)
      buffer = std::make_unique<GuardedBuffer>(device_, bytes, shift);
  }

  // Launches twice over poisoned outputs, which then hold the result; `off_alignment` with every
  // activation that may be and every output one element behind an aligned address. Throws Wrong.
  void launch(const std::vector<Tensor>& activations, std::int64_t m, bool off_alignment = false) {
    activations_.resize(activations.size());
    std::vector<Bytes> sent(activations.size());
    inputs_.clear();
    for (std::size_t i = 0; i < activations.size(); ++i) {
      if (signature().inputs[i].role == ir::Role::kActivation) {
        sent[i] = to_bytes(activations[i].data, input_type(i));
        ensure(activations_[i], sent[i].size(),
               off_alignment && !mapped(i) ? ir::size_of(input_type(i)) : 0);
        activations_[i]->upload(sent[i]);
      }
      inputs_.push_back(activations_[i] ? activations_[i]->data() : parameters_[i]->data());
    }
    std::vector<const void*> given = inputs_;
    put_rows_apart(sent, given, off_alignment);
    const ir::Extents extents = expected_.extents_at(m);
    for (Buffers* buffers : {&outputs_, &again_}) {
      buffers->resize(signature().outputs.size());
      std::vector<void*> outputs;
      for (std::size_t o = 0; o < buffers->size(); ++o) {
        const std::size_t count =
            static_cast<std::size_t>(ir::element_count(signature().output_axes[o], extents));
        ensure((*buffers)[o], count * ir::size_of(output_type(o)),
               off_alignment ? ir::size_of(output_type(o)) : 0);
        (*buffers)[o]->poison();
        outputs.push_back((*buffers)[o]->data());
      }
      Buffers apart = outputs_apart(outputs, *buffers, off_alignment);
      {
        Watched watched(watch_, 0, limit_s_);
        executable_->launch(given.data(), outputs.data(), m, nullptr, buffers == &again_);
        device_.synchronize();
      }
      for (std::size_t o = 0; o < apart.size(); ++o)
        if (apart[o]) take_rows(*apart[o], *(*buffers)[o], o);
    }
    inputs_apart_unchanged();
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      if (!same(*outputs_[o], *again_[o]))
        throw Wrong(fmt::format("output {} differs between two launches on the same inputs",
                                signature().outputs[o].name));
      for (const Buffers* buffers : {&outputs_, &again_})
        check_guard(*(*buffers)[o], signature().outputs[o].name);
    }
    for (std::size_t i = 0; i < activations_.size(); ++i) {
      if (!activations_[i]) continue;
      check_guard(*activations_[i], signature().inputs[i].name);
      if (!activations_[i]->holds(sent[i]))
        throw Wrong("input " + signature().inputs[i].name + " was overwritten");
    }
  }

  std::optional<RowsApart> output_rows(std::size_t o) const {
    return rows_apart(expected_.workload(), signature().outputs[o].name, signature().output_axes[o],
                      output_type(o));
  }

  // Activations whose rows are apart are given so, with a NaN in every gap; the dense ones stay
  // for the device's reference.
  void put_rows_apart(const std::vector<Bytes>& sent, std::vector<const void*>& given, bool shift) {
    inputs_apart_.resize(sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const ir::ProgramInput& in = signature().inputs[i];
      const auto rows = rows_apart(expected_.workload(), in.name, in.axes, input_type(i));
      if (!rows) continue;
      Apart& apart = inputs_apart_[i];
      apart.sent = spread(sent[i], *rows, std::byte{kPoison});
      ensure(apart.buffer, apart.sent.size(), shift && !mapped(i) ? ir::size_of(input_type(i)) : 0);
      apart.buffer->upload(apart.sent);
      given[i] = apart.buffer->data();
    }
  }

  void inputs_apart_unchanged() {
    for (std::size_t i = 0; i < inputs_apart_.size(); ++i) {
      if (!inputs_apart_[i].buffer) continue;
      check_guard(*inputs_apart_[i].buffer, signature().inputs[i].name);
      if (!inputs_apart_[i].buffer->holds(inputs_apart_[i].sent))
        throw Wrong("input " + signature().inputs[i].name + " was overwritten");
    }
  }

  // Poisoned outputs with rows apart, in the place of those of `dense`; null for the others.
  Buffers outputs_apart(std::vector<void*>& outputs, const Buffers& dense, bool shift) {
    Buffers apart(dense.size());
    for (std::size_t o = 0; o < dense.size(); ++o) {
      const auto rows = output_rows(o);
      if (!rows) continue;
      ensure(apart[o], rows->total(dense[o]->size() / rows->bytes),
             shift ? ir::size_of(output_type(o)) : 0);
      apart[o]->poison();
      outputs[o] = apart[o]->data();
    }
    return apart;
  }

  // Nothing was written between rows; the rows go to the dense buffer.
  void take_rows(const GuardedBuffer& apart, GuardedBuffer& dense, std::size_t o) {
    check_guard(apart, signature().outputs[o].name);
    const RowsApart rows = *output_rows(o);
    const Bytes bytes = apart.download();
    const std::int64_t at = changed_gap(bytes, rows, std::byte{kPoison});
    if (at >= 0)
      throw Wrong(fmt::format("a stray write between rows of output {}, at byte {}",
                              signature().outputs[o].name, at));
    dense.upload(gathered(bytes, rows));
  }

  bool same(const GuardedBuffer& a, const GuardedBuffer& b) {
    DeviceMath* math = on_device_ ? on_device_->math() : nullptr;
    if (math && a.shift() == 0)  // it reads 16 bytes at a time
      return math->equal(a.data(), b.data(), a.size());
    return b.holds(a.download());
  }

  static void check_guard(const GuardedBuffer& buffer, const std::string& tensor) {
    std::int64_t where = 0;
    if (!buffer.intact(&where))
      throw Wrong(fmt::format("a stray write at byte {} of tensor {}, which has {} bytes", where,
                              tensor, buffer.size()));
  }

  void inputs_unchanged() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i]) continue;
      check_guard(*parameters_[i], signature().inputs[i].name);
      if (!parameters_[i]->holds(parameter_bytes_[i]))
        throw Wrong("parameter " + signature().inputs[i].name + " was overwritten");
    }
  }

  void check_family(Family family, std::int64_t m) {
    launch(expected_.activations(family, m), m);
    const bool device = sampled(m) && m == tuned_m() && check_every_row(family, m);
    compare(name(family), expected_.family(family, m), m, !device);
  }

  // Every row against the float64 evaluation on the device; false when there is none.
  bool check_every_row(Family family, std::int64_t m) {
    const DeviceMath::Result* want = on_device_ ? on_device_->family(family, inputs_) : nullptr;
    if (!want) return false;
    for (std::size_t o = 0; o < want->outputs.size(); ++o) {
      const DeviceMath::Result::Output& e = want->outputs[o];
      verifier::NumericReport report = on_device_->math()->compare(
          outputs_[o]->data(), output_type(o), e.exact->data(), e.rows, e.columns, e.bound);
      record(name(family), o, m, expected_.rows_at(m), e.reference_error, e.bound, report);
      figures_->at("families").back()["reference"] = "device";
      if (!report.pass)
        refute(name(family), o, m, report.row, report.column,
               fmt::format("{} (m={}): output {}: {}", name(family), m, signature().outputs[o].name,
                           report.reason));
    }
    all_rows_ = true;
    return true;
  }

  void record(const std::string& label, std::size_t o, std::int64_t m, std::int64_t rows_checked,
              double reference_error, double bound, const verifier::NumericReport& report) {
    figures_->at("families")
        .push_back({{"family", label},
                    {"output", signature().outputs[o].name},
                    {"m", m},
                    {"rows_checked", rows_checked},
                    {"rows", expected_.rows_at(m)},
                    {"e_reference", number(reference_error)},
                    {"bound", number(bound)},
                    {"worst_row", number(report.worst_row)},
                    {"worst_element", number(report.worst_element)}});
  }

  [[noreturn]] void refute(const std::string& label, std::size_t o, std::int64_t m,
                           std::int64_t row, std::int64_t column, const std::string& reason) {
    counterexample_ = {{"family", label},
                       {"m", m},
                       {"output", signature().outputs[o].name},
                       {"row", row},
                       {"column", column}};
    throw Wrong(reason);
  }

  // Compares the checked rows with float64, and with `classes` the class of all others.
  void compare(const std::string& label, const Expectation& e, std::int64_t m, bool classes) {
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const Expectation::Output& want = e.outputs[o];
      const std::int64_t row_size = want.columns * want.rows_per_row;
      const std::size_t row_bytes =
          static_cast<std::size_t>(row_size) * ir::size_of(output_type(o));
      const bool all = e.rows.size() == e.finite.size() || classes;
      const Bytes got = all ? outputs_[o]->download() : Bytes{};
      std::vector<float> y;
      for (std::int64_t r : e.rows) {
        const std::size_t first = static_cast<std::size_t>(r);
        std::vector<float> row =
            all ? from_bytes(got, output_type(o), first * static_cast<std::size_t>(row_size),
                             static_cast<std::size_t>(row_size))
                : from_bytes(outputs_[o]->download(first * row_bytes, row_bytes), output_type(o), 0,
                             static_cast<std::size_t>(row_size));
        y.insert(y.end(), row.begin(), row.end());
      }
      const std::int64_t compared = static_cast<std::int64_t>(e.rows.size()) * want.rows_per_row;
      verifier::NumericReport report =
          verifier::compare(y, want.exact, compared, want.columns, want.bound);
      record(label, o, m, static_cast<std::int64_t>(e.rows.size()), want.reference_error,
             want.bound, report);
      if (!report.pass) {
        const std::int64_t row =
            report.row < 0 ? -1 : e.rows[static_cast<std::size_t>(report.row / want.rows_per_row)];
        refute(label, o, m, row, report.column,
               fmt::format("{} (m={}): output {}, checked row {}: {}", label, m,
                           signature().outputs[o].name, row, report.reason));
      }
      if (classes) check_classes(label, got, output_type(o), e, row_size);
    }
  }

  // Rows that are not compared must at least have been written, with finite values.
  void check_classes(const std::string& label, const Bytes& got, ir::DType type,
                     const Expectation& e, std::int64_t row_size) {
    for (std::size_t r = 0; r < e.finite.size() && e.rows.size() < e.finite.size(); ++r) {
      if (!e.finite[r]) continue;
      std::int64_t at = find_nonfinite(got, type, r * static_cast<std::size_t>(row_size),
                                       static_cast<std::size_t>(row_size));
      if (at >= 0) {
        counterexample_ = {{"family", label}, {"row", r}, {"column", at % row_size}};
        throw Wrong(fmt::format(
            "{}: row {}, column {} was not written, or is not finite although its inputs are",
            label, r, at % row_size));
      }
    }
  }

  void one_hot(std::int64_t m) {
    if (expected_.row_dim() < 0) {
      (*figures_)["one_hot"] = "left out: rows of the program are not independent";
      return;
    }
    const double work =
        std::max(1.0, row_cost(expected_.workload(), static_cast<ir::DimId>(expected_.row_dim()))) *
        2;
    const double limit =
        (device_.info().device_class == "host" ? kOneHotWorkHost : kOneHotWork) / work;
    std::int64_t rows = 0;
    json done = json::array();
    for (std::size_t i = 0; i < signature().inputs.size(); ++i) {
      const ir::ProgramInput& in = signature().inputs[i];
      if (in.role != ir::Role::kActivation || in.axes.size() != 2) continue;
      const std::int64_t extent = plan_.extents[in.axes[1].dim];
      const std::size_t count = std::max<std::size_t>(
          static_cast<std::size_t>(std::clamp<double>(limit, 1, kOneHotLimit)), 8);
      std::vector<std::int64_t> positions =
          one_hot_positions(extent, tile_steps(plan_, extent), count);
      for (std::size_t first = 0; first < positions.size(); first += static_cast<std::size_t>(m)) {
        std::size_t last = std::min(positions.size(), first + static_cast<std::size_t>(m));
        std::vector<std::int64_t> batch(positions.begin() + static_cast<std::ptrdiff_t>(first),
                                        positions.begin() + static_cast<std::ptrdiff_t>(last));
        launch(make_one_hot(expected_.workload(), expected_.extents_at(m), i, batch), m);
        Expectation e = slice(expected_.one_hot(i, positions), first, batch.size(), m);
        quietly([&] { compare("one_hot", e, m, true); });
        rows += static_cast<std::int64_t>(batch.size());
      }
      done.push_back({{"input", in.name}, {"positions", positions.size()}, {"of", extent}});
    }
    (*figures_)["one_hot"] = done;
    merge_one_hot(rows);
  }

  // One-hot launches are many: their figures are joined into one line.
  template <class F>
  void quietly(const F& f) {
    const std::size_t before = figures_->at("families").size();
    f();
    json& all = figures_->at("families");
    for (std::size_t i = before; i < all.size(); ++i) {
      worst_row_ = std::max(worst_row_, all[i]["worst_row"].get<double>());
      worst_ratio_ =
          std::max(worst_ratio_, all[i]["worst_row"].get<double>() / all[i]["bound"].get<double>());
    }
    while (all.size() > before) all.erase(all.size() - 1);
  }
  void merge_one_hot(std::int64_t rows) {
    figures_->at("families")
        .push_back({{"family", "one_hot"},
                    {"rows_checked", rows},
                    {"worst_row", number(worst_row_)},
                    {"worst_row_over_bound", number(worst_ratio_)}});
  }

  // Other numbers of rows than the tuned one, where the plan allows them.
  void other_rows(std::int64_t tuned) {
    json tried = json::array();
    if (plan_.dynamic_dim >= 0) {
      std::vector<std::int64_t> ms;
      for (std::int64_t m :
           {plan_.m_min, tuned - 1, tuned + 1, std::min(plan_.m_max, 2 * tuned + 3)}) {
        bool allowed = m >= 1 && m >= plan_.m_min && m <= plan_.m_max && m != tuned;
        if (allowed && std::find(ms.begin(), ms.end(), m) == ms.end()) ms.push_back(m);
      }
      for (std::int64_t m : ms) {
        check_family(Family::kNormal, m);
        tried.push_back(m);
      }
    }
    (*figures_)["other_m"] = tried;
  }

  // A tensor map over an input asks for an aligned address: the runtime refuses others.
  bool mapped(std::size_t input) const {
    return std::any_of(
        plan_.tensor_maps.begin(), plan_.tensor_maps.end(),
        [&](const ir::TensorMapSpec& map) { return map.buffer == static_cast<int>(input); });
  }

  // Tensors at any address that their elements allow, where kernels take other paths. Tiny inputs
  // too: next to those of normal ones a sum that starts at another number than zero is no error.
  void misaligned(std::int64_t m) {
    const bool library = std::any_of(
        plan_.main.begin(), plan_.main.end(),
        [](const ir::Launch& launch) { return launch.kind == ir::LaunchKind::kLibrary; });
    const double work =
        expected_.row_dim() < 0
            ? 0
            : row_cost(expected_.workload(), static_cast<ir::DimId>(expected_.row_dim())) *
                  static_cast<double>(expected_.rows_at(m));
    if (library || !(work <= kMisalignedWork)) {
      (*figures_)["misaligned"] =
          library ? "left out: the vendor's product takes aligned tensors" : "left out: too slow";
      return;
    }
    for (Family f : {Family::kNormal, Family::kTiny}) {
      launch(expected_.activations(f, m), m, true);
      compare(f == Family::kNormal ? "misaligned" : "misaligned_" + name(f), expected_.family(f, m),
              m, true);
    }
  }

 public:
  const json& counterexample() const { return counterexample_; }

 private:
  runtime::Device& device_;
  Expectations& expected_;
  DeviceExpectations* on_device_;
  Watch* watch_;
  double limit_s_;
  const ir::LaunchPlan& plan_;
  std::unique_ptr<runtime::Executable> executable_;
  // Outputs of the first launch and of the second, and what the inputs were.
  Buffers parameters_, activations_, outputs_, again_;
  std::vector<const void*> inputs_;
  struct Apart {
    std::unique_ptr<GuardedBuffer> buffer;
    Bytes sent;
  };
  std::vector<Apart> inputs_apart_;  // by input; those with rows apart
  std::vector<Bytes> parameter_bytes_;
  json* figures_ = nullptr;
  bool all_rows_ = false;  // the device's reference was used
  json counterexample_;
  double worst_row_ = 0, worst_ratio_ = 0;
};

}  // namespace

std::vector<std::int64_t> tile_steps(const ir::LaunchPlan& plan, std::int64_t extent) {
  std::vector<std::int64_t> steps;
  try {
    for (const ir::KernelSchedule& kernel : ir::parse_schedule(plan.schedule).kernels)
      for (const auto& [name, value] : kernel.params) {
        if (name.rfind("tile", 0) == 0 && value > 1) steps.push_back(value);
        bool split =
            name.rfind("split", 0) == 0 || name == "cluster" || name.rfind("cluster_k", 0) == 0;
        if (split && value > 1) steps.push_back((extent + value - 1) / value);
      }
  } catch (const UserError&) {
    // A plan without a readable schedule has no tiles to aim at; the dense sample remains.
  }
  for (std::int64_t vector : {8, 16, 32, 64}) steps.push_back(vector);
  std::sort(steps.begin(), steps.end(), std::greater<>());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

verifier::Evidence accept(runtime::Device& device, Expectations& expected,
                          const Candidate& candidate, std::uint64_t seed,
                          DeviceExpectations* on_device, Watch* watch, double limit_s) {
  verifier::Evidence evidence;
  evidence.method = "numeric";
  json figures = {{"seed", seed}, {"device", device.info().id}};
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Acceptance> acceptance;
  try {
    acceptance =
        std::make_unique<Acceptance>(device, expected, candidate, on_device, watch, limit_s);
    acceptance->run(figures);
    evidence.verdict = verifier::Verdict::kPass;
  } catch (const Wrong& wrong) {
    evidence.verdict = verifier::Verdict::kRefuted;
    evidence.reason = wrong.what();
    if (!acceptance->counterexample().is_null())
      evidence.counterexample = acceptance->counterexample().dump();
  } catch (const DeviceError& error) {
    evidence.verdict = verifier::Verdict::kUnknown;
    evidence.reason = std::string("launch_error: ") + error.what();
  } catch (const UserError& error) {
    evidence.verdict = verifier::Verdict::kUnsupported;
    evidence.reason = error.what();
  } catch (const std::bad_alloc&) {
    evidence.verdict = verifier::Verdict::kUnknown;
    evidence.reason = std::string("launch_error: ") + kOutOfMemory;
  }
  evidence.figures = figures.dump();
  evidence.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return evidence;
}

}  // namespace tenon::measure
