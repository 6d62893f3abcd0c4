#include <algorithm>

#include "oracle/direction.h"
#include "oracle/eight_bits.h"
#include "oracle/layer_norm.h"
#include "oracle/matrix.h"

namespace sluice::oracle {
namespace {

/// The k-th mask; null if there are none.
const double* mask_of(const std::vector<Vector>& masks, int64_t k) {
  return masks.empty() ? nullptr : masks[k].data();
}

CellExtras extras_of(const Weights& w, bool hard_sigmoid) {
  const auto data = [](const Vector& values) { return values.empty() ? nullptr : values.data(); };
  return {data(w.peephole), data(w.gain_c), data(w.shift_c), hard_sigmoid};
}

}  // namespace

Direction::Direction(const StackShape& shape, int64_t layer, int64_t direction,
                     const Weights& weights, const std::vector<int>& lengths, const StackInput& in,
                     Rounding& rounding)
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
      extras_(extras_of(weights, shape.hard_sigmoid)),
      rounding_(rounding) {}

void Direction::multiply(int64_t count, int64_t units, int64_t depth, const double* a,
                         const double* weights, double* sums) const {
  if (!s_.eight_bits) {
    return rounding_.multiply_add(count, units, depth, plain(a, depth), transposed(weights, depth),
                                  sums);
  }
  const Vector read = in_eight_bits(count, depth, a, &rounding_),
               w = in_eight_bits(units, depth, weights);
  rounding_.multiply_add(count, units, depth, plain(read.data(), depth),
                         transposed(w.data(), depth), sums);
}

void Direction::finish_sums(int64_t count, const Vector& gain, const Vector& bias,
                            double* sums) const {
  const int64_t gates = s_.gates();
  for (int64_t i = 0; i < count; ++i) {
    double* row = sums + i * gates;
    if (s_.layer_norm) normalize(gates, row, row);
    for (int64_t j = 0; j < gates; ++j)
      row[j] = (s_.layer_norm ? gain[j] * row[j] : row[j]) + bias[j];
  }
  rounding_.keep(sums, count * gates);
}

void Direction::reset_candidates(int64_t t, const Vector& read, const Vector& from_input,
                                 Vector& from_hidden) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, rows = s_.rows, first = 2 * hidden;
  Vector reset_h(rows * hidden), product(rows * hidden);
  for (int64_t b = 0; b < rows; ++b)
    reset(hidden, &from_input[(t * rows + b) * gates], &from_hidden[b * gates], &read[b * hidden],
          &reset_h[b * hidden], s_.hard_sigmoid);
  rounding_.store(reset_h);
  multiply(rows, hidden, hidden, reset_h.data(), &w_.weight_hh[first * hidden], product.data());
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t j = 0; j < hidden; ++j)
      from_hidden[b * gates + first + j] = product[b * hidden + j] + w_.bias_hh[first + j];
  rounding_.keep(from_hidden);
}

Vector Direction::dropped(const double* h, int64_t rows) const {
  const int64_t step = s_.rows * out_;
  Vector result(h, h + rows * out_);
  for (int64_t i = 0; dropout_ != nullptr && i < rows * out_; ++i) result[i] *= dropout_[i % step];
  if (dropout_ != nullptr) rounding_.store(result);
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
  rounding_.activate(&trace.gates[t * rows * gates], rows * gates);
  // Backward reads the gates as they are stored, like any other activation.
  rounding_.store(&trace.gates[t * rows * gates], rows * gates);
  rounding_.activate(cell_output, rows * hidden);
  rounding_.store(cell_output, rows * hidden);
  if (lstm_) rounding_.activate(&trace.new_cells[t * rows * hidden], rows * hidden);
  if (lstm_) rounding_.keep(&trace.new_cells[t * rows * hidden], rows * hidden);
  if (projects_)
    multiply(rows, out, hidden, cell_output, w_.weight_hr.data(), &trace.h[t * rows * out]);
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b)) continue;
    const int64_t place = t * rows + b;
    for (int64_t j = 0; j < out; ++j) {
      const double kept = zoneout_h_ == nullptr ? 0.0 : zoneout_h_[place * out + j];
      double& state = trace.h[place * out + j];
      state = kept * h[b * out + j] + (1 - kept) * state;
      rounding_.store(&state, 1);
      h[b * out + j] = state;
    }
    for (int64_t j = 0; lstm_ && j < hidden; ++j) {
      const double kept = zoneout_c_ == nullptr ? 0.0 : zoneout_c_[place * hidden + j];
      double& state = trace.cells[place * hidden + j];
      state = kept * c[b * hidden + j] + (1 - kept) * trace.new_cells[place * hidden + j];
      rounding_.keep(&state, 1);
      c[b * hidden + j] = state;
    }
  }
}

}  // namespace sluice::oracle
