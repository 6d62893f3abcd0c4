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

struct Avx512Vector {
  static constexpr int kWidth = 16;

  __m512 value;

  Avx512Vector() = default;
  explicit Avx512Vector(float x) : value(_mm512_set1_ps(x)) {}
  explicit Avx512Vector(__m512 x) : value(x) {}

  static Avx512Vector load(const float* from) { return Avx512Vector(_mm512_loadu_ps(from)); }
  /// The first `count` of `from`, then zeros; nothing past them is read.
  static Avx512Vector load(const float* from, int count) {
    return Avx512Vector(_mm512_maskz_loadu_ps(mask(count), from));
  }
  void store(float* to) const { _mm512_storeu_ps(to, value); }
  void store(float* to, int count) const { _mm512_mask_storeu_ps(to, mask(count), value); }
  /// With zero from lane `count` on.
  Avx512Vector keep(int count) const {
    return Avx512Vector(_mm512_maskz_mov_ps(mask(count), value));
  }

  static __mmask16 mask(int count) {
    return static_cast<__mmask16>(count >= kWidth ? 0xffffu : (1u << count) - 1u);
  }
};

inline Avx512Vector operator+(Avx512Vector a, Avx512Vector b) {
  return Avx512Vector(_mm512_add_ps(a.value, b.value));
}
inline Avx512Vector operator-(Avx512Vector a, Avx512Vector b) {
  return Avx512Vector(_mm512_sub_ps(a.value, b.value));
}
inline Avx512Vector operator*(Avx512Vector a, Avx512Vector b) {
  return Avx512Vector(_mm512_mul_ps(a.value, b.value));
}
/// a * b + c
inline Avx512Vector multiply_add(Avx512Vector a, Avx512Vector b, Avx512Vector c) {
  return Avx512Vector(_mm512_fmadd_ps(a.value, b.value, c.value));
}
/// c - a * b
inline Avx512Vector negative_multiply_add(Avx512Vector a, Avx512Vector b, Avx512Vector c) {
  return Avx512Vector(_mm512_fnmadd_ps(a.value, b.value, c.value));
}
/// 1 / a to a unit in the last place, for a and 1 / a that are normal numbers: a table and one step
/// of Newton's, for a division holds the processor up longer.
inline Avx512Vector reciprocal(Avx512Vector a) {
  const Avx512Vector guess(_mm512_maskz_rcp14_ps(kAllLanes, a.value));
  return multiply_add(guess, negative_multiply_add(a, guess, Avx512Vector(1.0f)), guess);
}
inline Avx512Vector minimum(Avx512Vector a, Avx512Vector b) {
  return Avx512Vector(_mm512_maskz_min_ps(kAllLanes, a.value, b.value));
}
inline Avx512Vector maximum(Avx512Vector a, Avx512Vector b) {
  return Avx512Vector(_mm512_maskz_max_ps(kAllLanes, a.value, b.value));
}
inline Avx512Vector absolute(Avx512Vector a) { return Avx512Vector(_mm512_abs_ps(a.value)); }
/// The magnitude of a, which is not negative, with the sign of b.
inline Avx512Vector copy_sign(Avx512Vector a, Avx512Vector b) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return Avx512Vector(_mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_castps_si512(a.value), _mm512_castps_si512(b.value), sign, 0xf8)));  // a | (b & sign)
}
inline Avx512Vector round_to_integer(Avx512Vector a) {
  return Avx512Vector(_mm512_maskz_roundscale_ps(kAllLanes, a.value,
                                                 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// 2^n for whole n.
inline Avx512Vector power_of_two(Avx512Vector n) {
  return Avx512Vector(_mm512_maskz_scalef_ps(kAllLanes, _mm512_set1_ps(1.0f), n.value));
}

inline Avx512Vector sigmoid(Avx512Vector x) { return sigmoid_of(x); }
inline Avx512Vector tanh(Avx512Vector x) { return tanh_of(x); }

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
