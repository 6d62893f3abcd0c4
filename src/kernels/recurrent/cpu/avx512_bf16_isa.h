#pragma once

#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/cpu/vector_avx512.h"

/// bfloat16 storage on AVX512_BF16. For files compiled with -mavx512f -mavx512bw -mavx512vl
/// -mavx512bf16 only.
namespace sluice::kernels::recurrent::cpu {
namespace {

/// Sixteen pairs of bfloat16; _mm512_dpbf16_ps adds both products of a pair to the pair's sum.
struct Bf16Pairs {
  __m512i value;
};

/// See leaf_tile.h.
struct Avx512Bf16Isa {
  using T = base::BFloat16;
  using Vector = Avx512Vector;
  using Word = Bf16Pairs;
  static constexpr int kStep = 2;
  static constexpr int kDepthUnit = 2;
  static constexpr int kRegisters = 32;

  static Word broadcast(const T* a) {
    int pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return {_mm512_set1_epi32(pair)};
  }
  static Word broadcast_last(const T* a) { return {_mm512_set1_epi32(a->bits)}; }
  static Word weights(const T* packed) { return {_mm512_loadu_si512(packed)}; }
  static Vector multiply_add(Word a, Word w, Vector sum) {
    return Vector(_mm512_dpbf16_ps(sum.value, (__m512bh)a.value, (__m512bh)w.value));
  }

  static Vector load(const T* from, int count) {
    const __m256i bits = _mm256_maskz_loadu_epi16(Vector::mask(count), from);
    return Vector(_mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(kAllLanes, _mm512_maskz_cvtepu16_epi32(kAllLanes, bits), 16)));
  }
  static void store(T* to, Vector value, int count) {
    _mm256_mask_storeu_epi16(to, Vector::mask(count), (__m256i)_mm512_cvtneps_pbh(value.value));
  }
  static void store_packed(T* to, const float* rows) {
    const Word first = widen(Vector::load(rows));
    const Word second = widen(Vector::load(rows + kPanel));
    _mm512_storeu_si512(
        to, _mm512_or_si512(first.value, _mm512_maskz_slli_epi32(kAllLanes, second.value, 16)));
  }

 private:
  /// Rounded to bfloat16, each in the low half of its lane.
  static Word widen(Vector value) {
    return {_mm512_maskz_cvtepu16_epi32(kAllLanes, (__m256i)_mm512_cvtneps_pbh(value.value))};
  }
};

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
