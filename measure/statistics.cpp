#include "measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace tenon::measure {

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

}  // namespace tenon::measure
