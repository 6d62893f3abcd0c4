#pragma once

#include <cmath>

#include "kernels/attention_decoder/cuda/numbers.h"
#include "kernels/recurrent/recurrent.h"
#include "runtime/device.h"
#include "runtime/rng.h"

/// Pointwise parts of a step, each one launch. Widths and strides are padded ones; padding is
/// written with zeros. Lengths and row ids are null if absent.
namespace sluice::kernels::attention_decoder::cuda {

using recurrent::CellType;
using runtime::Stream;

/// Masks what a layer hands to the one above.
struct Dropout {
  runtime::DropoutSource source;  ///< with the layer's own stream
  std::uint32_t threshold = 0;
  double scale = 0;  ///< of what is kept; 0: no dropout
  const std::int32_t* row_ids = nullptr;
};

/// Which rows run at step t.
struct Activity {
  const std::int32_t* lengths = nullptr;
  std::int64_t t = 0;

  __device__ bool at(std::int64_t row) const { return lengths == nullptr || t < lengths[row]; }
  __device__ Activity next() const { return {lengths, t + 1}; }
};

template <typename S>
struct CellArgs {
  std::int64_t rows = 0;
  std::int64_t units = 0;   ///< H
  std::int64_t hidden = 0;  ///< padded
  Activity active;
  const Wide<S>* pre = nullptr;  ///< [rows, G*H] to add to the sums; null above layer 0
  std::int64_t pre_stride = 0;
  const Wide<S>* sums = nullptr;  ///< [rows, blocks*H]: 4, or 1 of a plain RNN
  const Wide<S>* bias = nullptr;  ///< [blocks*H]
  const S* h_prev = nullptr;      ///< rows every h_stride
  S* h = nullptr;                 ///< out, rows every h_stride. An inactive row's is h_prev
  std::int64_t h_stride = 0;
  const Wide<S>* c_prev = nullptr;  ///< LSTM [rows, H]
  Wide<S>* c = nullptr;             ///< out; may be c_prev
  S* saved = nullptr;               ///< out, training [rows, blocks*H]
  S* reset = nullptr;               ///< out of reset_state [rows, H]
  S* y = nullptr;                   ///< out: h after dropout, 0 in inactive rows
  std::int64_t y_stride = 0;
  Dropout dropout;
};

template <typename S>
struct CellBackwardArgs {
  std::int64_t rows = 0;
  std::int64_t units = 0;
  std::int64_t hidden = 0;
  Activity active;
  bool last = false;  ///< whether this is the run's last step
  const S* saved = nullptr;
  const S* h_prev = nullptr;
  std::int64_t h_stride = 0;
  const Wide<S>* c_prev = nullptr;
  const Wide<S>* c = nullptr;
  const Wide<S>* carried = nullptr;  ///< of h through the next step's product
  std::int64_t carried_stride = 0;
  const Wide<S>* above = nullptr;  ///< of y
  std::int64_t above_stride = 0;
  Dropout dropout;
  /// In: of h past the next step's product, 0 behind a step that an LSTM or plain RNN has run; out:
  /// of h_prev likewise.
  Wide<S>* d_hidden = nullptr;
  Wide<S>* d_cell = nullptr;         ///< LSTM, in: of c; out: of c_prev
  S* d_gates = nullptr;              ///< out [rows, blocks*H]: of the sums before activation
  float limit = INFINITY;            ///< of their magnitude; what is beyond becomes that
  const Wide<S>* d_reset = nullptr;  ///< in of reset_state_backward [rows, H]
};

template <typename S>
void run_cell(Stream& stream, CellType cell, const CellArgs<S>& args);
template <typename S>
void run_cell_backward(Stream& stream, CellType cell, const CellBackwardArgs<S>& args);

/// Of the GRU that resets before the product, ahead of run_cell: reset = r * h_prev, 0 in inactive
/// rows. Of the sums it reads those of r; those of n want the product of `reset` then.
template <typename S>
void reset_state(Stream& stream, const CellArgs<S>& args);
/// After run_cell_backward, which knows nothing of r: adds to d_hidden and overwrites d_gates of r.
template <typename S>
void reset_state_backward(Stream& stream, const CellBackwardArgs<S>& args);

}  // namespace sluice::kernels::attention_decoder::cuda
