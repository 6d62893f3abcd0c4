#pragma once

#include <immintrin.h>

#include "kernels/recurrent/cpu/activations.h"

/// Eight float32 in an AVX register. For files compiled with -mavx2 -mfma only.
namespace sluice::kernels::recurrent::cpu {

// Internal linkage: every file that includes this is compiled with flags of its own, and the linker
// must not take one file's copy of a function for another's.
namespace {

struct Avx2Vector {
  static constexpr int kWidth = 8;

  __m256 value;

  Avx2Vector() = default;
  explicit Avx2Vector(float x) : value(_mm256_set1_ps(x)) {}
  explicit Avx2Vector(__m256 x) : value(x) {}

  static Avx2Vector load(const float* from) { return Avx2Vector(_mm256_loadu_ps(from)); }
  /// The first `count` of `from`, then zeros; nothing past them is read.
  static Avx2Vector load(const float* from, int count) {
    return Avx2Vector(_mm256_maskload_ps(from, mask(count).lanes));
  }
  void store(float* to) const { _mm256_storeu_ps(to, value); }
  void store(float* to, int count) const { _mm256_maskstore_ps(to, mask(count).lanes, value); }
  /// With zero from lane `count` on.
  Avx2Vector keep(int count) const {
    return Avx2Vector(_mm256_and_ps(value, _mm256_castsi256_ps(mask(count).lanes)));
  }

  struct Mask {
    __m256i lanes;
  };
  static Mask mask(int count) {
    return {
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))};
  }
};

inline Avx2Vector operator+(Avx2Vector a, Avx2Vector b) {
  return Avx2Vector(_mm256_add_ps(a.value, b.value));
}
inline Avx2Vector operator-(Avx2Vector a, Avx2Vector b) {
  return Avx2Vector(_mm256_sub_ps(a.value, b.value));
}
inline Avx2Vector operator*(Avx2Vector a, Avx2Vector b) {
  return Avx2Vector(_mm256_mul_ps(a.value, b.value));
}
/// a * b + c
inline Avx2Vector multiply_add(Avx2Vector a, Avx2Vector b, Avx2Vector c) {
  return Avx2Vector(_mm256_fmadd_ps(a.value, b.value, c.value));
}
/// c - a * b
inline Avx2Vector negative_multiply_add(Avx2Vector a, Avx2Vector b, Avx2Vector c) {
  return Avx2Vector(_mm256_fnmadd_ps(a.value, b.value, c.value));
}
inline Avx2Vector reciprocal(Avx2Vector a) {
  return Avx2Vector(_mm256_div_ps(_mm256_set1_ps(1.0f), a.value));
}
inline Avx2Vector minimum(Avx2Vector a, Avx2Vector b) {
  return Avx2Vector(_mm256_min_ps(a.value, b.value));
}
inline Avx2Vector maximum(Avx2Vector a, Avx2Vector b) {
  return Avx2Vector(_mm256_max_ps(a.value, b.value));
}
inline Avx2Vector absolute(Avx2Vector a) {
  return Avx2Vector(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.value));
}
/// The magnitude of a, which is not negative, with the sign of b.
inline Avx2Vector copy_sign(Avx2Vector a, Avx2Vector b) {
  return Avx2Vector(_mm256_or_ps(a.value, _mm256_and_ps(_mm256_set1_ps(-0.0f), b.value)));
}
inline Avx2Vector round_to_integer(Avx2Vector a) {
  return Avx2Vector(_mm256_round_ps(a.value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// 2^n for whole n in [-126, 127].
inline Avx2Vector power_of_two(Avx2Vector n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.value), _mm256_set1_epi32(127));
  return Avx2Vector(_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

/// The greater of x and 0; NaN if x is.
inline Avx2Vector relu(Avx2Vector x) { return maximum(Avx2Vector(0.0f), x); }
/// value where x is positive, else 0.
inline Avx2Vector where_positive(Avx2Vector x, Avx2Vector value) {
  const __m256 positive = _mm256_cmp_ps(x.value, _mm256_setzero_ps(), _CMP_GT_OQ);
  return Avx2Vector(_mm256_and_ps(positive, value.value));
}

inline Avx2Vector sigmoid(Avx2Vector x) { return sigmoid_of(x); }
inline Avx2Vector tanh(Avx2Vector x) { return tanh_of(x); }

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
