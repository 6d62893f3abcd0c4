#pragma once

#include <array>
#include <cstdint>

namespace sluice::runtime {

/// The 64 bits of a * b.
struct Halves {
  std::uint32_t low, high;
};
constexpr Halves halves_of_product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  // Of a product of 64 bits the compiler adds up parts that are zero, a fifth of a draw.
  return {a * b, __umulhi(a, b)};
#else
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product), static_cast<std::uint32_t>(product >> 32)};
#endif
}

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128
/// random bits as a pure function of a 64-bit key and a 128-bit counter. Works in device code as
/// well.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                              std::array<std::uint32_t, 4> counter) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Halves product0 = halves_of_product(0xD2511F53u, counter[0]);
    const Halves product1 = halves_of_product(0xCD9E8D57u, counter[2]);
    counter = {product1.high ^ counter[1] ^ key0, product1.low, product0.high ^ counter[3] ^ key1,
               product0.low};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Which random numbers an operation draws. The number for an element depends on the seed, the
/// training step, the operation's `stream` id, the element's global row, time and unit, and on
/// nothing else: not on padding, batch position, thread count or device.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t stream = 0;

  /// Key of the generator; the counter is {unit / 4, time, row, stream}.
  constexpr std::uint64_t philox_key() const {
    return seed ^ (static_cast<std::uint64_t>(step) * 0x9E3779B97F4A7C15ull);
  }
  /// The random words of the elements 4 * group to 4 * group + 3.
  constexpr std::array<std::uint32_t, 4> words(std::uint32_t row, std::uint32_t time,
                                               std::uint32_t group) const {
    return philox(philox_key(), {group, time, row, stream});
  }
  /// One random word for an element.
  constexpr std::uint32_t word(std::uint32_t row, std::uint32_t time, std::uint32_t unit) const {
    return words(row, time, unit / 4)[unit % 4];
  }
};

/// Where a leaf has its DropoutKey from. The step is a number on the device, so that a captured
/// pass can be run again at another step.
struct DropoutSource {
  std::uint64_t seed = 0;
  const std::int32_t* step = nullptr;  ///< on the device; null: step 0
  std::uint32_t stream = 0;

  /// The same for another operation, whose stream id is greater by `offset`.
  constexpr DropoutSource shifted(std::uint32_t offset) const {
    return {seed, step, stream + offset};
  }
  /// Only for kernels and launched functions: reads the step.
  constexpr DropoutKey key() const {
    return {seed, step == nullptr ? 0 : static_cast<std::uint32_t>(*step), stream};
  }
};

/// Keep an element with probability 1 - rate: the word is compared with a fixed threshold, so the
/// same on every device.
constexpr std::uint32_t dropout_threshold(double rate) {
  return static_cast<std::uint32_t>(rate * 4294967296.0);
}

}  // namespace sluice::runtime
