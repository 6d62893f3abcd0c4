#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::oracle {

enum class Cell { kLstm, kGru, kGruResetBefore, kRnnTanh, kRnnRelu };

/// "lstm", "gru", "gru_reset_before", "rnn_tanh" or "rnn_relu". Throws std::invalid_argument.
Cell cell_named(std::string_view name);

/// Gates of a cell: LSTM i, f, g, o; either GRU r, z, n; a plain RNN one.
inline int64_t gate_count(Cell cell) {
  if (cell == Cell::kLstm) return 4;
  return cell == Cell::kGru || cell == Cell::kGruResetBefore ? 3 : 1;
}

/// The parameters of one layer and direction, row-major, gates in the order above. G gates, hidden
/// H, projection P:
///   weight_ih [G*H, in], weight_hh [G*H, H] or [G*H, P], bias_ih and bias_hh [G*H], weight_hr [P,
///   H] or empty; peephole [3*H] or empty: LSTM, of c to i, f and o.
/// With layer norm (LSTM) gain_ih and gain_hh [4*H], gain_c and shift_c [H], else empty.
/// The same struct holds their gradients.
struct Weights {
  std::vector<double> weight_ih;
  std::vector<double> weight_hh;
  std::vector<double> bias_ih;
  std::vector<double> bias_hh;
  std::vector<double> weight_hr;
  std::vector<double> peephole = {};
  std::vector<double> gain_ih = {}, gain_hh = {}, gain_c = {}, shift_c = {};
};

/// Options of a cell; a null pointer: it lacks that one. The pointers are for the LSTM.
struct CellExtras {
  const double* peephole = nullptr;  ///< [3*hidden]
  const double* gain_c = nullptr;    ///< [hidden], layer norm of c on its way to h
  const double* shift_c = nullptr;
  bool hard_sigmoid = false;  ///< but of plain RNNs: gates are clip(0.2 a + 0.5, 0, 1)
};

/// Weights of these sizes, all zero. out is the projection, or 0 for none.
Weights zero_weights(Cell cell, int64_t input, int64_t hidden, int64_t projection,
                     bool peepholes = false, bool layer_norm = false);

/// What one row keeps of one step for its backward pass. Each points to `hidden` values, gates to
/// G*hidden.
template <typename T>
struct CellRecordOf {
  T* gates;      ///< activated gates
  T* candidate;  ///< GRU: R_n h + b_hn, before the reset gate; plain RNN: the sum before activation
  T* c;          ///< LSTM: the new cell state
};
using CellRecord = CellRecordOf<double>;
using ConstCellRecord = CellRecordOf<const double>;

/// One row, one step, of
///   LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000):
///     i, f, o = sigmoid(a), g = tanh(a), c = f c' + i g, h = o tanh(c)
///   GRU (Cho et al. 2014, the variant that resets after the recurrent product):
///     r, z = sigmoid(a), n = tanh(x_n + r (R_n h' + b_hn)), h = (1 - z) n + z h'
///   GRU as published, which resets before the product: n = tanh(a), where the caller has made the
///     product of n from what reset() gives
///   plain RNN (Elman 1990): h = tanh(a) or max(a, 0)
/// where a = from_input + from_hidden, from_input = W x + b_ih and from_hidden = R h' + b_hh, each
/// [G*hidden]. h gets the output before any projection.
/// With a peephole [3*hidden] (Gers and Schmidhuber 2000) the LSTM's i and f take p c' as well, and
/// its o takes p c. With layer norm (Ba et al. 2016) h = o tanh(gain * normalize(c) + shift).
void cell_forward(Cell cell, int64_t hidden, const double* from_input, const double* from_hidden,
                  const double* previous_h, const double* previous_c, const CellRecord& record,
                  double* h, const CellExtras& extras = {});

/// The step backward. In: dh [hidden], of the output before any projection. In and out: dc
/// [hidden], LSTM only: of the new, then of the previous cell state. Out: d_input and d_hidden
/// [G*hidden], of from_input and from_hidden; and previous_dh [hidden], the part of the previous
/// h's gradient that does not pass through from_hidden (0 but for GRUs); with layer norm
/// d_normalized [hidden], of what tanh takes. Of a GRU that resets before the product the gradients
/// of r are left 0: reset_backward() has them.
void cell_backward(Cell cell, int64_t hidden, const double* previous_h, const double* previous_c,
                   const ConstCellRecord& record, const double* dh, double* dc, double* d_input,
                   double* d_hidden, double* previous_dh, const CellExtras& extras = {},
                   double* d_normalized = nullptr);

/// GRU that resets before the product: what the recurrent product of n reads, r * h. h [hidden] is
/// what the other products read.
void reset(int64_t hidden, const double* from_input, const double* from_hidden, const double* h,
           double* reset_h, bool hard_sigmoid = false);

/// Its gradient. d_reset [hidden], of r * h, becomes that of h; d_r [hidden] is that of r before
/// activation.
void reset_backward(int64_t hidden, const ConstCellRecord& record, const double* h, double* d_reset,
                    double* d_r, bool hard_sigmoid = false);

}  // namespace sluice::oracle
