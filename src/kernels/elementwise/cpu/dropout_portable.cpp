#include <immintrin.h>

#include "kernels/elementwise/cpu/dropout_words.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

struct Sse2Multiply {
  using Vector = kernels::Vector<std::uint64_t, 2>;

  static Vector low_halves(const Vector& a, const Vector& b) {
    return reinterpret_cast<Vector>(
        _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
  }
};

}  // namespace

void mask_row_portable(const WordCounter& counter, const MaskedRow<float>& row) {
  mask_row_with<float, Sse2Multiply>(counter, row);
}

void mask_row_portable(const WordCounter& counter, const MaskedRow<double>& row) {
  mask_row_with<double, Sse2Multiply>(counter, row);
}

}  // namespace sluice::kernels::elementwise::cpu
