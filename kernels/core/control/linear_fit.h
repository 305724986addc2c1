// Cost per call and per unit.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace edgedec::engine {

// Costs by tokens of a pass, in ascending order of the tokens.
using Points = std::vector<std::pair<int, double>>;

// The value on straight lines between the points, of which the first is at `at` or below it.
inline double between(const Points& points, int at) {
  size_t above = 0;
  while (above < points.size() && points[above].first < at) ++above;
  if (above == points.size()) return points.back().second;
  if (points[above].first == at) return points[above].second;
  const auto& low = points[above - 1];
  const auto& high = points[above];
  const double share = static_cast<double>(at - low.first) / static_cast<double>(high.first - low.first);
  return low.second + (high.second - low.second) * share;
}

// Least squares with fading memory; neither part is ever negative.
class Line {
 public:
  void observe(double units, double seconds) {
    n_ = kMemory * n_ + 1.0;
    x_ = kMemory * x_ + units;
    y_ = kMemory * y_ + seconds;
    xx_ = kMemory * xx_ + units * units;
    xy_ = kMemory * xy_ + units * seconds;
  }

  // Takes earlier seconds times `ratio`.
  void rescale(double ratio) {
    y_ = ratio * y_;
    xy_ = ratio * xy_;
  }

  bool known() const { return n_ > 0.0; }
  // Calls observed; earlier ones count for less.
  double calls() const { return n_; }
  // Seconds of one call, on average.
  double mean() const { return n_ != 0.0 ? y_ / n_ : 0.0; }
  // Seconds of a call beside those per unit.
  double fixed() const { return n_ != 0.0 ? std::max((y_ - slope() * x_) / n_, 0.0) : 0.0; }
  // Seconds of a call of `units`, at most: as if all of them cost per unit; 0 before any call.
  double expected(double units) const { return n_ != 0.0 ? y_ * (1.0 + units) / (n_ + x_) : 0.0; }
  // Seconds of a call of `units` by the line.
  double on_line(double units) const { return fixed() + slope() * units; }

  // Seconds per unit. Calls that all had as many units cannot tell: then all of it is per unit.
  double slope() const {
    if (x_ == 0.0) return 0.0;
    const double spread = n_ * xx_ - x_ * x_;
    if (spread < 1e-6 * n_ * xx_) return y_ / x_;
    const double slope = (n_ * xy_ - x_ * y_) / spread;
    return std::min(std::max(slope, 0.0), y_ / x_);
  }

 private:
  static constexpr double kMemory = 0.95;

  double n_ = 0.0, x_ = 0.0, y_ = 0.0, xx_ = 0.0, xy_ = 0.0;
};

}  // namespace edgedec::engine
