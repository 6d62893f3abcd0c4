#pragma once

#include <cstdint>
#include <vector>

#include "runtime/context.h"
#include "runtime/tensor.h"

namespace sluice::bench {

/// SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// One that `count` numbers have been taken of.
  Random ahead(std::int64_t count) const {
    return Random(state_ + static_cast<std::uint64_t>(count) * kStep);
  }
  std::uint64_t next() {
    std::uint64_t z = (state_ += kStep);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  double uniform(double range) {
    return (2 * (static_cast<double>(next() >> 11) * 0x1p-53) - 1) * range;
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ull;

  std::uint64_t state_;
};

/// Numbers in [-range, range], in float64 but rounded to what the dtype can hold: the same for any
/// number of threads.
std::vector<double> draw(Random& random, std::int64_t count, double range, base::DType dtype);

/// Numbers to and from tensors of any floating dtype. `upload` takes numbers that the dtype holds;
/// `download` waits, and gives nothing for an absent tensor.
void upload(const runtime::Context& context, const runtime::Tensor& tensor,
            const std::vector<double>& values);
std::vector<double> download(const runtime::Context& context, const runtime::Tensor& tensor);

/// Fills with NaN, so that what is not written shows.
void poison(const runtime::Context& context, const runtime::Tensor& tensor);

}  // namespace sluice::bench
