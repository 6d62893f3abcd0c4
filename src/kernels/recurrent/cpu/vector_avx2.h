#pragma once

#include <immintrin.h>

#include "kernels/recurrent/cpu/activations.h"

/// Sixteen float32 in two AVX registers. For files compiled with -mavx2 -mfma only.
namespace sluice::kernels::recurrent::cpu {

// Internal linkage: every file that includes this is compiled with flags of its own, and the linker
// must not take one file's copy of a function for another's.
namespace {

/// A panel's width. The two halves are independent, so that a cell, whose operations wait for each
/// other, keeps the processor twice as busy as one register would.
struct Avx2Vector {
  static constexpr int kWidth = 16;
  static constexpr int kHalf = 8;

  __m256 low, high;

  Avx2Vector() = default;
  explicit Avx2Vector(float x) : low(_mm256_set1_ps(x)), high(low) {}
  Avx2Vector(__m256 first, __m256 second) : low(first), high(second) {}

  static Avx2Vector load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + kHalf)};
  }
  /// The first `count` of `from`, then zeros; nothing past them is read.
  static Avx2Vector load(const float* from, int count) {
    if (count == kWidth) return load(from);
    return {_mm256_maskload_ps(from, mask(count)),
            _mm256_maskload_ps(from + kHalf, mask(count - kHalf))};
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + kHalf, high);
  }
  /// A masked store takes some AMD processors ten times as long as a whole one.
  void store(float* to, int count) const {
    if (count == kWidth) return store(to);
    _mm256_maskstore_ps(to, mask(count), low);
    _mm256_maskstore_ps(to + kHalf, mask(count - kHalf), high);
  }
  /// With zero from lane `count` on.
  Avx2Vector keep(int count) const {
    return {_mm256_and_ps(low, _mm256_castsi256_ps(mask(count))),
            _mm256_and_ps(high, _mm256_castsi256_ps(mask(count - kHalf)))};
  }

 private:
  static __m256i mask(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

inline Avx2Vector operator+(Avx2Vector a, Avx2Vector b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Avx2Vector operator-(Avx2Vector a, Avx2Vector b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Avx2Vector operator*(Avx2Vector a, Avx2Vector b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
/// a * b + c
inline Avx2Vector multiply_add(Avx2Vector a, Avx2Vector b, Avx2Vector c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
/// c - a * b
inline Avx2Vector negative_multiply_add(Avx2Vector a, Avx2Vector b, Avx2Vector c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
inline Avx2Vector reciprocal(Avx2Vector a) {
  const __m256 one = _mm256_set1_ps(1.0f);
  return {_mm256_div_ps(one, a.low), _mm256_div_ps(one, a.high)};
}
inline Avx2Vector minimum(Avx2Vector a, Avx2Vector b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Avx2Vector maximum(Avx2Vector a, Avx2Vector b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Avx2Vector absolute(Avx2Vector a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
/// The magnitude of a, which is not negative, with the sign of b.
inline Avx2Vector copy_sign(Avx2Vector a, Avx2Vector b) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(a.low, _mm256_and_ps(sign, b.low)),
          _mm256_or_ps(a.high, _mm256_and_ps(sign, b.high))};
}
inline __m256 round_half(__m256 a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Avx2Vector round_to_integer(Avx2Vector a) { return {round_half(a.low), round_half(a.high)}; }
inline __m256 power_of_two_half(__m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
/// 2^n for whole n in [-126, 127].
inline Avx2Vector power_of_two(Avx2Vector n) {
  return {power_of_two_half(n.low), power_of_two_half(n.high)};
}

/// The greater of x and 0; NaN if x is.
inline Avx2Vector relu(Avx2Vector x) { return maximum(Avx2Vector(0.0f), x); }
inline __m256 where_positive_half(__m256 x, __m256 value) {
  return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ), value);
}
/// value where x is positive, else 0.
inline Avx2Vector where_positive(Avx2Vector x, Avx2Vector value) {
  return {where_positive_half(x.low, value.low), where_positive_half(x.high, value.high)};
}

inline Avx2Vector sigmoid(Avx2Vector x) { return sigmoid_of(x); }
inline Avx2Vector tanh(Avx2Vector x) { return tanh_of(x); }

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
