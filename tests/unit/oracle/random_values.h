#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace sluice::oracle {

/// Uniform on [-scale, scale), the same on every machine.
class RandomValues {
 public:
  explicit RandomValues(uint64_t seed) : engine_(seed) {}

  double value(double scale = 1.0) {
    return scale * (static_cast<double>(engine_() >> 11) * 0x1p-52 - 1.0);
  }
  int64_t integer(int64_t low, int64_t high) {  // both inclusive
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  std::vector<double> vector(int64_t size, double scale = 1.0) {
    std::vector<double> values(size);
    for (double& v : values) v = value(scale);
    return values;
  }
  void fill(std::vector<double>& values, double scale = 1.0) {
    for (double& v : values) v = value(scale);
  }
  /// Dropout multipliers: 0 with probability p, else 1/(1-p).
  std::vector<double> mask(int64_t size, double p) {
    std::vector<double> values(size);
    for (double& v : values) v = (value() + 1) / 2 < p ? 0.0 : 1.0 / (1.0 - p);
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace sluice::oracle
