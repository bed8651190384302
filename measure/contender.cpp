#include "measure/contender.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "measure/families.h"
#include "measure/storage.h"

namespace tenon::measure {

namespace {

constexpr int kMostSets = 256;
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kPieces = 32, kPieceBytes = 65536;  // of an output looked at in a screening

double prepared_bytes(const ir::LaunchPlan& plan) {
  double bytes = 0;
  for (const ir::Buffer& b : plan.buffers)
    if (b.role == ir::BufferRole::kPrepared)
      bytes += static_cast<double>(b.elements.evaluate(plan.extents.data())) *
               static_cast<double>(ir::size_of(b.dtype));
  return bytes;
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Rotation::Rotation(runtime::Device& device, const ir::Workload& workload, double wanted_bytes)
    : device_(device), workload_(workload) {
  const ir::Signature& s = workload.program.signature;
  for (std::size_t d = 0; d < s.dims.size(); ++d)
    if (s.dims[d] == "m") m_ = workload.extents[d];
  std::vector<Tensor> parameters = make_parameters(workload, false, kSeed);
  std::vector<Tensor> activations =
      make_activations(workload, workload.extents, Family::kNormal, kSeed);
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const bool parameter = s.inputs[i].role == ir::Role::kParameter;
    const ir::DType type = ir::bind(s.inputs[i].dtype, workload.dtype);
    data_.push_back(to_bytes((parameter ? parameters : activations)[i].data, type));
    // What is read between rows shows: it is a NaN.
    if (auto rows = rows_apart(workload, s.inputs[i].name, s.inputs[i].axes, type))
      data_.back() = spread(data_.back(), *rows, std::byte{kPoison});
    set_bytes_ += static_cast<double>(data_.back().size());
  }
  for (std::size_t o = 0; o < s.outputs.size(); ++o) {
    const ir::DType type = ir::bind(s.outputs[o].dtype, workload.dtype);
    const std::int64_t count = ir::element_count(s.output_axes[o], workload.extents);
    output_bytes_.push_back(static_cast<std::size_t>(count) * ir::size_of(type));
    output_rows_.push_back(
        rows_apart(workload, s.outputs[o].name, s.output_axes[o], s.outputs[o].dtype));
    if (output_rows_.back())
      output_bytes_.back() =
          output_rows_.back()->total(output_bytes_.back() / output_rows_.back()->bytes);
    set_bytes_ += static_cast<double>(output_bytes_.back());
  }
  if (wanted_bytes > 0) wanted_ = std::ceil(wanted_bytes / set_bytes_) + 1;
  make_set();
}

void Rotation::begin(const std::vector<Candidate>& candidates, double memory_limit) {
  double own = 0;
  for (const Candidate& c : candidates) own += prepared_bytes(c.plan);
  double affordable = std::floor(memory_limit / std::max(1.0, set_bytes_ + own));
  sets_ = static_cast<int>(std::clamp<double>(std::min(wanted_, affordable), 1, kMostSets));
}

void* Rotation::buffer(std::size_t bytes) {
  memory_.push_back(device_.allocate(bytes));
  return memory_.back()->data();
}

void Rotation::make_set() {
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const std::vector<std::byte>& data : data_) {
    void* to = buffer(data.size());
    device_.upload(to, data.data(), data.size());
    in.push_back(to);
  }
  for (std::size_t size : output_bytes_) {
    out.push_back(buffer(size));
    device_.fill(out.back(), kPoison, size);
  }
  inputs_.push_back(std::move(in));
  outputs_.push_back(std::move(out));
}

Contender Rotation::make(const Candidate& candidate) {
  Contender c;
  c.candidate = &candidate;
  try {
    c.bindings.push_back(device_.load(candidate.plan, candidate.cubins));
    c.bindings[0]->prepare(inputs_[0], nullptr);
    device_.synchronize();
    if (!candidate.plan.prepare.empty()) c.bindings.resize(static_cast<std::size_t>(sets_));
  } catch (const DeviceError& error) {
    c.fail(Status::kLaunchError, error.what());
  } catch (const UserError& error) {
    c.fail(Status::kUnsupported, error.what());
  } catch (const std::bad_alloc&) {
    c.fail(Status::kLaunchError, kOutOfMemory);
  }
  return c;
}

void Rotation::ensure(Contender& c, int first, int count) {
  bool prepared = false;
  for (int i = 0; i < std::min(count, sets_); ++i) {
    const int set = (first + i) % sets_;
    while (static_cast<int>(inputs_.size()) <= set) make_set();
    std::unique_ptr<runtime::Executable>& binding = c.bindings[c.slot(set)];
    if (binding) continue;
    binding = c.bindings[0]->replicate();
    binding->prepare(inputs_[static_cast<std::size_t>(set)], nullptr);
    prepared = true;
  }
  if (prepared) device_.synchronize();
}

void Rotation::poison() {
  for (std::size_t o = 0; o < output_bytes_.size(); ++o)
    device_.fill(outputs_[0][o], kPoison, output_bytes_[o]);
}

bool Rotation::written(bool sampled, std::string* what) {
  const ir::Signature& s = workload_.program.signature;
  for (std::size_t o = 0; o < output_bytes_.size(); ++o) {
    const ir::DType type = ir::bind(s.outputs[o].dtype, workload_.dtype);
    const std::size_t size = ir::size_of(type), total = output_bytes_[o];
    // Pieces spread evenly, the first and the last among them; or one piece that is everything.
    const bool pieces = sampled && total > kPieces * kPieceBytes;
    const std::size_t count = pieces ? kPieces : 1, length = pieces ? kPieceBytes : total;
    std::vector<std::byte> bytes(length);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t first = count == 1 ? 0 : (total - length) / size * i / (count - 1) * size;
      device_.download(bytes.data(), static_cast<std::byte*>(outputs_[0][o]) + first, length);
      std::int64_t at = find_nonfinite(bytes, type, 0, length / size);
      // What lies between rows stays poisoned.
      auto between = [&](std::int64_t element) {
        return output_rows_[o] &&
               (first + static_cast<std::size_t>(element) * size) % output_rows_[o]->stride >=
                   output_rows_[o]->bytes;
      };
      while (at >= 0 && between(at)) {
        const std::size_t next = static_cast<std::size_t>(at) + 1;
        at = find_nonfinite(bytes, type, next, length / size - next);
      }
      if (at < 0) continue;
      if (what)
        *what = fmt::format("element {} of output {} was not written, or is not finite",
                            static_cast<std::int64_t>(first / size) + at, s.outputs[o].name);
      return false;
    }
  }
  return true;
}

std::string Rotation::text() const {
  return fmt::format("{} set{} of {:.1f} MB", sets_, sets_ == 1 ? "" : "s", set_bytes_ / 1e6);
}

}  // namespace tenon::measure
