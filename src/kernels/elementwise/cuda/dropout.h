#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"
#include "runtime/rng.h"

/// Dropout as other families' leaves queue it, on streams of their own.
namespace sluice::kernels::elementwise::cuda {

/// y = x times the mask; both [time, rows, features] of one dtype, contiguous.
struct Dropped {
  const void* x;
  void* y;                  ///< may be x
  std::int64_t first_time;  ///< that of x's first step, which keys the draws
  std::int64_t time, rows, features;
  const std::int32_t* row_ids;  ///< null: the row index
  double rate;
  runtime::DropoutSource source;
};
/// Queues it; the thread's GPU is the stream's.
void drop_out(cudaStream_t stream, base::DType dtype, const Dropped& args);

}  // namespace sluice::kernels::elementwise::cuda
