#pragma once

#include <cstdint>
#include <vector>

#include "oracle/cell.h"
#include "oracle/rounding.h"

namespace sluice::oracle {

/// A stack of recurrent layers. T time, B rows, I input, H hidden, L layers, D directions, P
/// projection of a layer; out is P with a projection (LSTM only), else H. Everything below is
/// row-major and contiguous; [L*D, B, out] is the [B, out] of every layer and direction in turn,
/// and [L*D, B, H] likewise.
struct StackShape {
  Cell cell = Cell::kLstm;
  int64_t time = 1;
  int64_t rows = 1;
  int64_t input = 1;
  int64_t hidden = 1;
  int64_t layers = 1;
  int64_t directions = 1;
  std::vector<int64_t> projection = {};  ///< of each layer; empty: none
  bool peepholes = false;                ///< LSTM only
  bool layer_norm = false;               ///< LSTM only: of W x, of R h and of c on its way to h
  bool eight_bits = false;  ///< forward: products of weights and what they read, both in 8 bits
  std::vector<int64_t> widths = {};  ///< H of each layer; empty: `hidden` for all
  bool hard_sigmoid = false;         ///< LSTM and GRUs

  /// Gates and units of a layer for a shape that `of_layer` returned.
  int64_t gates() const { return gate_count(cell) * hidden; }
  int64_t hidden_of(int64_t layer) const { return widths.empty() ? hidden : widths[layer]; }
  int64_t out(int64_t layer) const {
    return projection.empty() ? hidden_of(layer) : projection[layer];
  }
  /// Elements of the [B, out] of the first `count` layers and directions.
  int64_t states(int64_t count) const {
    int64_t size = 0;
    for (int64_t k = 0; k < count; ++k) size += rows * out(k / directions);
    return size;
  }
  /// Elements of the [B, H] of the first `count` layers and directions.
  int64_t cells(int64_t count) const {
    int64_t size = 0;
    for (int64_t k = 0; k < count; ++k) size += rows * hidden_of(k / directions);
    return size;
  }
  /// The same stack with `hidden` as one layer has it.
  StackShape of_layer(int64_t layer) const {
    StackShape shape = *this;
    shape.hidden = hidden_of(layer);
    return shape;
  }
  /// Width of the input of layer l: I, then D*out.
  int64_t input_of(int64_t layer) const { return layer == 0 ? input : directions * out(layer - 1); }
};

/// Zero weights of every layer and direction: element l*D + d. Layer l > 0 reads [forward ;
/// backward] of the one below.
std::vector<Weights> zero_weights(const StackShape& shape);

struct StackInput {
  std::vector<double> x;     ///< [T, B, I]; what lies past a row's end is never read
  std::vector<int> lengths;  ///< [B], each 0..T; empty: all T
  std::vector<double> h0;    ///< [L*D, B, out]; empty: zero
  std::vector<double> c0;    ///< LSTM: [L*D, B, H]; empty: zero
  /// Dropout between layers as multipliers, 0 or 1/(1-p): [L-1] of [T, B, D*out], applied to the
  /// output of layer l before layer l+1 reads it; empty: none. The last layer's output is never
  /// dropped.
  std::vector<std::vector<double>> dropout;
  /// [T, B]: where not zero, a new sequence begins at that time: no state passes the boundary
  /// before it, in either direction. Empty: none does.
  std::vector<int> resets = {};
  /// Zoneout (Krueger et al. 2016) as the share of each unit's previous state that a step keeps, 0
  /// or 1 in training, the rate in inference: [L*D] of [T, B, out] and, LSTM, of [T, B, H]; empty:
  /// none. What is kept is not seen by the step's own h: that comes from the cell state as it
  /// would be without zoneout.
  std::vector<std::vector<double>> zoneout_h = {}, zoneout_c = {};
  /// Variational dropout (Gal and Ghahramani 2016) as multipliers of h where the recurrent product
  /// reads it, the same at all steps: [L*D] of [B, out]; empty: none.
  std::vector<std::vector<double>> recurrent_dropout = {};
};

/// What one layer and direction computed. Past a row's end all are zero.
struct LayerTrace {
  std::vector<double> gates;           ///< [T, B, G*H], activated
  std::vector<double> candidate;       ///< but for the LSTM: [T, B, H], see CellRecord
  std::vector<double> cells;           ///< LSTM: [T, B, H], the cell state of every step
  std::vector<double> raw;             ///< with a projection: [T, B, H], the output before it
  std::vector<double> h;               ///< [T, B, out]
  std::vector<double> new_cells = {};  ///< LSTM: [T, B, H], the cell states before zoneout
};

struct StackOutput {
  std::vector<double> y;   ///< [T, B, D*out], zero past a row's end
  std::vector<double> hn;  ///< [L*D, B, out]: a row's state after its own last step; of an empty
                           ///< row its initial state
  std::vector<double> cn;  ///< LSTM: [L*D, B, H], else empty
  std::vector<LayerTrace> traces;  ///< element l*D + d
  std::vector<std::vector<double>>
      inputs;  ///< [L] of [T, B, input_of(l)], after dropout, zero past a row's end
};

/// Gradients of the loss with respect to the outputs. Each may be empty: zero. What dy and dcells
/// hold past a row's end is ignored.
struct StackOutputGradients {
  std::vector<double> dy;   ///< [T, B, D*out]
  std::vector<double> dhn;  ///< [L*D, B, out]
  std::vector<double> dcn;  ///< LSTM: [L*D, B, H]
  std::vector<std::vector<double>>
      dcells;  ///< LSTM: [L*D] of [T, B, H], of the cell state of every step
};

struct StackGradients {
  std::vector<double> dx;   ///< [T, B, I], zero past a row's end
  std::vector<double> dh0;  ///< [L*D, B, out]
  std::vector<double> dc0;  ///< LSTM: [L*D, B, H], else empty
  std::vector<Weights> weights;
};

/// Runs the stack. Throws std::invalid_argument, naming it, when an array has the wrong size. With
/// a rounding it computes what a plain implementation of that format does.
StackOutput forward(const StackShape& shape, const std::vector<Weights>& weights,
                    const StackInput& input, Rounding* rounding = nullptr);

/// Back-propagation through time, from the forward's own output. Throws as forward does.
StackGradients backward(const StackShape& shape, const std::vector<Weights>& weights,
                        const StackInput& input, const StackOutput& output,
                        const StackOutputGradients& gradients, Rounding* rounding = nullptr);

}  // namespace sluice::oracle
