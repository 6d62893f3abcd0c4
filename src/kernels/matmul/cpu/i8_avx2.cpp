#include <immintrin.h>

#include "kernels/matmul/cpu/i8_body.h"

namespace sluice::kernels::matmul::cpu {
namespace {

/// Pairs of 16 bits: the instruction that multiplies 8 by 8 bits adds two products in 16, where
/// they don't fit.
struct Isa {
  static constexpr int kLanes = 8, kStep = 2, kOffset = 0;
  static constexpr int kRows = 6, kColumns = 2, kAlone = 8;
  using Element = std::int16_t;
  typedef std::int32_t Ints __attribute__((vector_size(32)));
  typedef float Floats __attribute__((vector_size(32)));
  using Word = __m256i;

  static Word broadcast(const Element* a) {
    std::int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return _mm256_set1_epi32(pair);
  }
  static Word weights(const std::int8_t* packed) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)));
  }
  static Ints multiply_add(Word a, Word w, Ints sum) { return sum + (Ints)_mm256_madd_epi16(a, w); }
  static void put(Ints values, Element* to) {
    const auto all = (__m256i)values;
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
  }
};

}  // namespace

const I8Leaf kAvx2I8Leaf = I8Body<Isa>::leaf();

}  // namespace sluice::kernels::matmul::cpu
