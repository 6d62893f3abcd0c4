#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace sluice::kernels::matmul {

/// c[m, n] = alpha * op(a)[m, k] * op(b)[k, n] + beta * c as in cpu/gemm.h, with m, n and k of at
/// least 1.
struct BFloat16Product {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  float alpha, beta;
  const base::BFloat16* a;
  std::int64_t lda;
  const base::BFloat16* b;
  std::int64_t ldb;
  float* c;
  std::int64_t ldc;
  /// OpenMP threads to use. A part may have been given another OpenMP than libsluice.so, whose
  /// settings it does not see.
  int threads;
};

}  // namespace sluice::kernels::matmul
