#pragma once

#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/cpu/vector_avx512.h"

/// bfloat16 storage on AVX512_BF16. For files compiled with -mavx512f -mavx512bw -mavx512dq
/// -mavx512vl -mavx512bf16 only.
namespace sluice::kernels::recurrent::cpu {
namespace {

using FastVector = Avx512Lanes<true>;

/// 2^floor(t) * p(t - floor(t)): 2^t with p a polynomial for 2^r on [0, 1) that is 1 at 0 (minimax
/// fits). t may be infinite.
inline FastVector scaled(FastVector p, FastVector t) {
  return FastVector(_mm512_maskz_scalef_ps(kAllLanes, p.value, t.value));
}
inline FastVector fraction(FastVector t) {
  constexpr int kFromBelow = 0x09;  // no exceptions, rounded down
  return FastVector(_mm512_maskz_reduce_ps(kAllLanes, t.value, kFromBelow));
}

/// Relative error below 2^-13.9, mostly the table's: bfloat16 rounds at 2^-9.
inline FastVector sigmoid(FastVector x) {
  const FastVector t = x * FastVector(-1.44269504f);
  const FastVector r = fraction(t);
  FastVector p = FastVector(0.013426684774458408f);  // off by 2.9e-6
  p = multiply_add(p, r, FastVector(0.052242472767829895f));
  p = multiply_add(p, r, FastVector(0.2412802129983902f));
  p = multiply_add(p, r, FastVector(0.6930448412895203f));
  p = multiply_add(p, r, FastVector(1.0f));
  const FastVector sum = FastVector(1.0f) + scaled(p, t);
  return FastVector(_mm512_maskz_rcp14_ps(kAllLanes, sum.value));
}

/// tanh|x| = (1 - e) / (1 + e) with e = e^(-2|x|). Absolute error below 3e-7.
inline FastVector tanh(FastVector x) {
  const FastVector t = absolute(x) * FastVector(-2.88539008f);
  const FastVector r = fraction(t);
  FastVector p = FastVector(0.0018671301659196615f);  // off by 8.3e-8
  p = multiply_add(p, r, FastVector(0.009017029777169228f));
  p = multiply_add(p, r, FastVector(0.05579991266131401f));
  p = multiply_add(p, r, FastVector(0.24016444385051727f));
  p = multiply_add(p, r, FastVector(0.6931512951850891f));
  p = multiply_add(p, r, FastVector(1.0f));
  const FastVector e = scaled(p, t);
  const FastVector one(1.0f);
  return copy_sign((one - e) * reciprocal(one + e), x);
}

/// Sixteen pairs of bfloat16; _mm512_dpbf16_ps adds both products of a pair to the pair's sum.
struct Bf16Pairs {
  __m512i value;
};

/// See leaf_tile.h.
struct Avx512Bf16Isa {
  using T = base::BFloat16;
  using Vector = FastVector;
  using Word = Bf16Pairs;
  static constexpr int kStep = 2;
  static constexpr int kDepthUnit = 2;
  static constexpr bool kBlocksApart = false;
  static constexpr int kPrefetchLevel = 1;
  static constexpr int kRegisters = 32;
  static constexpr int kVectorRegisters = 1;
  static constexpr int kTileColumns = 4;
  static constexpr std::int64_t kGoodRows = 64;
  static constexpr std::int64_t kOwnRows = 8;

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
