#include <immintrin.h>

#include "kernels/matmul/cpu/i8_body.h"

namespace sluice::kernels::matmul::cpu {
namespace {

struct Isa {
  static constexpr int kLanes = 8, kStep = 4, kOffset = 128;
  static constexpr int kRows = 6, kColumns = 2, kAlone = 8;
  using Element = std::uint8_t;
  typedef std::int32_t Ints __attribute__((vector_size(32)));
  typedef float Floats __attribute__((vector_size(32)));
  using Word = __m256i;

  static Word broadcast(const Element* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, sizeof four);
    return _mm256_set1_epi32(four);
  }
  static Word weights(const std::int8_t* packed) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed));
  }
  static Ints multiply_add(Word a, Word w, Ints sum) {
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, a, w);
  }
  static void put(Ints values, Element* to) {
    const auto all = (__m256i)values;
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
  }
};

}  // namespace

const I8Leaf kAvxVnniI8Leaf = I8Body<Isa>::leaf();

}  // namespace sluice::kernels::matmul::cpu
