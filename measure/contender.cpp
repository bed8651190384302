#include "measure/contender.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "measure/families.h"
#include "measure/storage.h"

namespace tenon::measure {

namespace {

constexpr int kMostSets = 256;
constexpr std::uint64_t kSeed = 1;

double prepared_bytes(const ir::LaunchPlan& plan) {
  double bytes = 0;
  for (const ir::Buffer& b : plan.buffers)
    if (b.role == ir::BufferRole::kPrepared)
      bytes += static_cast<double>(b.elements.evaluate(plan.extents.data())) *
               static_cast<double>(ir::size_of(b.dtype));
  return bytes;
}

// Whether calls of some candidate read input `i` itself (rather than what prepare made of it).
bool read_by_calls(const std::vector<Candidate>& candidates, std::size_t i) {
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& c) {
    return i < c.plan.buffers.size() && c.plan.buffers[i].in_main;
  });
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Rotation::Rotation(runtime::Device& device, const ir::Workload& workload,
                   const std::vector<Candidate>& candidates, double cold_bytes, double memory_limit)
    : device_(device), workload_(workload) {
  const ir::Signature& s = workload.program.signature;
  for (std::size_t d = 0; d < s.dims.size(); ++d)
    if (s.dims[d] == "m") m_ = workload.extents[d];
  std::vector<Tensor> parameters = make_parameters(workload, false, kSeed);
  std::vector<Tensor> activations =
      make_activations(workload, workload.extents, Family::kNormal, kSeed);

  std::vector<std::vector<std::byte>> bytes;
  std::vector<bool> rotates;
  double shared = 0;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const Tensor& t = s.inputs[i].role == ir::Role::kParameter ? parameters[i] : activations[i];
    bytes.push_back(to_bytes(t.data, ir::bind(s.inputs[i].dtype, workload.dtype)));
    rotates.push_back(s.inputs[i].role == ir::Role::kActivation || read_by_calls(candidates, i));
    set_bytes_ += static_cast<double>(bytes.back().size());
    if (rotates.back()) shared += static_cast<double>(bytes.back().size());
  }
  for (std::size_t o = 0; o < s.outputs.size(); ++o) {
    output_bytes_.push_back(
        static_cast<std::size_t>(ir::element_count(s.output_axes[o], workload.extents)) *
        ir::size_of(ir::bind(s.outputs[o].dtype, workload.dtype)));
    set_bytes_ += static_cast<double>(output_bytes_.back());
    shared += static_cast<double>(output_bytes_.back());
  }
  double own = 0;
  for (const Candidate& c : candidates) own += prepared_bytes(c.plan);
  double wanted = cold_bytes > 0 ? std::ceil(cold_bytes / set_bytes_) + 1 : 1;
  double affordable = std::floor(memory_limit / std::max(1.0, shared + own));
  sets_ = static_cast<int>(std::clamp<double>(std::min(wanted, affordable), 1, kMostSets));

  std::vector<const void*> fixed(bytes.size(), nullptr);
  for (int set = 0; set < sets_; ++set) {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (set == 0 || rotates[i]) {
        void* to = buffer(bytes[i].size());
        device_.upload(to, bytes[i].data(), bytes[i].size());
        fixed[i] = to;
      }
      in.push_back(fixed[i]);
    }
    for (std::size_t size : output_bytes_) out.push_back(buffer(size));
    inputs_.push_back(std::move(in));
    outputs_.push_back(std::move(out));
  }
  poison();
}

void* Rotation::buffer(std::size_t bytes) {
  memory_.push_back(device_.allocate(bytes));
  return memory_.back()->data();
}

Contender Rotation::make(const Candidate& candidate) {
  Contender c;
  c.candidate = &candidate;
  try {
    c.bindings.push_back(device_.load(candidate.plan, candidate.cubins));
    if (!candidate.plan.prepare.empty())
      for (int set = 1; set < sets_; ++set) c.bindings.push_back(c.bindings[0]->replicate());
    for (std::size_t b = 0; b < c.bindings.size(); ++b) c.bindings[b]->prepare(inputs_[b], nullptr);
    device_.synchronize();
  } catch (const DeviceError& error) {
    c.fail(Status::kLaunchError, error.what());
  } catch (const UserError& error) {
    c.fail(Status::kUnsupported, error.what());
  }
  return c;
}

void Rotation::poison() {
  for (auto& set : outputs_)
    for (std::size_t o = 0; o < set.size(); ++o) device_.fill(set[o], kPoison, output_bytes_[o]);
}

bool Rotation::written(int sets, std::string* what) {
  const ir::Signature& s = workload_.program.signature;
  for (int set = 0; set < std::min(sets, sets_); ++set)
    for (std::size_t o = 0; o < output_bytes_.size(); ++o) {
      std::vector<std::byte> bytes(output_bytes_[o]);
      device_.download(bytes.data(), outputs_[static_cast<std::size_t>(set)][o], bytes.size());
      const ir::DType type = ir::bind(s.outputs[o].dtype, workload_.dtype);
      std::int64_t at = find_nonfinite(bytes, type, 0, bytes.size() / ir::size_of(type));
      if (at < 0) continue;
      if (what)
        *what = fmt::format("element {} of output {} was not written, or is not finite", at,
                            s.outputs[o].name);
      return false;
    }
  return true;
}

std::string Rotation::text() const {
  return fmt::format("{} set{} of {:.1f} MB", sets_, sets_ == 1 ? "" : "s", set_bytes_ / 1e6);
}

}  // namespace tenon::measure
