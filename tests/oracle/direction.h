#pragma once

#include <vector>

#include "oracle/cell.h"
#include "oracle/recurrent.h"
#include "oracle/rounding.h"

namespace sluice::oracle {

using Vector = std::vector<double>;

/// Elements of a step from which on threads pay.
constexpr int64_t kWorthThreads = 4096;

/// The record of the cell at time t of row b, where place = t * B + b.
inline CellRecord record_at(const StackShape& s, LayerTrace& trace, int64_t place) {
  return {&trace.gates[place * s.gates()],
          trace.candidate.empty() ? nullptr : &trace.candidate[place * s.hidden],
          trace.new_cells.empty() ? nullptr : &trace.new_cells[place * s.hidden]};
}

inline ConstCellRecord record_at(const StackShape& s, const LayerTrace& trace, int64_t place) {
  return {&trace.gates[place * s.gates()],
          trace.candidate.empty() ? nullptr : &trace.candidate[place * s.hidden],
          trace.new_cells.empty() ? nullptr : &trace.new_cells[place * s.hidden]};
}

/// One layer in one direction; what forward and backward share.
class Direction {
 public:
  Direction(const StackShape& shape, int64_t layer, int64_t direction, const Weights& weights,
            const std::vector<int>& lengths, const StackInput& in, Rounding& rounding);

  /// x [T, B, input]; h [B, out] and c [B, H] come in as the initial state and leave as the final
  /// one.
  LayerTrace forward(const Vector& x, double* h, double* c) const;

  /// dy [T, B, D*out] of the layer's output; dh and dc come in as the final state's gradients and
  /// leave as the initial state's; dx [T, B, input] is added to. dcells is [T, B, H] or empty.
  Weights backward(const Vector& x, const double* h0, const double* c0, const LayerTrace& trace,
                   const Vector& dy, const Vector& dcells, double* dh, double* dc,
                   Vector& dx) const;

 private:
  /// What the backward pass needs of the states before each step, and what it finds at each.
  struct Tape {
    Vector previous_h;  ///< [T, B, out]
    Vector previous_c;  ///< LSTM: [T, B, H]
    Vector d_input;     ///< [T, B, G*H], of W x + b_ih; zero past a row's end, as are the next two
    Vector d_hidden;    ///< [T, B, G*H], of R h + b_hh
    /// [T, B, out], of the step's output before zoneout, above and recurrent gradient together
    Vector d_output;
    Weights dw;
  };

  /// sums [count, units] += a [count, depth] times the transpose of weights [units, depth].
  void multiply(int64_t count, int64_t units, int64_t depth, const double* a, const double* weights,
                double* sums) const;

  int64_t time_of(int64_t step) const { return direction_ == 0 ? step : s_.time - 1 - step; }
  bool active(int64_t t, int64_t b) const { return t < lengths_[b]; }
  /// Whether an active row starts step t from zero, for a boundary lies before it.
  bool starts_anew(int64_t t, int64_t b) const {
    const int64_t boundary = direction_ == 0 ? t : t + 1;
    return boundary < lengths_[b] && !resets_.empty() && resets_[boundary * s_.rows + b] != 0;
  }
  /// The sums [count, G*H] that the cell takes of either product, from the product itself: with
  /// its bias and, before that, layer norm.
  void finish_sums(int64_t count, const Vector& gain, const Vector& bias, double* sums) const;
  /// With layer norm: the gradient of the product [count, G*H] from that of the sums, in place, and
  /// of the gain.
  void sums_backward(int64_t count, const double* product, const Vector& gain, double* d,
                     double* d_gain) const;
  /// sums[columns] += the sum over the rows of a [rows, columns].
  void add_sums(int64_t rows, int64_t columns, const double* a, Vector& sums) const;
  /// What the recurrent product reads of h [rows, out].
  Vector dropped(const double* h, int64_t rows) const;

  /// [T, B, width]: the state each active row had before time t, where `states` [T, B, width] are
  /// those after it. Each row's first step, t = 0 or its own end in the backward direction, sees
  /// the initial state [B, width].
  Vector previous(const Vector& states, const double* initial, int64_t width) const;

  /// GRU that resets before the product: makes the sums of n in from_hidden [B, G*H], from what the
  /// other products have read, `read` [B, H].
  void reset_candidates(int64_t t, const Vector& read, const Vector& from_input,
                        Vector& from_hidden) const;
  /// Adds to the gradients of step t those of its r, and to `through` [B, H], of what products
  /// read, what comes by way of n.
  void reset_candidates_backward(int64_t t, const LayerTrace& trace, Tape& tape,
                                 Vector& through) const;
  /// The gradient of weight_hh [G*H, out].
  void recurrent_weight_backward(const LayerTrace& trace, const Tape& tape, Vector& dw) const;

  void step_forward(int64_t t, const Vector& from_input, LayerTrace& trace, double* h,
                    double* c) const;
  void step_backward(int64_t t, const LayerTrace& trace, const Vector& dy, const Vector& dcells,
                     Tape& tape, double* dh, double* dc) const;

  const StackShape& s_;
  int64_t input_, out_;
  int64_t direction_;
  bool lstm_;
  bool resets_before_;
  bool projects_;
  const Weights& w_;
  const std::vector<int>& lengths_;
  const std::vector<int>& resets_;
  const double *zoneout_h_, *zoneout_c_, *dropout_;
  const CellExtras extras_;
  Rounding& rounding_;
};

}  // namespace sluice::oracle
