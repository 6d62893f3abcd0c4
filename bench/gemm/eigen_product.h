#pragma once

#include <cstdint>

namespace sluice::bench::gemm {

/// What Eigen is asked for: dense, row-major float32, c = op(a) op(b).
struct EigenProduct {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  const float* a;
  const float* b;
  float* c;
};

/// Null if Eigen's headers were not there when this was built.
using EigenMultiply = void (*)(const EigenProduct& product, int threads);
EigenMultiply eigen_multiply();

}  // namespace sluice::bench::gemm
