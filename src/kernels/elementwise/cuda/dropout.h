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
  /// Where the mask goes too, a bit an element, if leaves_mask; null: nowhere.
  void* mask = nullptr;
};
/// Whether there are masks of rows of so many features. x and y are aligned to 16 bytes then.
bool leaves_mask(base::DType dtype, std::int64_t features);
/// Queues it; the thread's GPU is the stream's.
void drop_out(cudaStream_t stream, base::DType dtype, const Dropped& args);
/// Only leaves the mask: x and y may be null.
void draw_mask(cudaStream_t stream, const Dropped& args);

/// x [count], whose mask has been left.
struct DroppedByMask {
  const void* x;
  void* y;  ///< may be x
  std::int64_t count;
  double rate;
  const void* mask;
};
/// Gives the bits that drop_out would.
void drop_out_by_mask(cudaStream_t stream, base::DType dtype, const DroppedByMask& args);

}  // namespace sluice::kernels::elementwise::cuda
