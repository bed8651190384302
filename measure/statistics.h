// Order statistics of samples.
#pragma once

#include <vector>

namespace tenon::measure {

// The q-quantile (0 to 1) by linear interpolation between order statistics; 0 for no samples.
double quantile(std::vector<double> samples, double q);
double median(const std::vector<double>& samples);
// The interquartile range.
double spread(const std::vector<double>& samples);

}  // namespace tenon::measure
