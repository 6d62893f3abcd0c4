#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/rng.h"

/// The arithmetic of draws without replacement: "Stochastic Beams and Where to Find Them" (Kool et
/// al. 2019). Functions here work in device code as well; templates, since such functions of the
/// standard library are no constant expressions.
namespace sluice::kernels::beam_search {

/// Key of a prefix's noise. A row of an input at a step is one prefix, so each token of each prefix
/// gets a number of its own.
struct NoiseKey {
  std::uint64_t seed;
  std::uint32_t input_id, step, row;  ///< row of the input; less than 2^12, as steps than 2^20
};

/// A number with Gumbel's distribution, -log(-log(u)) with u on (0, 1).
template <typename Real = double>
constexpr Real gumbel(const NoiseKey& key, std::uint32_t token) {
  // No other use of the generator has this last word.
  constexpr std::uint32_t kStream = 0x47554d42;
  const auto words =
      runtime::philox(key.seed, {token / 2, key.step << 12 | key.row, key.input_id, kStream});
  const std::uint32_t high = token % 2 == 0 ? words[1] : words[3];
  const std::uint32_t low = token % 2 == 0 ? words[0] : words[2];
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  const Real u = (static_cast<Real>(bits >> 12) + Real{0.5}) * Real{0x1p-52};
  return -std::log(-std::log(u));
}

/// The perturbed log q of the empty prefix.
template <typename Real = double>
constexpr Real first_noise(std::uint64_t seed, std::uint32_t input_id) {
  return gumbel<Real>({seed, input_id, 0, 0}, 0xffffffffu);
}

/// log(1 - exp(x)) of x <= 0 (Mächler 2012, "Accurately computing log(1 - exp(-|a|))").
template <typename Real>
constexpr Real log1mexp(Real x) {
  constexpr Real kMinusLog2 = -0.693147180559945309;
  return x > kMinusLog2 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

/// `value`, the largest of whose kind is `largest`, once the largest is to be `maximum` (Kool et
/// al., appendix B.3): grows with `value`, and makes `maximum` of `largest`.
template <typename Real>
constexpr Real given_maximum(Real value, Real largest, Real maximum) {
  const Real v = maximum - value + log1mexp(value - largest);
  const Real positive = v > 0 ? v : Real{0};
  return maximum - positive - std::log1p(std::exp(-std::abs(v)));
}

}  // namespace sluice::kernels::beam_search
