#pragma once

#include <cstdint>

#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::matmul::cuda::by_parts {

/// c = beta * c + the sum of `count` matrices `step` numbers apart (+ bias on every row).
struct AddSums {
  const float* sums;    ///< [count, rows, stride]
  std::int64_t stride;  ///< numbers from a row to the next
  std::int64_t step;
  std::int64_t count;
  std::int64_t rows, columns;
  float* c;  ///< not read if beta is 0
  std::int64_t c_stride;
  float beta;
  const float* bias;  ///< [columns], or null
};
void add_sums(runtime::cuda::CudaStream& stream, const AddSums& args);

}  // namespace sluice::kernels::matmul::cuda::by_parts
