#include "measure/families.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ir/roots.h"

namespace tenon::measure {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers everywhere, and fast.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
  // Box and Muller 1958.
  double normal() {
    if (spare_) {
      spare_ = false;
      return kept_;
    }
    double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * M_PI * uniform();
    kept_ = radius * std::sin(angle);
    spare_ = true;
    return radius * std::cos(angle);
  }
  double student3() {
    double z = normal(), a = normal(), b = normal(), c = normal();
    return z / std::sqrt((a * a + b * b + c * c) / 3);
  }

 private:
  std::uint64_t state_;
  bool spare_ = false;
  double kept_ = 0;
};

Tensor shaped(const ir::ProgramInput& in, const ir::Extents& extents) {
  Tensor t;
  t.axes = in.axes;
  std::int64_t count = 1;
  for (const ir::Axis& axis : in.axes) {
    t.extents.push_back(extents[axis.dim]);
    count *= extents[axis.dim];
  }
  t.data.resize(static_cast<std::size_t>(count));
  return t;
}

double element(Family family, Random& random, bool outlier) {
  switch (family) {
    case Family::kHeavyTailed:
      return std::clamp(random.student3(), -1e4, 1e4);
    case Family::kOutlierChannels:
      return random.normal() * (outlier ? 1000 : 1);
    case Family::kMean100:
      return 100 + random.normal();
    case Family::kMean1000:
      return 1000 + random.normal();
    case Family::kTiny:
      return 1e-6 * random.normal();
    default:
      return random.normal();
  }
}

// Every row has its own stream of random numbers, so that rows are made in parallel and the
// first rows are the same for any number of them.
template <class F>
void each_row(Tensor& t, std::uint64_t seed, const F& f) {
  const std::size_t columns = t.extents.empty() ? 1 : static_cast<std::size_t>(t.extents.back());
  const std::size_t rows = columns ? t.data.size() / columns : 0;
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, rows, 1 + 4096 / (columns + 1)),
                    [&](const auto& range) {
                      for (std::size_t r = range.begin(); r < range.end(); ++r) {
                        Random random(Random(seed + 0x632be59bd9b4e019ull * (r + 1)).bits());
                        f(random, r, t.data.data() + r * columns, columns);
                      }
                    });
}

void fill(Tensor& t, Family family, ir::DType type, std::uint64_t seed) {
  Random common(seed);
  const std::size_t first = common.bits() % 64;
  each_row(t, seed, [&](Random& random, std::size_t row, float* to, std::size_t columns) {
    for (std::size_t j = 0; j < columns; ++j) {
      bool outlier = columns < 64 ? j == first % columns : j % 64 == first;
      to[j] = ir::round_to(type, static_cast<float>(element(family, random, outlier)));
    }
    if (family == Family::kZeroRow && row % 3 == 0) std::fill_n(to, columns, 0.0f);
  });
  if (family != Family::kNanRow) return;
  const std::size_t columns = static_cast<std::size_t>(t.extents.back()),
                    rows = t.data.size() / columns;
  const std::size_t row = rows / 2;
  t.data[row * columns + common.bits() % columns] = std::numeric_limits<float>::quiet_NaN();
  if (rows > 2)
    t.data[(row + 1) % rows * columns + common.bits() % columns] =
        std::numeric_limits<float>::infinity();
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      Family::kNormal,  Family::kHeavyTailed, Family::kOutlierChannels,
      Family::kMean100, Family::kMean1000,    Family::kTiny,
      Family::kZeroRow, Family::kNanRow,      Family::kHostileWeights};
  return all;
}

std::string name(Family family) {
  switch (family) {
    case Family::kNormal:
      return "normal";
    case Family::kHeavyTailed:
      return "heavy_tailed";
    case Family::kOutlierChannels:
      return "outlier_channels";
    case Family::kMean100:
      return "mean_100_sigma";
    case Family::kMean1000:
      return "mean_1000_sigma";
    case Family::kTiny:
      return "tiny";
    case Family::kZeroRow:
      return "zero_row";
    case Family::kNanRow:
      return "nan_row";
    case Family::kHostileWeights:
      return "hostile_weights";
  }
  return "unknown";
}

bool hostile_weights(Family family) { return family == Family::kHostileWeights; }

std::vector<Tensor> make_parameters(const ir::Workload& workload, bool hostile,
                                    std::uint64_t seed) {
  const auto& inputs = workload.program.signature.inputs;
  const std::vector<bool> under_root = ir::inputs_under_roots(workload.program);
  std::vector<Tensor> out(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].role != ir::Role::kParameter) continue;
    Tensor& t = out[i];
    t = shaped(inputs[i], workload.extents);
    const ir::DType type = ir::bind(inputs[i].dtype, workload.dtype);
    // Products of two hostile parameters must stay within fp16's range.
    const double range = type == ir::DType::kF16 ? 4 : 8;
    // Matrices keep a product's results near 1. Vectors (gains, biases) lie between 1/2 and 2
    // either way: products with them lose nothing to fp16's subnormal numbers.
    const bool vector = t.axes.size() < 2;
    const double scale = vector ? 1 : 1 / std::sqrt(static_cast<double>(t.extents[0]));
    each_row(t, seed * 1000 + i + (hostile ? 500 : 0),
             [&](Random& random, std::size_t, float* to, std::size_t columns) {
               double factor = scale;
               for (std::size_t j = 0; j < columns; ++j) {
                 if (hostile && (j == 0 || vector))
                   factor = scale * std::exp2(range * (2 * random.uniform() - 1));
                 double value = random.normal();
                 if (vector && !hostile)
                   value = (value < 0 ? -1 : 1) * std::exp2(2 * random.uniform() - 1);
                 if (under_root[i]) value = std::fabs(value);
                 to[j] = ir::round_to(type, static_cast<float>(value * factor));
               }
             });
  }
  return out;
}

std::vector<Tensor> make_activations(const ir::Workload& workload, const ir::Extents& extents,
                                     Family family, std::uint64_t seed) {
  const auto& inputs = workload.program.signature.inputs;
  std::vector<Tensor> out(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].role != ir::Role::kActivation) continue;
    out[i] = shaped(inputs[i], extents);
    fill(out[i], family, ir::bind(inputs[i].dtype, workload.dtype),
         seed * 1000 + i + 100 * (1 + static_cast<std::uint64_t>(family)));
  }
  return out;
}

std::vector<Tensor> make_one_hot(const ir::Workload& workload, const ir::Extents& extents,
                                 std::size_t which, const std::vector<std::int64_t>& positions) {
  const auto& inputs = workload.program.signature.inputs;
  std::vector<Tensor> out(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].role != ir::Role::kActivation) continue;
    out[i] = shaped(inputs[i], extents);
    if (i != which) continue;
    const std::size_t columns = static_cast<std::size_t>(out[i].extents.back());
    for (std::size_t r = 0; r < out[i].data.size() / columns; ++r)
      out[i].data[r * columns +
                  static_cast<std::size_t>(positions[std::min(r, positions.size() - 1)])] = 1;
  }
  return out;
}

std::vector<std::int64_t> one_hot_positions(std::int64_t extent,
                                            const std::vector<std::int64_t>& steps,
                                            std::size_t limit) {
  std::vector<std::int64_t> order;
  std::set<std::int64_t> seen;
  auto add = [&](std::int64_t p) {
    if (p >= 0 && p < extent && order.size() < limit && seen.insert(p).second) order.push_back(p);
  };
  add(0);
  add(extent - 1);
  add(extent - 2);
  for (std::int64_t step : steps) {
    if (step < 1) continue;
    // Where boundaries are more than the limit allows, an even sample of them.
    std::int64_t boundaries = extent / step,
                 stride = 1 + 4 * boundaries / static_cast<std::int64_t>(limit);
    for (std::int64_t b = 1; b <= boundaries; b += stride) {
      add(b * step - 1);
      add(b * step);
    }
  }
  for (std::int64_t p = 1; p < extent; p *= 2) {
    add(p - 1);
    add(p);
    add(p + 1);
  }
  // An odd step visits every residue of a vector or tile.
  std::int64_t dense = std::max<std::int64_t>(1, extent / static_cast<std::int64_t>(limit));
  if (dense > 1) dense |= 1;
  for (std::int64_t p = 0; p < extent; p += dense) add(p);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace tenon::measure
