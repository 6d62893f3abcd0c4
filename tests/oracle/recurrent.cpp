#include "oracle/recurrent.h"

#include <algorithm>

#include "oracle/eight_bits.h"
#include "oracle/layer_norm.h"
#include "oracle/matrix.h"
#include "oracle/size_check.h"

namespace sluice::oracle {
namespace {

using Vector = std::vector<double>;

/// Elements of a step from which on threads pay.
constexpr int64_t kWorthThreads = 4096;

void check_weights(const StackShape& s, const std::vector<Weights>& weights) {
  check_size("the list of weights", weights.size(), s.layers * s.directions);
  for (int64_t k = 0; k < s.layers * s.directions; ++k) {
    const Weights& w = weights[k];
    check_size("weight_ih", w.weight_ih.size(), s.gates() * s.input_of(k / s.directions));
    const int64_t out = s.out(k / s.directions);
    check_size("weight_hh", w.weight_hh.size(), s.gates() * out);
    check_size("bias_ih", w.bias_ih.size(), s.gates());
    check_size("bias_hh", w.bias_hh.size(), s.gates());
    check_size("weight_hr", w.weight_hr.size(), s.projection.empty() ? 0 : out * s.hidden);
    const int64_t normalized = s.layer_norm ? s.hidden : 0;
    check_size("gain_ih", w.gain_ih.size(), 4 * normalized);
    check_size("gain_hh", w.gain_hh.size(), 4 * normalized);
    check_size("gain_c", w.gain_c.size(), normalized);
    check_size("shift_c", w.shift_c.size(), normalized);
    check_size("peephole", w.peephole.size(), s.peepholes ? 3 * s.hidden : 0);
  }
}

void check(const StackShape& s, const std::vector<Weights>& weights, const StackInput& in) {
  const int64_t stacked = s.layers * s.directions * s.rows;
  const bool lstm = s.cell == Cell::kLstm;
  if (!lstm && !s.projection.empty()) fail("only the LSTM has a projection");
  if (!lstm && (s.peepholes || s.layer_norm)) fail("only the LSTM has peepholes and layer norm");
  if (!lstm && !(in.c0.empty() && in.zoneout_c.empty())) fail("only the LSTM has a cell state");
  if (!s.projection.empty()) check_size("the list of projections", s.projection.size(), s.layers);
  check_weights(s, weights);
  check_size("x", in.x.size(), s.time * s.rows * s.input);
  check_size_or_empty("lengths", in.lengths.size(), s.rows);
  for (const int length : in.lengths)
    if (length < 0 || length > s.time) fail("a length lies outside 0..time");
  check_size_or_empty("h0", in.h0.size(), s.states(s.layers * s.directions));
  check_size_or_empty("c0", in.c0.size(), stacked * s.hidden);
  check_size_or_empty("the list of dropout masks", in.dropout.size(), s.layers - 1);
  for (size_t l = 0; l < in.dropout.size(); ++l)
    check_size("a dropout mask", in.dropout[l].size(), s.time * s.rows * s.input_of(l + 1));
  check_size_or_empty("resets", in.resets.size(), s.time * s.rows);
  const auto check_masks = [&](const char* what, const std::vector<Vector>& masks, int64_t places,
                               bool of_cells) {
    check_size_or_empty(what, masks.size(), s.layers * s.directions);
    for (size_t k = 0; k < masks.size(); ++k)
      check_size(what, masks[k].size(), places * (of_cells ? s.hidden : s.out(k / s.directions)));
  };
  check_masks("zoneout_h", in.zoneout_h, s.time * s.rows, false);
  check_masks("zoneout_c", in.zoneout_c, s.time * s.rows, true);
  check_masks("recurrent_dropout", in.recurrent_dropout, s.rows, false);
}

void check(const StackShape& s, const StackOutputGradients& g) {
  const int64_t stacked = s.layers * s.directions * s.rows;
  if (s.cell != Cell::kLstm && (!g.dcn.empty() || !g.dcells.empty()))
    fail("only the LSTM has a cell state");
  check_size_or_empty("dy", g.dy.size(), s.time * s.rows * s.input_of(s.layers));
  check_size_or_empty("dhn", g.dhn.size(), s.states(s.layers * s.directions));
  check_size_or_empty("dcn", g.dcn.size(), stacked * s.hidden);
  check_size_or_empty("the list dcells", g.dcells.size(), s.layers * s.directions);
  for (const Vector& d : g.dcells) check_size("dcells", d.size(), s.time * s.rows * s.hidden);
}

/// A copy of values, or `size` zeros where it is empty.
Vector or_zeros(const Vector& values, int64_t size) {
  return values.empty() ? Vector(size, 0.0) : values;
}

/// A copy of [T, B, width] with zeros past each row's end.
Vector without_padding(const StackShape& s, const std::vector<int>& lengths, int64_t width,
                       Vector values) {
  for (int64_t t = 0; t < s.time; ++t)
    for (int64_t b = 0; b < s.rows; ++b)
      if (t >= lengths[b]) std::fill_n(&values[(t * s.rows + b) * width], width, 0.0);
  return values;
}

/// The record of the cell at time t of row b, where place = t * B + b.
CellRecord record_at(const StackShape& s, LayerTrace& trace, int64_t place) {
  return {&trace.gates[place * s.gates()],
          trace.candidate.empty() ? nullptr : &trace.candidate[place * s.hidden],
          trace.new_cells.empty() ? nullptr : &trace.new_cells[place * s.hidden]};
}

ConstCellRecord record_at(const StackShape& s, const LayerTrace& trace, int64_t place) {
  return {&trace.gates[place * s.gates()],
          trace.candidate.empty() ? nullptr : &trace.candidate[place * s.hidden],
          trace.new_cells.empty() ? nullptr : &trace.new_cells[place * s.hidden]};
}

/// The k-th mask; null if there are none.
const double* mask_of(const std::vector<Vector>& masks, int64_t k) {
  return masks.empty() ? nullptr : masks[k].data();
}

CellExtras extras_of(const Weights& w) {
  const auto data = [](const Vector& values) { return values.empty() ? nullptr : values.data(); };
  return {data(w.peephole), data(w.gain_c), data(w.shift_c)};
}

/// One layer in one direction; what forward and backward share.
class Direction {
 public:
  Direction(const StackShape& shape, int64_t layer, int64_t direction, const Weights& weights,
            const std::vector<int>& lengths, const StackInput& in)
      : s_(shape),
        input_(shape.input_of(layer)),
        out_(shape.out(layer)),
        direction_(direction),
        lstm_(shape.cell == Cell::kLstm),
        resets_before_(shape.cell == Cell::kGruResetBefore),
        projects_(!shape.projection.empty()),
        w_(weights),
        lengths_(lengths),
        resets_(in.resets),
        zoneout_h_(mask_of(in.zoneout_h, layer * shape.directions + direction)),
        zoneout_c_(mask_of(in.zoneout_c, layer * shape.directions + direction)),
        dropout_(mask_of(in.recurrent_dropout, layer * shape.directions + direction)),
        extras_(extras_of(weights)) {}

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
                double* sums) const {
    if (!s_.eight_bits)
      return multiply_add(count, units, depth, plain(a, depth), transposed(weights, depth), sums);
    const Vector read = in_eight_bits(count, depth, a), w = in_eight_bits(units, depth, weights);
    multiply_add(count, units, depth, plain(read.data(), depth), transposed(w.data(), depth), sums);
  }

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
};

void Direction::finish_sums(int64_t count, const Vector& gain, const Vector& bias,
                            double* sums) const {
  const int64_t gates = s_.gates();
  for (int64_t i = 0; i < count; ++i) {
    double* row = sums + i * gates;
    if (s_.layer_norm) normalize(gates, row, row);
    for (int64_t j = 0; j < gates; ++j)
      row[j] = (s_.layer_norm ? gain[j] * row[j] : row[j]) + bias[j];
  }
}

void Direction::sums_backward(int64_t count, const double* product, const Vector& gain, double* d,
                              double* d_gain) const {
  const int64_t gates = s_.gates();
  Vector normalized(gates);
  for (int64_t i = 0; s_.layer_norm && i < count; ++i) {
    normalize(gates, product + i * gates, normalized.data());
    for (int64_t j = 0; j < gates; ++j) {
      d_gain[j] += d[i * gates + j] * normalized[j];
      d[i * gates + j] *= gain[j];
    }
    normalize_backward(gates, product + i * gates, d + i * gates, d + i * gates);
  }
}

void Direction::reset_candidates(int64_t t, const Vector& read, const Vector& from_input,
                                 Vector& from_hidden) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, rows = s_.rows, first = 2 * hidden;
  Vector reset_h(rows * hidden), product(rows * hidden);
  for (int64_t b = 0; b < rows; ++b)
    reset(hidden, &from_input[(t * rows + b) * gates], &from_hidden[b * gates], &read[b * hidden],
          &reset_h[b * hidden]);
  multiply(rows, hidden, hidden, reset_h.data(), &w_.weight_hh[first * hidden], product.data());
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t j = 0; j < hidden; ++j)
      from_hidden[b * gates + first + j] = product[b * hidden + j] + w_.bias_hh[first + j];
}

void Direction::reset_candidates_backward(int64_t t, const LayerTrace& trace, Tape& tape,
                                          Vector& through) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, rows = s_.rows, first = 2 * hidden;
  const Vector read = dropped(&tape.previous_h[t * rows * hidden], rows);
  double* d_hidden = &tape.d_hidden[t * rows * gates];
  multiply_add(rows, hidden, hidden, {d_hidden + first, gates, 1},
               plain(&w_.weight_hh[first * hidden], hidden), through.data());
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t place = t * rows + b;
    double* d_r = d_hidden + b * gates;
    reset_backward(hidden, record_at(s_, trace, place), &read[b * hidden], &through[b * hidden],
                   d_r);
    std::copy_n(d_r, hidden, &tape.d_input[place * gates]);
  }
}

void Direction::recurrent_weight_backward(const LayerTrace& trace, const Tape& tape,
                                          Vector& dw) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, places = s_.time * s_.rows;
  Vector read = dropped(tape.previous_h.data(), places);
  const int64_t of_h = resets_before_ ? 2 * hidden : gates;
  const double* d_hidden = tape.d_hidden.data();
  multiply_add(of_h, out_, places, transposed(d_hidden, gates), plain(read.data(), out_),
               dw.data());
  if (!resets_before_) return;
  for (int64_t place = 0; place < places; ++place)
    for (int64_t j = 0; j < hidden; ++j) read[place * hidden + j] *= trace.gates[place * gates + j];
  multiply_add(hidden, hidden, places, transposed(d_hidden + of_h, gates),
               plain(read.data(), hidden), &dw[of_h * hidden]);
}

Vector Direction::dropped(const double* h, int64_t rows) const {
  const int64_t step = s_.rows * out_;
  Vector result(h, h + rows * out_);
  for (int64_t i = 0; dropout_ != nullptr && i < rows * out_; ++i) result[i] *= dropout_[i % step];
  return result;
}

Vector Direction::previous(const Vector& states, const double* initial, int64_t width) const {
  Vector result(s_.time * s_.rows * width);
  for (int64_t t = 0; t < s_.time; ++t)
    for (int64_t b = 0; b < s_.rows; ++b) {
      if (!active(t, b) || starts_anew(t, b)) continue;
      const int64_t before = direction_ == 0 ? t - 1 : t + 1;
      const bool first = before < 0 || before >= lengths_[b];
      const double* from = first ? initial + b * width : &states[(before * s_.rows + b) * width];
      std::copy_n(from, width, &result[(t * s_.rows + b) * width]);
    }
  return result;
}

LayerTrace Direction::forward(const Vector& x, double* h, double* c) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, places = s_.time * s_.rows;
  LayerTrace trace{Vector(places * gates),
                   Vector(lstm_ ? 0 : places * hidden),
                   Vector(lstm_ ? places * hidden : 0),
                   Vector(projects_ ? places * hidden : 0),
                   Vector(places * out_),
                   Vector(lstm_ ? places * hidden : 0)};
  Vector from_input(places * gates);
  multiply(places, gates, input_, x.data(), w_.weight_ih.data(), from_input.data());
  finish_sums(places, w_.gain_ih, w_.bias_ih, from_input.data());
  for (int64_t step = 0; step < s_.time; ++step)
    step_forward(time_of(step), from_input, trace, h, c);
  return trace;
}

void Direction::step_forward(int64_t t, const Vector& from_input, LayerTrace& trace, double* h,
                             double* c) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, out = out_, rows = s_.rows;
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b) || !starts_anew(t, b)) continue;
    std::fill_n(h + b * out, out, 0.0);
    if (lstm_) std::fill_n(c + b * hidden, hidden, 0.0);
  }
  Vector from_hidden(rows * gates);
  const Vector factor = dropped(h, rows);
  multiply(rows, gates, out, factor.data(), w_.weight_hh.data(), from_hidden.data());
  finish_sums(rows, w_.gain_hh, w_.bias_hh, from_hidden.data());
  if (resets_before_) reset_candidates(t, factor, from_input, from_hidden);
  double* cell_output = projects_ ? &trace.raw[t * rows * hidden] : &trace.h[t * rows * out];
#pragma omp parallel for schedule(static) if (rows * hidden > kWorthThreads)
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b)) continue;
    const int64_t place = t * rows + b;
    cell_forward(s_.cell, hidden, &from_input[place * gates], &from_hidden[b * gates], h + b * out,
                 lstm_ ? c + b * hidden : nullptr, record_at(s_, trace, place),
                 cell_output + b * hidden, extras_);
  }
  if (projects_)
    multiply(rows, out, hidden, cell_output, w_.weight_hr.data(), &trace.h[t * rows * out]);
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b)) continue;
    const int64_t place = t * rows + b;
    for (int64_t j = 0; j < out; ++j) {
      const double kept = zoneout_h_ == nullptr ? 0.0 : zoneout_h_[place * out + j];
      double& state = trace.h[place * out + j];
      h[b * out + j] = state = kept * h[b * out + j] + (1 - kept) * state;
    }
    for (int64_t j = 0; lstm_ && j < hidden; ++j) {
      const double kept = zoneout_c_ == nullptr ? 0.0 : zoneout_c_[place * hidden + j];
      double& state = trace.cells[place * hidden + j];
      state = kept * c[b * hidden + j] + (1 - kept) * trace.new_cells[place * hidden + j];
      c[b * hidden + j] = state;
    }
  }
}

Weights Direction::backward(const Vector& x, const double* h0, const double* c0,
                            const LayerTrace& trace, const Vector& dy, const Vector& dcells,
                            double* dh, double* dc, Vector& dx) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, out = out_, places = s_.time * s_.rows;
  Tape tape{
      previous(trace.h, h0, out),
      lstm_ ? previous(trace.cells, c0, hidden) : Vector(),
      Vector(places * gates),
      Vector(places * gates),
      Vector(places * out),
      zero_weights(s_.cell, input_, hidden, projects_ ? out_ : 0, s_.peepholes, s_.layer_norm)};
  for (int64_t step = s_.time - 1; step >= 0; --step)
    step_backward(time_of(step), trace, dy, dcells, tape, dh, dc);

  Weights& dw = tape.dw;
  add_column_sums(places, gates, tape.d_input.data(), dw.bias_ih.data());
  for (int64_t place = 0; s_.peepholes && place < places; ++place)
    for (int64_t j = 0; j < hidden; ++j) {
      const double* d = &tape.d_input[place * gates + j];
      const double before = tape.previous_c[place * hidden + j];
      dw.peephole[j] += d[0] * before;
      dw.peephole[hidden + j] += d[hidden] * before;
      dw.peephole[2 * hidden + j] += d[3 * hidden] * trace.new_cells[place * hidden + j];
    }
  if (s_.layer_norm) {
    Vector product(places * gates);
    multiply_add(places, gates, input_, plain(x.data(), input_),
                 transposed(w_.weight_ih.data(), input_), product.data());
    sums_backward(places, product.data(), w_.gain_ih, tape.d_input.data(), dw.gain_ih.data());
  }
  multiply_add(places, input_, gates, plain(tape.d_input.data(), gates),
               plain(w_.weight_ih.data(), input_), dx.data());
  multiply_add(gates, input_, places, transposed(tape.d_input.data(), gates),
               plain(x.data(), input_), dw.weight_ih.data());
  recurrent_weight_backward(trace, tape, dw.weight_hh);
  if (projects_)
    multiply_add(out, hidden, places, transposed(tape.d_output.data(), out),
                 plain(trace.raw.data(), hidden), dw.weight_hr.data());
  return std::move(dw);
}

void Direction::step_backward(int64_t t, const LayerTrace& trace, const Vector& dy,
                              const Vector& dcells, Tape& tape, double* dh, double* dc) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, out = out_, rows = s_.rows;
  double* d_output = &tape.d_output[t * rows * out];
  Vector kept_dh(rows * out), kept_dc(lstm_ ? rows * hidden : 0);  // what passes the step by
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b)) continue;
    const double* above = &dy[((t * rows + b) * s_.directions + direction_) * out];
    for (int64_t j = 0; j < out; ++j) {
      const double whole = above[j] + dh[b * out + j];
      const double kept = zoneout_h_ == nullptr ? 0.0 : zoneout_h_[(t * rows + b) * out + j];
      kept_dh[b * out + j] = kept * whole;
      d_output[b * out + j] = (1 - kept) * whole;
    }
  }
  Vector d_raw(d_output, d_output + rows * out);
  if (projects_) {
    d_raw.assign(rows * hidden, 0.0);
    multiply_add(rows, hidden, out, plain(d_output, out), plain(w_.weight_hr.data(), hidden),
                 d_raw.data());
  }
  Vector d_normalized(s_.layer_norm ? rows * hidden : 0);
  Vector direct(rows * hidden);  // GRU: the share of dh that goes straight to the previous h
#pragma omp parallel for schedule(static) if (rows * hidden > kWorthThreads)
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b)) continue;
    const int64_t place = t * rows + b;
    double* row_dc = lstm_ ? dc + b * hidden : nullptr;
    if (!dcells.empty())
      for (int64_t j = 0; j < hidden; ++j) row_dc[j] += dcells[place * hidden + j];
    for (int64_t j = 0; zoneout_c_ != nullptr && j < hidden; ++j) {
      const double kept = zoneout_c_[place * hidden + j];
      kept_dc[b * hidden + j] = kept * row_dc[j];
      row_dc[j] *= 1 - kept;
    }
    cell_backward(s_.cell, hidden, &tape.previous_h[place * out],
                  lstm_ ? &tape.previous_c[place * hidden] : nullptr, record_at(s_, trace, place),
                  &d_raw[b * hidden], row_dc, &tape.d_input[place * gates],
                  &tape.d_hidden[place * gates], &direct[b * hidden], extras_,
                  s_.layer_norm ? &d_normalized[b * hidden] : nullptr);
  }
  double* d_hidden = &tape.d_hidden[t * rows * gates];
  Vector through(rows * out);
  if (resets_before_) reset_candidates_backward(t, trace, tape, through);
  add_column_sums(rows, gates, d_hidden, tape.dw.bias_hh.data());
  if (s_.layer_norm) {
    const Vector factor = dropped(&tape.previous_h[t * rows * out], rows);
    Vector product(rows * gates), normalized(hidden);
    multiply_add(rows, gates, out, plain(factor.data(), out), transposed(w_.weight_hh.data(), out),
                 product.data());
    sums_backward(rows, product.data(), w_.gain_hh, d_hidden, tape.dw.gain_hh.data());
    for (int64_t b = 0; b < rows; ++b) {
      normalize(hidden, &trace.new_cells[(t * rows + b) * hidden], normalized.data());
      for (int64_t j = 0; j < hidden; ++j) {
        tape.dw.gain_c[j] += d_normalized[b * hidden + j] * normalized[j];
        tape.dw.shift_c[j] += d_normalized[b * hidden + j];
      }
    }
  }
  multiply_add(rows, out, resets_before_ ? 2 * hidden : gates, plain(d_hidden, gates),
               plain(w_.weight_hh.data(), out), through.data());
  through = dropped(through.data(), rows);
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b)) continue;
    for (int64_t j = 0; j < out; ++j)
      dh[b * out + j] =
          through[b * out + j] + kept_dh[b * out + j] + (lstm_ ? 0.0 : direct[b * hidden + j]);
    for (int64_t j = 0; lstm_ && j < hidden; ++j) dc[b * hidden + j] += kept_dc[b * hidden + j];
    if (!starts_anew(t, b)) continue;
    std::fill_n(dh + b * out, out, 0.0);
    if (lstm_) std::fill_n(dc + b * hidden, hidden, 0.0);
  }
}

std::vector<int> lengths_of(const StackShape& shape, const StackInput& input) {
  return input.lengths.empty() ? std::vector<int>(shape.rows, static_cast<int>(shape.time))
                               : input.lengths;
}

/// The state of a layer and direction, which begins at `first`; null where there is none.
double* slice(Vector& states, int64_t first) { return states.empty() ? nullptr : &states[first]; }

}  // namespace

std::vector<Weights> zero_weights(const StackShape& shape) {
  std::vector<Weights> weights;
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (int64_t d = 0; d < shape.directions; ++d)
      weights.push_back(zero_weights(shape.cell, shape.input_of(layer), shape.hidden,
                                     shape.projection.empty() ? 0 : shape.projection[layer],
                                     shape.peepholes, shape.layer_norm));
  return weights;
}

StackOutput forward(const StackShape& s, const std::vector<Weights>& weights,
                    const StackInput& input) {
  check(s, weights, input);
  const std::vector<int> lengths = lengths_of(s, input);
  const int64_t places = s.time * s.rows, count = s.layers * s.directions;
  StackOutput result;
  result.hn = or_zeros(input.h0, s.states(count));
  if (s.cell == Cell::kLstm) result.cn = or_zeros(input.c0, count * s.rows * s.hidden);

  Vector x = without_padding(s, lengths, s.input, input.x);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const int64_t out = s.out(layer), width = s.directions * out;
    Vector y(places * width);
    for (int64_t d = 0; d < s.directions; ++d) {
      const int64_t k = layer * s.directions + d;
      const Direction direction(s, layer, d, weights[k], lengths, input);
      result.traces.push_back(direction.forward(x, slice(result.hn, s.states(k)),
                                                slice(result.cn, k * s.rows * s.hidden)));
      for (int64_t p = 0; p < places; ++p)
        std::copy_n(&result.traces[k].h[p * out], out, &y[p * width + d * out]);
    }
    result.inputs.push_back(std::move(x));
    x = std::move(y);
    if (layer + 1 == s.layers || input.dropout.empty()) continue;
    for (int64_t i = 0; i < places * width; ++i) x[i] *= input.dropout[layer][i];
  }
  result.y = std::move(x);
  return result;
}

StackGradients backward(const StackShape& s, const std::vector<Weights>& weights,
                        const StackInput& input, const StackOutput& output,
                        const StackOutputGradients& gradients) {
  check(s, weights, input);
  check(s, gradients);
  const std::vector<int> lengths = lengths_of(s, input);
  const int64_t places = s.time * s.rows, count = s.layers * s.directions;
  Vector h0 = or_zeros(input.h0, s.states(count));
  Vector c0 = s.cell == Cell::kLstm ? or_zeros(input.c0, count * s.rows * s.hidden) : Vector();
  StackGradients result;
  result.dh0 = or_zeros(gradients.dhn, s.states(count));
  if (s.cell == Cell::kLstm) result.dc0 = or_zeros(gradients.dcn, count * s.rows * s.hidden);
  result.weights.resize(s.layers * s.directions);

  Vector dy = or_zeros(gradients.dy, places * s.input_of(s.layers));
  for (int64_t layer = s.layers - 1; layer >= 0; --layer) {
    Vector dx(places * s.input_of(layer));
    for (int64_t d = 0; d < s.directions; ++d) {
      const int64_t k = layer * s.directions + d;
      const Direction direction(s, layer, d, weights[k], lengths, input);
      result.weights[k] = direction.backward(
          output.inputs[layer], slice(h0, s.states(k)), slice(c0, k * s.rows * s.hidden),
          output.traces[k], dy, gradients.dcells.empty() ? Vector() : gradients.dcells[k],
          slice(result.dh0, s.states(k)), slice(result.dc0, k * s.rows * s.hidden), dx);
    }
    if (layer > 0 && !input.dropout.empty())
      for (size_t i = 0; i < dx.size(); ++i) dx[i] *= input.dropout[layer - 1][i];
    dy = std::move(dx);
  }
  result.dx = std::move(dy);
  return result;
}

}  // namespace sluice::oracle
