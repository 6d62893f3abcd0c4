#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/recurrent/cuda/cell_kernels.h"

/// Between the two recurrent products of a step of a GRU that resets before that of n. Pointers to
/// void are in storage; rows [rows, hidden] lie next to each other unless a stride is given.
namespace sluice::kernels::recurrent::cuda {

/// h_reset = r * h, zero in rows past their length.
struct ResetForward {
  std::int64_t rows, hidden;
  const std::int32_t* lengths;  ///< null: every row is active
  std::int64_t t;
  const float* input;  ///< products [rows, 3*H], of which r's are read
  std::int64_t input_stride;
  const float* recurrent;  ///< products [rows, 3*H], likewise
  const float* bias;       ///< [3*H], likewise
  const void* h;           ///< what the product of r has read
  void* h_reset;           ///< out
};
void reset_forward(cudaStream_t stream, const CellKind& kind, const ResetForward& args);

/// What r and h get of the gradient of r * h.
struct ResetBackward {
  std::int64_t rows, hidden;
  const std::int32_t* lengths;
  std::int64_t t;
  const void* saved;  ///< [rows, 3, H]
  const void* h;
  float* product;  ///< in: the gradient; out, if dh is null: that of h
  float* dh;       ///< that of h is added
  void* d_input;   ///< out: r's gradient before activation, among gates [rows, 3*H]
  std::int64_t d_input_stride;
};
void reset_backward(cudaStream_t stream, const CellKind& kind, const ResetBackward& args);

}  // namespace sluice::kernels::recurrent::cuda
