#include <immintrin.h>

#include "kernels/matmul/cpu/i8_body.h"

namespace sluice::kernels::matmul::cpu {
namespace {

struct Isa {
  static constexpr int kLanes = 16, kStep = 4, kOffset = 128;
  static constexpr int kRows = 6, kColumns = 4, kAlone = 8;
  using Element = std::uint8_t;
  typedef std::int32_t Ints __attribute__((vector_size(64)));
  typedef float Floats __attribute__((vector_size(64)));
  using Word = __m512i;

  static Word broadcast(const Element* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, sizeof four);
    return _mm512_set1_epi32(four);
  }
  static Word weights(const std::int8_t* packed) { return _mm512_loadu_si512(packed); }
  static Ints multiply_add(Word a, Word w, Ints sum) {
    return (Ints)_mm512_dpbusd_epi32((__m512i)sum, a, w);
  }
  static void put(Ints values, Element* to) {
    _mm512_mask_cvtepi32_storeu_epi8(to, 0xffff, (__m512i)values);
  }
};

}  // namespace

const I8Leaf kAvx512VnniI8Leaf = I8Body<Isa>::leaf();

}  // namespace sluice::kernels::matmul::cpu
