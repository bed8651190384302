#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::measure {

namespace {

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> out(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i)
      out[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return out;
}

}  // namespace

double quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  double at = q * static_cast<double>(samples.size() - 1);
  std::size_t low = static_cast<std::size_t>(std::floor(at)),
              high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (at - static_cast<double>(low)) * (samples[high] - samples[low]);
}

double median(const std::vector<double>& samples) { return quantile(samples, 0.5); }

double spread(const std::vector<double>& samples) {
  return quantile(samples, 0.75) - quantile(samples, 0.25);
}

std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  auto nan = [](double v) { return std::isnan(v); };
  if (a.size() != b.size() || a.size() < 2 || std::any_of(a.begin(), a.end(), nan) ||
      std::any_of(b.begin(), b.end(), nan))
    return std::nullopt;
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

}  // namespace tenon::measure
