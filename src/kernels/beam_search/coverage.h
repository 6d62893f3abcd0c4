#pragma once

#include <cmath>

namespace sluice::kernels::beam_search {

/// A source token's part of the coverage penalty, at most 0. A weight that float32 has rounded to
/// nothing must not rule a hypothesis out: what is below the least normal number counts as that.
/// Works in device code as well.
template <typename Real>
constexpr Real coverage_of(Real attention_sum) {
  if (attention_sum >= 1) return 0;
  constexpr Real kLeast = 0x1p-126;
  return std::log(attention_sum > kLeast ? attention_sum : kLeast);
}

}  // namespace sluice::kernels::beam_search
