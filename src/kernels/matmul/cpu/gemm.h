#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace sluice::kernels::matmul::cpu {

/// What products of T are summed in.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// c[m, n] = alpha * op(a)[m, k] * op(b)[k, n] + beta * c, row-major, for host functions that run
/// inside Stream::launch. a is stored [m, k] or, if transpose_a, [k, m]; b likewise; lda, ldb and
/// ldc are the distances between stored rows, at least their lengths. c isn't read if beta is 0 and
/// overlaps nothing. For T = float, double, base::BFloat16. Uses OpenMP threads when called outside
/// a parallel region. Repeatability: as matmul() says.
template <typename T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          Sum<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, Sum<T> beta,
          Sum<T>* c, std::int64_t ldc);

template <>
void gemm<float>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                 float beta, float* c, std::int64_t ldc);
template <>
void gemm<double>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                  std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b,
                  std::int64_t ldb, double beta, double* c, std::int64_t ldc);
template <>
void gemm<base::BFloat16>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                          std::int64_t k, float alpha, const base::BFloat16* a, std::int64_t lda,
                          const base::BFloat16* b, std::int64_t ldb, float beta, float* c,
                          std::int64_t ldc);

/// c[m, n] = beta * c without reading c if beta is 0: a product with k = 0.
template <typename S>
void scale_matrix(std::int64_t m, std::int64_t n, S beta, S* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    S* row = c + i * ldc;
    for (std::int64_t j = 0; j < n; ++j) row[j] = beta == S{0} ? S{0} : beta * row[j];
  }
}

}  // namespace sluice::kernels::matmul::cpu
