#pragma once

#include "kernels/matmul/cpu/f32_leaf.h"

namespace sluice::kernels::matmul::cpu {

/// The arguments of gemm<float>.
struct F32Product {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  float alpha;
  const float* a;
  std::int64_t lda;
  const float* b;
  std::int64_t ldb;
  float beta;
  float* c;
  std::int64_t ldc;
};

/// gemm<float> with a leaf of one's choice; m, n and k are not 0.
void multiply_f32(const F32Leaf& leaf, const F32Product& product);

/// The best for this processor.
const F32Leaf& best_f32_leaf();

}  // namespace sluice::kernels::matmul::cpu
