#pragma once

#include <immintrin.h>

#include "kernels/recurrent/cpu/activations.h"

/// Sixteen float32 in an AVX-512 register. For files compiled with -mavx512f only.
namespace sluice::kernels::recurrent::cpu {

// Internal linkage: every file that includes this is compiled with flags of its own, and the linker
// must not take one file's copy of a function for another's.
namespace {

// GCC 12 warns of an uninitialised register inside the forms without a mask.
inline constexpr __mmask16 kAllLanes = 0xffff;

/// kFast: sigmoid and tanh only as exact as 16-bit storage can tell (avx512_bf16_isa.h).
template <bool kFast>
struct Avx512Lanes {
  static constexpr int kWidth = 16;

  __m512 value;

  Avx512Lanes() = default;
  explicit Avx512Lanes(float x) : value(_mm512_set1_ps(x)) {}
  explicit Avx512Lanes(__m512 x) : value(x) {}

  static Avx512Lanes load(const float* from) { return Avx512Lanes(_mm512_loadu_ps(from)); }
  /// The first `count` of `from`, then zeros; nothing past them is read.
  static Avx512Lanes load(const float* from, int count) {
    return Avx512Lanes(_mm512_maskz_loadu_ps(mask(count), from));
  }
  void store(float* to) const { _mm512_storeu_ps(to, value); }
  void store(float* to, int count) const { _mm512_mask_storeu_ps(to, mask(count), value); }
  /// With zero from lane `count` on.
  Avx512Lanes keep(int count) const { return Avx512Lanes(_mm512_maskz_mov_ps(mask(count), value)); }

  static __mmask16 mask(int count) {
    return static_cast<__mmask16>(count >= kWidth ? 0xffffu : (1u << count) - 1u);
  }
};

using Avx512Vector = Avx512Lanes<false>;

template <bool kFast>
inline Avx512Lanes<kFast> operator+(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b) {
  return Avx512Lanes<kFast>(_mm512_add_ps(a.value, b.value));
}
template <bool kFast>
inline Avx512Lanes<kFast> operator-(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b) {
  return Avx512Lanes<kFast>(_mm512_sub_ps(a.value, b.value));
}
template <bool kFast>
inline Avx512Lanes<kFast> operator*(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b) {
  return Avx512Lanes<kFast>(_mm512_mul_ps(a.value, b.value));
}
/// a * b + c
template <bool kFast>
inline Avx512Lanes<kFast> multiply_add(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b,
                                       Avx512Lanes<kFast> c) {
  return Avx512Lanes<kFast>(_mm512_fmadd_ps(a.value, b.value, c.value));
}
/// c - a * b
template <bool kFast>
inline Avx512Lanes<kFast> negative_multiply_add(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b,
                                                Avx512Lanes<kFast> c) {
  return Avx512Lanes<kFast>(_mm512_fnmadd_ps(a.value, b.value, c.value));
}
/// 1 / a to a unit in the last place, for a and 1 / a that are normal numbers: a table and one step
/// of Newton's, for a division holds the processor up longer.
template <bool kFast>
inline Avx512Lanes<kFast> reciprocal(Avx512Lanes<kFast> a) {
  const Avx512Lanes<kFast> guess(_mm512_maskz_rcp14_ps(kAllLanes, a.value));
  return multiply_add(guess, negative_multiply_add(a, guess, Avx512Lanes<kFast>(1.0f)), guess);
}
template <bool kFast>
inline Avx512Lanes<kFast> minimum(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b) {
  return Avx512Lanes<kFast>(_mm512_maskz_min_ps(kAllLanes, a.value, b.value));
}
template <bool kFast>
inline Avx512Lanes<kFast> maximum(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b) {
  return Avx512Lanes<kFast>(_mm512_maskz_max_ps(kAllLanes, a.value, b.value));
}
template <bool kFast>
inline Avx512Lanes<kFast> absolute(Avx512Lanes<kFast> a) {
  return Avx512Lanes<kFast>(_mm512_abs_ps(a.value));
}
/// The magnitude of a, which is not negative, with the sign of b.
template <bool kFast>
inline Avx512Lanes<kFast> copy_sign(Avx512Lanes<kFast> a, Avx512Lanes<kFast> b) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return Avx512Lanes<kFast>(_mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_castps_si512(a.value), _mm512_castps_si512(b.value), sign, 0xf8)));  // a | (b & sign)
}
template <bool kFast>
inline Avx512Lanes<kFast> round_to_integer(Avx512Lanes<kFast> a) {
  return Avx512Lanes<kFast>(_mm512_maskz_roundscale_ps(
      kAllLanes, a.value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// 2^n for whole n.
template <bool kFast>
inline Avx512Lanes<kFast> power_of_two(Avx512Lanes<kFast> n) {
  return Avx512Lanes<kFast>(_mm512_maskz_scalef_ps(kAllLanes, _mm512_set1_ps(1.0f), n.value));
}

/// The greater of x and 0; NaN if x is.
template <bool kFast>
inline Avx512Lanes<kFast> relu(Avx512Lanes<kFast> x) {
  return maximum(Avx512Lanes<kFast>(0.0f), x);
}
/// value where x is positive, else 0.
template <bool kFast>
inline Avx512Lanes<kFast> where_positive(Avx512Lanes<kFast> x, Avx512Lanes<kFast> value) {
  const __mmask16 positive = _mm512_cmp_ps_mask(x.value, _mm512_set1_ps(0.0f), _CMP_GT_OQ);
  return Avx512Lanes<kFast>(_mm512_maskz_mov_ps(positive, value.value));
}

inline Avx512Vector sigmoid(Avx512Vector x) { return sigmoid_of(x); }
inline Avx512Vector tanh(Avx512Vector x) { return tanh_of(x); }

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
