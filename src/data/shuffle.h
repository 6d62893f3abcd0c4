#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace sluice::data {

/// A small generator with an algorithm of its own (SplitMix64: Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014), because std::shuffle and the distributions of
/// <random> give different results with different standard libraries.
class SplitMix {
 public:
  /// Independent streams for each pair (seed, stream).
  constexpr explicit SplitMix(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(mix(seed) ^ mix(mix(stream + kIncrement))) {}

  constexpr std::uint64_t next() {
    state_ += kIncrement;
    return mix(state_);
  }

  /// Uniform in [0, bound), without bias; `bound` must not be 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t unfair = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t word = next();
    while (word < unfair) word = next();
    return word % bound;
  }

  static constexpr std::uint64_t mix(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
  }

 private:
  static constexpr std::uint64_t kIncrement = 0x9E3779B97F4A7C15ull;
  std::uint64_t state_;
};

/// Fisher and Yates' shuffle, every order equally likely.
template <typename T>
constexpr void shuffle(std::span<T> items, SplitMix& random) {
  for (std::size_t left = items.size(); left > 1; --left) {
    std::swap(items[left - 1], items[static_cast<std::size_t>(random.below(left))]);
  }
}

}  // namespace sluice::data
