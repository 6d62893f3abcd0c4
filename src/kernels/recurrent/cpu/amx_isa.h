#pragma once

#include "kernels/recurrent/cpu/amx_input.h"
#include "kernels/recurrent/cpu/avx512_bf16_isa.h"
#include "kernels/recurrent/cpu/avx512_f32_isa.h"

/// Storage types on tile registers. For files compiled for AVX512_BF16 only, see avx512_bf16_isa.h.
namespace sluice::kernels::recurrent::cpu {
namespace {

/// bfloat16: in the packed layout of LeafBody a block's unit of the depth is a tile of weights.
struct AmxBf16Isa : Avx512Bf16Isa {
  using Input = StoredInput<Avx512Bf16Isa>;
  static constexpr int kDepthUnit = kTileDepth;  // the last tile of weights is whole
  static constexpr int kPhaseCount = 1;
  static constexpr Phase kPhases[] = {{0, 0}};

  // Below this many rows a tile is mostly empty, and vectors stream the weights as fast.
  static constexpr std::int64_t kFewRows = 4;
  // Tiles do some 1000 GFLOP/s while L3 brings a core some 10 GB/s of weights, and a
  // byte of them takes part in one operation a row: well over 100 rows hide the reading.
  static constexpr std::int64_t kGoodRows = 256;
  static constexpr std::int64_t kOwnRows = 128;

  static constexpr std::int64_t tile_offset(int block, int) { return block * kPanel * kDepthUnit; }
};

/// float32 by way of bfloat16: x = x0 + x1 + x2, each part the rest rounded to 8 bits, holds all 24
/// bits, and the six products x0*w0, x0*w1, x1*w0, x1*w1, x0*w2, x2*w0 leave out less than 2^-25 of
/// a product, as much as float32 rounds away. Tiles are sixteen times as fast as vectors, so six
/// products still win. Not for what bfloat16 can't hold: parts below 2^-126 become zero (a value
/// under 2^-110 loses bits), infinities and values above 3.38e38 become NaN.
///
/// Packed layout: [panel][depth / 32][block][part][16 pairs of the depth][16 units][2].
struct AmxF32Isa : Avx512F32Isa {
  struct SplitDepth : Avx512F32Isa {
    static constexpr int kDepthUnit = kTileDepth;
    static constexpr int kParts = 3;
    /// 1 to 32 floats, the rest zero, to one row of each part's tile.
    static void split(const float* from, int count, std::uint8_t* to) {
      const Vector upper =
          count > kPanel ? Vector::load(from + kPanel, count - kPanel) : Vector(0.0f);
      split_pair(Vector::load(from, count), upper, to);
    }
    static void split_pair(Vector low, Vector high, std::uint8_t* to) {
#pragma GCC unroll 3
      for (int part = 0; part < kParts; ++part, to += kTileBytes) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(low.value));
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + 32),
                           (__m256i)_mm512_cvtneps_pbh(high.value));
        low = low - rounded(low);
        high = high - rounded(high);
      }
    }
    /// To bfloat16, and back.
    static Vector rounded(Vector value) {
      const __m256i bits = (__m256i)_mm512_cvtneps_pbh(value.value);
      return Vector(_mm512_castsi512_ps(
          _mm512_maskz_slli_epi32(kAllLanes, _mm512_maskz_cvtepu16_epi32(kAllLanes, bits), 16)));
    }
  };

  using Input = SplitInput<SplitDepth>;
  static constexpr int kParts = SplitDepth::kParts;
  static constexpr int kDepthUnit = kTileDepth;
  static constexpr int kPhaseCount = 6;
  // In an order that loads few tiles anew.
  static constexpr Phase kPhases[] = {{0, 2}, {0, 1}, {0, 0}, {2, 0}, {1, 0}, {1, 1}};

  static constexpr std::int64_t kFewRows = 1;
  static constexpr std::int64_t kGoodRows = 256;
  static constexpr std::int64_t kOwnRows = 128;

  static constexpr std::int64_t tile_offset(int block, int part) {
    return (block * kParts + part) * (kTileBytes / 4);
  }

  /// Sixteen of the depth by sixteen units of a block, from `k_begin` on.
  static void store_square(float* panel, std::int64_t blocks, std::int64_t block,
                           std::int64_t k_begin, const float (&square)[kPanel][kPanel]) {
    auto* to = reinterpret_cast<std::uint8_t*>(panel) +
               (k_begin / kTileDepth * blocks + block) * kParts * kTileBytes +
               k_begin % kTileDepth / 2 * 64;
    for (std::int64_t k = 0; k < kPanel; k += 2, to += 64) {
      Vector even = Vector::load(square[k]), odd = Vector::load(square[k + 1]);
#pragma GCC unroll 3
      for (int part = 0; part < kParts; ++part) {
        const Vector even_part = SplitDepth::rounded(even), odd_part = SplitDepth::rounded(odd);
        const __m512i even_bits = _mm512_castps_si512(even_part.value);
        const __m512i odd_bits = _mm512_castps_si512(odd_part.value);
        _mm512_storeu_si512(
            to + part * kTileBytes,
            _mm512_or_si512(_mm512_maskz_srli_epi32(kAllLanes, even_bits, 16), odd_bits));
        even = even - even_part;
        odd = odd - odd_part;
      }
    }
  }
};

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
