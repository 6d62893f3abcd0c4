#pragma once

/// sigmoid and tanh of a register of float32, for the vector types written with intrinsics.
///
/// V is a vector type of one instruction set (vector_avx512.h, vector_avx2.h). Both functions keep
/// NaN. Errors against the exact value, measured over all exponents by leaf_test: below 3 units in
/// the last place; a sigmoid smaller than 1.7e-38 (x < -87) is returned as about 1.6e-38.
namespace sluice::kernels::recurrent::cpu {

/// e^x split as 2^n (1 + m) with |log(1 + m)| <= log(2)/2.
template <class V>
struct SplitExponential {
  V scale;     ///< 2^n
  V mantissa;  ///< m, with a relative error below one unit even when it is small
};

/// For |x| <= 87.
template <class V>
[[gnu::always_inline]] inline SplitExponential<V> split_exponential(V x) {
  // log(2) in two parts, so that n * log(2) is exact to float32 after two fused steps.
  const V high = V(0.693145751953125f);
  const V low = V(1.42860682e-6f);
  const V n = round_to_integer(x * V(1.44269504f));
  const V r = negative_multiply_add(n, low, negative_multiply_add(n, high, x));
  // (e^r - 1 - r) / r^2 on [-log(2)/2, log(2)/2]: Chebyshev fit of degree 4. It is off by
  // 2.3e-8 of e^r - 1 at most.
  V p = V(0.00139261835877f);
  p = multiply_add(p, r, V(0.00836317905272f));
  p = multiply_add(p, r, V(0.0416665546172f));
  p = multiply_add(p, r, V(0.166665769897f));
  p = multiply_add(p, r, V(0.5f));
  return {power_of_two(n), multiply_add(p, r * r, r)};
}

template <class V>
[[gnu::always_inline]] inline V sigmoid_of(V x) {
  const V one = V(1.0f);
  // The limits come first: an x86 minimum or maximum with a NaN returns its second operand.
  const V bounded = minimum(V(87.0f), maximum(V(-87.0f), V(0.0f) - x));
  const SplitExponential<V> e = split_exponential(bounded);
  return reciprocal(one + multiply_add(e.scale, e.mantissa, e.scale));
}

template <class V>
[[gnu::always_inline]] inline V tanh_of(V x) {
  // tanh|x| = -m / (2 + m) with m = e^(-2|x|) - 1, which stays accurate for small x. From 9.02 on
  // it rounds to 1.
  const V magnitude = minimum(V(10.0f), absolute(x));
  const SplitExponential<V> e = split_exponential(magnitude * V(-2.0f));
  const V m = multiply_add(e.scale, e.mantissa, e.scale - V(1.0f));
  return copy_sign((V(0.0f) - m) * reciprocal(V(2.0f) + m), x);
}

}  // namespace sluice::kernels::recurrent::cpu
