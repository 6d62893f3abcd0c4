#include <immintrin.h>

#include "kernels/elementwise/cpu/dropout_words.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

struct Avx512Multiply {
  using Vector = kernels::Vector<std::uint64_t, 8>;

  // The form with a mask, all set: GCC 12 takes the plain one for a read of uninitialised memory.
  static Vector low_halves(const Vector& a, const Vector& b) {
    return reinterpret_cast<Vector>(
        _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
};

}  // namespace

void mask_row_avx512(const WordCounter& counter, const MaskedRow<float>& row) {
  mask_row_with<float, Avx512Multiply>(counter, row);
}

}  // namespace sluice::kernels::elementwise::cpu
