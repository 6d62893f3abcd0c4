#include <immintrin.h>

#include "kernels/elementwise/cpu/dropout_words.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

struct Avx2Multiply {
  using Vector = kernels::Vector<std::uint64_t, 4>;

  static Vector low_halves(const Vector& a, const Vector& b) {
    return reinterpret_cast<Vector>(
        _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
};

}  // namespace

void mask_row_avx2(const WordCounter& counter, const MaskedRow<float>& row) {
  mask_row_with<float, Avx2Multiply>(counter, row);
}

}  // namespace sluice::kernels::elementwise::cpu
