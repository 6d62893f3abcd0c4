#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/recurrent/recurrent.h"

/// The kernels beside the cells: packing, projection, sums of columns. Each is queued on
/// the stream. Pointers to void are in storage.
namespace sluice::kernels::recurrent::cuda {

/// to = from, rounded to storage; transposed likewise, but [columns, rows].
struct PackMatrix {
  const float* from;  ///< [rows, columns]
  std::int64_t rows, columns;
  void* to;  ///< null, like the next: unwanted
  std::int64_t to_stride;
  void* transposed;
  std::int64_t transposed_stride;
};

/// to = both biases, but with bias_hn of the last block (n of a GRU that resets after the product)
/// only the input's: the other goes there.
struct PackBias {
  const float* bias_ih;  ///< [gates * hidden]
  const float* bias_hh;
  std::int64_t gates, hidden;
  float* to;
  float* bias_hn;  ///< [hidden]
};

/// The end of a step with a projection: h of active rows is what was projected.
struct FinishProjection {
  std::int64_t rows, output;
  const std::int32_t* lengths;
  std::int64_t t;
  const float* projected;  ///< [rows, P]
  const void* h_before;    ///< [rows, P]
  void* h_after;
  void* y;
  std::int64_t y_stride;
};
void finish_projection(cudaStream_t stream, DType storage, const FinishProjection& args);

/// Its backward: the gradient of an active row's output goes through this step, an inactive row's
/// on to the earlier step.
struct SplitGradient {
  std::int64_t rows, output;
  const std::int32_t* lengths;
  std::int64_t t;
  const float* dh;  ///< [rows, P]
  const void* dy;   ///< null: nothing
  std::int64_t dy_stride;
  void* through;  ///< out [rows, P]
  float* past;    ///< out [rows, P]
};
void split_gradient(cudaStream_t stream, DType storage, const SplitGradient& args);

/// targets[i][column] (+)= the sum of values' column, times the factors, over `depth` rows, in an
/// order that depends on the shape alone.
struct ColumnSums {
  const void* values;   ///< [depth, columns]
  const void* factors;  ///< [depth, columns], without a stride; null: one
  bool stored_factors;  ///< they are in storage, not float32
  std::int64_t stride, depth, columns;
  std::int64_t gates;  ///< columns are [columns / gates, gates], targets [gates, columns / gates]
  float* partial;      ///< scratch [kColumnParts, columns]
  float* targets[2];   ///< null: unwanted
  bool accumulate;     ///< whether sums are added to targets, or written
};
inline constexpr std::int64_t kColumnParts = 64;
void column_sums(cudaStream_t stream, DType storage, const ColumnSums& args);

/// to[i] = from[i] from storage to float32 or the other way.
void widen(cudaStream_t stream, DType storage, float* to, const void* from, std::int64_t count);
void narrow(cudaStream_t stream, DType storage, void* to, const float* from, std::int64_t count);
/// Does nothing: in a graph only a kernel can wait for a launch to begin (Lanes::follow_begun).
void pass(cudaStream_t stream);
/// to[i] = value.
void fill(cudaStream_t stream, std::int32_t* to, std::int32_t value, std::int64_t count);

}  // namespace sluice::kernels::recurrent::cuda
