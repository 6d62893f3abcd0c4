#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/recurrent/recurrent.h"

/// The pointwise part of one step of one layer and direction: a kernel family over cell and
/// storage. Rows past their length keep their state, put out zero and pass gradients on.
/// Pointers to void are in storage; rows [rows, hidden] lie next to each other unless a stride is
/// given.
namespace sluice::kernels::recurrent::cuda {

/// What a kernel is compiled for.
struct CellKind {
  CellType cell;
  DType storage;
  bool tf32 = false;  ///< products of float32, where a kernel has any
  /// Descriptor::hard_sigmoid, which kernels of cell options and layer norm have.
  bool hard_sigmoid = false;
};

struct CellForwardArgs {
  std::int64_t rows, hidden;
  const std::int32_t* lengths;  ///< null: every row is active
  std::int64_t t;
  const float* input;         ///< products [rows, G*H]
  std::int64_t input_stride;  ///< of a row of `input`
  const float* recurrent;     ///< products [rows, G*H]
  const float* bias;          ///< [G*H]: both biases, but of the GRU's n only the input's
  const float* bias_hn;       ///< [H], GRU that resets after the product only
  const void* h_before;       ///< null with a projection
  void* h_after;              ///< with a projection what is to be projected
  const float* c_before;      ///< LSTM only
  float* c_after;             ///< may be c_before
  void* y;                    ///< null with a projection
  std::int64_t y_stride;
  void* saved;        ///< [rows, saved, H] for backward; null in inference
  float* c_sequence;  ///< null if not asked for
  float* gates;       ///< scratch [rows, saved, H] of the separate kernels
};

/// One kernel for the whole cell.
void cell_forward(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args);
/// A kernel for each gate, for the cell state and for the output, by way of scratch.
void cell_forward_apart(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args);

/// The most parts of a product, whose sums a cell adds up.
inline constexpr int kMostParts = 4;

struct CellBackwardArgs {
  std::int64_t rows, hidden;
  const std::int32_t* lengths;
  std::int64_t t;
  const void* saved;
  const void* h_before;   ///< GRUs only
  const float* c_before;  ///< LSTM only
  const float* c;         ///< the step's new cell state
  const float* dh;        ///< of the step's h as later steps give it: the sum of dh_parts
                          ///< [rows, H], one after another
  const void* dy;         ///< to be added to dh of active rows; null: nothing
  std::int64_t dy_stride;
  float* dh_direct;  ///< out: what reaches the previous h around the product; null: unwanted
  float* dc;         ///< in and out
  void* d_input;     ///< out: gate gradients [rows, G*H] for the input's product
  std::int64_t d_input_stride;
  void* d_recurrent;  ///< out: the same for the recurrent product where it differs, else null
  float* dh_whole;    ///< scratch [rows, H] of the separate kernels
  float* dc_whole;    ///< likewise
  std::int64_t dh_parts = 1;  ///< up to kMostParts: cell_backward and _apart; others take one
};

void cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args);
void cell_backward_apart(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args);

}  // namespace sluice::kernels::recurrent::cuda
