// Order statistics of samples.
#pragma once

#include <optional>
#include <vector>

namespace tenon::measure {

// The q-quantile (0 to 1) by linear interpolation between order statistics; 0 for no samples.
double quantile(std::vector<double> samples, double q);
double median(const std::vector<double>& samples);
// The interquartile range.
double spread(const std::vector<double>& samples);
// Spearman's rank correlation of two lists of one length, from -1 to 1; equal values share the mean
// of their ranks. Nothing where it does not exist: under two values, a list whose values are all
// equal, or one with a NaN.
std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tenon::measure
