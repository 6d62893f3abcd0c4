#include <omp.h>

#include <vector>

#include "kernels/matmul/bfloat16_product.h"
#include "kernels/matmul/cpu/gemm.h"
#include "kernels/onednn_part.h"

namespace sluice::kernels::matmul::cpu {
namespace {

using base::BFloat16;

std::vector<float> widen(const BFloat16* data, std::int64_t rows, std::int64_t columns,
                         std::int64_t stride) {
  std::vector<float> wide(static_cast<std::size_t>(rows * columns));
#pragma omp parallel for schedule(static) if (rows * columns > 65536)
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      wide[static_cast<std::size_t>(i * columns + j)] = static_cast<float>(data[i * stride + j]);
    }
  }
  return wide;
}

/// For processors without AVX-512, where oneDNN has no bfloat16 product, and programs without
/// oneDNN.
void run_widened(const BFloat16Product& p) {
  const std::int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
  const std::int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
  const std::vector<float> a = widen(p.a, a_rows, a_columns, p.lda);
  const std::vector<float> b = widen(p.b, b_rows, b_columns, p.ldb);
  gemm<float>(p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.alpha, a.data(), a_columns, b.data(),
              b_columns, p.beta, p.c, p.ldc);
}

bool run_by_onednn(const BFloat16Product& product) {
  if (!__builtin_cpu_supports("avx512bw")) return false;
  const OnednnPart* part = onednn_part().part;
  return part != nullptr && part->multiply(product);
}

}  // namespace

template <>
void gemm<BFloat16>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                    std::int64_t k, float alpha, const BFloat16* a, std::int64_t lda,
                    const BFloat16* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_matrix(m, n, beta, c, ldc);
  const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  const BFloat16Product product{transpose_a, transpose_b, m, n,   k, alpha, beta,
                                a,           lda,         b, ldb, c, ldc,   threads};
  if (!run_by_onednn(product)) run_widened(product);
}

}  // namespace sluice::kernels::matmul::cpu
