#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

/// What an instruction set must provide for the CPU time loop (sequence.cpp), which is written
/// once.
///
/// Hidden units are handled in panels of 16. A panel holds all gates of its units side by side, so
/// that one register tile ends with every gate of its units and the cell runs on it directly.
/// Widths are padded to whole panels inside these buffers only; padded units stay zero.
/// No thread is started here: the time loop calls leaves from its own OpenMP team with ranges.
namespace sluice::kernels::recurrent::cpu {

inline constexpr std::int64_t kPanel = 16;

constexpr std::int64_t panels_of(std::int64_t units) { return (units + kPanel - 1) / kPanel; }

/// Type of sums, cell state and saved gates for a storage type.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Packs a matrix so that `product` can multiply by it: column n of the product is unit
/// (panel*16 + lane), block b. Element (k, panel, b, lane) = value(k, b, panel*16+lane) where
/// value(k, b, u) = source[b * block_stride + u * unit_stride + k * depth_stride], 0 for
/// u >= units or k >= depth. Weights come in Sum<T>, activations in T.
template <typename T, typename Source = Sum<T>>
struct PackArgs {
  const Source* source;
  std::int64_t block_stride, unit_stride, depth_stride;
  std::int64_t units, depth, blocks;
  T* packed;
  std::int64_t panel_begin, panel_end;
  /// Of a leaf of 8-bit products: what a unit's scale is of, laid out as `source`, `row_depth`
  /// elements; null: what is packed.
  const Source* row = nullptr;
  std::int64_t row_depth = 0;
};

/// to[i, k] = from[k, i] for k < depth, i < columns; strides in elements.
template <typename T>
struct TransposeArgs {
  const T* from;
  std::int64_t from_stride;
  std::int64_t depth, columns;
  T* to;
  std::int64_t to_stride;
};

/// out[r, p, b, lane] = (accumulate ? out : bias or 0) + sum over k, in rising order, of
/// a[r, k] * packed. For one row the same bits whatever the other rows and ranges.
template <typename T>
struct ProductArgs {
  const T* a;  ///< [rows, depth], row stride a_stride
  std::int64_t a_stride;
  std::int64_t rows, depth, blocks;
  const T* packed;
  const Sum<T>* bias;  ///< [panels, blocks, 16] or null
  bool accumulate;
  Sum<T>* out;  ///< [rows, panels, blocks, 16], row stride out_stride
  std::int64_t out_stride;
  std::int64_t panel_begin, panel_end;
};

/// One time step of a cell for rows [row_begin, row_end) and panels [panel_begin, panel_end):
/// gates = pre + h_prev * packed, then the cell (cells.h). Row r is active if t < lengths[r]; an
/// inactive row keeps its state (c_next = c_prev, h_next = h_prev) and its y is zero. With a
/// projection (y null) h_next is the h before it, which is no state: zero for inactive rows.
/// What is read where may be garbage: pre of inactive rows. What is left open: saved of inactive
/// rows. h_next never overlaps h_prev.
template <typename T>
struct StepArgs {
  std::int64_t row_begin, row_end, panel_begin, panel_end;
  std::int64_t units;  ///< H; y and h rows hold only these many
  std::int64_t depth;  ///< width of h_prev: H, or P with a projection
  const T* h_prev;     ///< [rows, depth], row stride h_prev_stride
  std::int64_t h_prev_stride;
  const T* packed;        ///< recurrent weights, G blocks
  const Sum<T>* pre;      ///< [rows, panels, G, 16]: input product and biases (GRU: without b_hn)
  const Sum<T>* bias_hn;  ///< GRU: [panels, 16]
  /// [rows, panels, G, 16]: h_prev * packed, if it has been multiplied already, of whatever h;
  /// null: the step multiplies. h_prev is the state in either case. GRU that resets before the
  /// product: never null, each gate's [rows, panels, 16] for itself, `recurrent_stride` apart.
  const Sum<T>* recurrent;
  std::int64_t recurrent_stride;
  const Sum<T>* peepholes;      ///< LSTM with `recurrent`: [panels, 3, 16] of i, f, o; or null
  const std::int32_t* lengths;  ///< [rows] or null
  std::int64_t t;
  const Sum<T>* c_prev;  ///< LSTM [rows, panels*16]
  Sum<T>* c_next;        ///< LSTM [rows, panels*16]; may be c_prev itself
  T* h_next;             ///< [rows, H], row stride h_next_stride: the new h
  std::int64_t h_next_stride;
  T* y;  ///< [rows, H] with row stride y_stride, or null (projection)
  std::int64_t y_stride;
  /// [rows, panels, saved, 16] or null: LSTM i,f,g,o after activation; GRU r,z,n and R_n h + b_hn,
  /// or without the latter if it resets before the product; plain RNN h.
  Sum<T>* saved;
};

/// The cell's part of a backward step for rows and panels as above, elementwise. In: dh (gradient
/// of this step's h, all sources summed), dc carried from t+1. Out: gradients of the gates before
/// activation, dc for t-1, and the direct part of dh_prev: z * dh for a GRU, else zero. Inactive
/// rows: gate gradients zero, dc passed on, dh_direct = dh; their saved may be garbage.
template <typename T>
struct StepBackwardArgs {
  std::int64_t row_begin, row_end, panel_begin, panel_end;
  std::int64_t units;
  const std::int32_t* lengths;
  std::int64_t t;
  const Sum<T>* saved;      ///< [rows, panels, saved, 16], see StepArgs
  const Sum<T>* c_prev;     ///< LSTM [rows, panels*16]
  const Sum<T>* c;          ///< LSTM [rows, panels*16], after the step
  const Sum<T>* peepholes;  ///< LSTM: [panels, 3, 16] or null
  const T* h_prev;          ///< GRUs [rows, H], row stride h_prev_stride
  std::int64_t h_prev_stride;
  const Sum<T>* dh;   ///< [rows, panels*16]
  Sum<T>* dc;         ///< LSTM in/out [rows, panels*16]
  Sum<T>* dh_direct;  ///< out [rows, panels*16], never dh itself; null with a projection
  T* d_gates_input;   ///< out [rows, panels, G, 16]: gradient of the input product's sums
  /// Out, GRUs only (else null, the same): of the recurrent product's sums. GRU that resets before
  /// the product: each gate's [rows, panels, 16] for itself, `d_hidden_stride` apart, all the same
  /// as in d_gates_input.
  T* d_gates_hidden;
  std::int64_t d_hidden_stride;
};

/// A cell's step and its backward.
template <typename T>
struct CellSteps {
  void (*forward)(const StepArgs<T>&);
  void (*backward)(const StepBackwardArgs<T>&);
};

/// The function table of one instruction set and storage type; blocks is 1, 3 or 4.
template <typename T>
struct Leaf {
  /// Elements of a packed matrix, all panels; includes whatever padding the leaf wants.
  std::int64_t (*packed_size)(std::int64_t units, std::int64_t depth, std::int64_t blocks);
  void (*pack)(const PackArgs<T>&);
  void (*pack_stored)(const PackArgs<T, T>&);
  void (*transpose)(const TransposeArgs<T>&);
  void (*product)(const ProductArgs<T>&);
  CellSteps<T> lstm, gru;
  /// Backward leaves what r gets open: that is made by `reset`.
  CellSteps<T> gru_reset_before;
  CellSteps<T> rnn_tanh, rnn_relu;
  /// Of a GRU that resets before the product: h_next = r * h_prev, where h_prev is what products
  /// read and r's recurrent product is there; zero for inactive rows. Backward, after the cell's
  /// and the product with R_n: dh, of r * h_prev, becomes dh_direct, which may be dh itself, of
  /// h_prev, and the gate gradients of r are added; inactive rows are left as they are.
  CellSteps<T> reset;
  /// Rows that a product should have for the arithmetic to hide the reading of its weights.
  std::int64_t good_rows = 64;
  /// Rows from which on a thread does better to read all of a large matrix for rows of its own than
  /// to share rows with others, each reading its part of the matrix, and to meet them every step.
  std::int64_t own_rows = 8;
};

/// Plain C++ loops; float64, float32 and bfloat16. Always there.
template <typename T>
const Leaf<T>& portable_leaf();
/// The same with a hard sigmoid in the gates of LSTM and GRUs.
template <typename T>
const Leaf<T>& portable_hard_leaf();

}  // namespace sluice::kernels::recurrent::cpu
