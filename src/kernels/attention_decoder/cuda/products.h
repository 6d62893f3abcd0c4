#pragma once

#include "runtime/context.h"

namespace sluice::kernels::attention_decoder::cuda {

/// A row-major matrix with a row every `stride` elements.
struct Matrix {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;  ///< whether its transpose is the factor
};

/// c[m, n] = a[m, k] * b[k, n], or added to c.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b;
  void* c = nullptr;
  std::int64_t stride = 0;  ///< of c
  bool accumulate = false;
  /// What a product that is added is multiplied by, and the number 1 behind it: float32 [2] in
  /// device memory. Null: 1.
  const float* alpha = nullptr;
  base::DType input = base::DType::kFloat32;
  base::DType output = base::DType::kFloat32;
};

/// Queues the product, unless c is empty or nothing is to be added; k is not 0 otherwise.
void multiply(const runtime::Context& context, const Product& product);

}  // namespace sluice::kernels::attention_decoder::cuda
