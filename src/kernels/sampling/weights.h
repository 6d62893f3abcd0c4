#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/sampling/sampling.h"
#include "runtime/rng.h"

/// The arithmetic that all leaves share, so that they draw the same: a token's weight is an integer
/// that follows from logits alone. Functions here work in device code as well.
namespace sluice::kernels::sampling {

/// Bits of the largest weight, which is 2^40 itself, and the most tokens whose sum fits.
inline constexpr int kWeightBits = 40;
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 23;

/// floor(2^40 * 2^-(distance / 2^32)) but for a relative error of 2^-29: a polynomial for the
/// fraction (of degree 7, through the Chebyshev nodes of [0, 1]) and a shift for the rest.
constexpr std::uint64_t power_of_half(std::uint64_t distance) {
  const std::uint64_t whole = distance >> 32;
  if (whole > kWeightBits) return 0;
  const std::uint64_t fraction = distance & 0xffffffffu;
  constexpr std::uint64_t kCoefficients[] = {0x100000000, 0xb17217e7, 0x3d7f7aa6, 0x0e357996,
                                             0x02762a6d,  0x005704af, 0x0009a6a6, 0x0000b58d};
  std::uint64_t power = kCoefficients[7];
  for (int k = 6; k >= 0; --k) power = kCoefficients[k] - ((power * fraction) >> 32);
  return (power << (kWeightBits - 32)) >> whole;
}

/// The weight of a logit that is at most `largest`; the scale is Distribution's. One subtraction
/// and one product, which no compiler fuses, then integers.
template <typename T>
constexpr std::uint64_t weight(T logit, T largest, double scale) {
  constexpr double kNothing = static_cast<double>(std::uint64_t{kWeightBits + 1} << 32);
  const double distance = (static_cast<double>(largest) - static_cast<double>(logit)) * scale;
  return distance < kNothing ? power_of_half(static_cast<std::uint64_t>(distance)) : 0;
}

/// The upper half of a 128-bit product.
constexpr std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kLow = 0xffffffffu;
  const std::uint64_t low = (a & kLow) * (b & kLow);
  const std::uint64_t cross = (a >> 32) * (b & kLow) + (low >> 32);
  const std::uint64_t other = (a & kLow) * (b >> 32) + (cross & kLow);
  return (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32);
}

/// Rules as numbers for the arithmetic above.
struct Distribution {
  static constexpr double kUnitScale = 0x1.71547652b82fep+32;

  double scale;         ///< of distances between logits: 2^32 * log2(e) / temperature
  std::uint64_t top_k;  ///< 0: all
  std::uint64_t top_p;  ///< of 2^32

  explicit Distribution(const Rules& rules)
      : scale(rules.temperature > 0 ? std::min(kUnitScale / rules.temperature, 0x1p1000)
                                    : kUnitScale),
        top_k(rules.temperature > 0 ? static_cast<std::uint64_t>(rules.top_k) : 1),
        top_p(static_cast<std::uint64_t>(rules.top_p * 0x1p32)) {}

  constexpr bool is_cut() const { return top_p < std::uint64_t{1} << 32; }
  /// The least mass that counts as top_p of `total`; at least 1 if that is.
  constexpr std::uint64_t part_of(std::uint64_t total) const {
    const std::uint64_t part =
        (total >> 32) * top_p + (((total & 0xffffffffu) * top_p + 0xffffffffu) >> 32);
    return part > 0 ? part : 1;
  }
};

/// A number on [0, total) for one draw.
constexpr std::uint64_t draw(std::uint64_t seed, std::uint32_t input_id, std::uint32_t sample,
                             std::uint32_t step, std::uint64_t total) {
  // Of all that draws random numbers by a counter only this has that last word.
  constexpr std::uint32_t kStream = 0x53414d50;
  const auto words = runtime::philox(seed, {step, sample, input_id, kStream});
  return high_product(std::uint64_t{words[1]} << 32 | words[0], total);
}

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Of two logits that aren't NaN the larger has the larger bits; zeros are equal. Never 0.
template <typename T>
constexpr BitsOf<T> ordered_bits(T logit) {
  using Bits = BitsOf<T>;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
  const auto bits = std::bit_cast<Bits>(logit + T{0});  // -0 becomes 0
  return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
}
/// The inverse.
template <typename T>
constexpr T logit_of(BitsOf<T> ordered) {
  using Bits = BitsOf<T>;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
  return std::bit_cast<T>((ordered & kSign) != 0 ? static_cast<Bits>(ordered & ~kSign)
                                                 : static_cast<Bits>(~ordered));
}

/// The tokens that are left to draw from: those above a logit, and at it the first few.
template <typename T>
struct Kept {
  BitsOf<T> bits = 0;      ///< ordered; 0: all are above
  std::uint64_t ties = 0;  ///< how many of those at it
};

/// Mass of some tokens in row: of those above Kept's logit, and how many are at it.
struct Mass {
  std::uint64_t above, ties;

  /// With at most `most_ties` of those at it, each of `tie_weight`.
  constexpr std::uint64_t total(std::uint64_t most_ties, std::uint64_t tie_weight) const {
    return above + (ties < most_ties ? ties : most_ties) * tie_weight;
  }
};

/// Which tokens may follow.
struct Allowed {
  std::int32_t only;  ///< this and nothing else; -1: what is not ruled out below
  std::int32_t pad, bos, eos, unknown;
  bool eos_too;

  /// `forced` is the prefix's token, or -1; `before` counts the tokens that the sample has.
  constexpr Allowed(const Rules& rules, std::int32_t forced, std::int64_t before, bool at_end)
      : only(at_end ? rules.eos : forced),
        pad(rules.pad),
        bos(rules.bos),
        eos(rules.eos),
        unknown(rules.unknown),
        eos_too(before >= rules.min_length) {}

  constexpr bool operator()(std::int32_t token) const {
    if (token == eos) return eos_too;
    return token != pad && token != bos && token != unknown;
  }
  /// Of a vocabulary that holds eos.
  constexpr std::uint64_t count(std::int64_t vocabulary) const {
    const auto ruled_out = [&](std::int32_t token) {
      return token >= 0 && token < vocabulary && token != eos ? 1 : 0;
    };
    std::int64_t out = (eos_too ? 0 : 1) + ruled_out(pad);
    if (bos != pad) out += ruled_out(bos);
    if (unknown != pad && unknown != bos) out += ruled_out(unknown);
    return static_cast<std::uint64_t>(vocabulary - out);
  }
};

}  // namespace sluice::kernels::sampling
