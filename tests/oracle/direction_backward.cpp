#include <algorithm>

#include "oracle/direction.h"
#include "oracle/layer_norm.h"
#include "oracle/matrix.h"

namespace sluice::oracle {

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

void Direction::add_sums(int64_t rows, int64_t columns, const double* a, Vector& sums) const {
  if (rounding_.format() != Format::kFloat32) {
    add_column_sums(rows, columns, a, sums.data());
    return rounding_.keep(sums);
  }
  const Vector ones(rows, 1.0);
  rounding_.multiply_add(1, columns, rows, plain(ones.data(), rows), plain(a, columns),
                         sums.data());
}

void Direction::reset_candidates_backward(int64_t t, const LayerTrace& trace, Tape& tape,
                                          Vector& through) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, rows = s_.rows, first = 2 * hidden;
  const Vector read = dropped(&tape.previous_h[t * rows * hidden], rows);
  double* d_hidden = &tape.d_hidden[t * rows * gates];
  rounding_.multiply_add(rows, hidden, hidden, {d_hidden + first, gates, 1},
                         plain(&w_.weight_hh[first * hidden], hidden), through.data());
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t place = t * rows + b;
    double* d_r = d_hidden + b * gates;
    reset_backward(hidden, record_at(s_, trace, place), &read[b * hidden], &through[b * hidden],
                   d_r, s_.hard_sigmoid);
    rounding_.store(d_r, hidden);
    std::copy_n(d_r, hidden, &tape.d_input[place * gates]);
  }
}

void Direction::recurrent_weight_backward(const LayerTrace& trace, const Tape& tape,
                                          Vector& dw) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, places = s_.time * s_.rows;
  Vector read = dropped(tape.previous_h.data(), places);
  const int64_t of_h = resets_before_ ? 2 * hidden : gates;
  const double* d_hidden = tape.d_hidden.data();
  rounding_.multiply_add(of_h, out_, places, transposed(d_hidden, gates), plain(read.data(), out_),
                         dw.data());
  if (!resets_before_) return;
  for (int64_t place = 0; place < places; ++place)
    for (int64_t j = 0; j < hidden; ++j) read[place * hidden + j] *= trace.gates[place * gates + j];
  rounding_.store(read);
  rounding_.multiply_add(hidden, hidden, places, transposed(d_hidden + of_h, gates),
                         plain(read.data(), hidden), &dw[of_h * hidden]);
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
  add_sums(places, gates, tape.d_input.data(), dw.bias_ih);
  for (int64_t place = 0; s_.peepholes && place < places; ++place)
    for (int64_t j = 0; j < hidden; ++j) {
      const double* d = &tape.d_input[place * gates + j];
      const double before = tape.previous_c[place * hidden + j];
      dw.peephole[j] += d[0] * before;
      dw.peephole[hidden + j] += d[hidden] * before;
      dw.peephole[2 * hidden + j] += d[3 * hidden] * trace.new_cells[place * hidden + j];
    }
  rounding_.keep(dw.peephole);
  if (s_.layer_norm) {
    Vector product(places * gates);
    rounding_.multiply_add(places, gates, input_, plain(x.data(), input_),
                           transposed(w_.weight_ih.data(), input_), product.data());
    sums_backward(places, product.data(), w_.gain_ih, tape.d_input.data(), dw.gain_ih.data());
    rounding_.store(tape.d_input);
    for (Vector* sums : {&dw.gain_ih, &dw.gain_hh, &dw.gain_c, &dw.shift_c}) rounding_.keep(*sums);
  }
  rounding_.multiply_add(places, input_, gates, plain(tape.d_input.data(), gates),
                         plain(w_.weight_ih.data(), input_), dx.data());
  rounding_.multiply_add(gates, input_, places, transposed(tape.d_input.data(), gates),
                         plain(x.data(), input_), dw.weight_ih.data());
  recurrent_weight_backward(trace, tape, dw.weight_hh);
  if (projects_)
    rounding_.multiply_add(out, hidden, places, transposed(tape.d_output.data(), out),
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
  rounding_.keep(d_output, rows * out);
  if (projects_) rounding_.store(d_output, rows * out);
  Vector d_raw(d_output, d_output + rows * out);
  if (projects_) {
    d_raw.assign(rows * hidden, 0.0);
    rounding_.multiply_add(rows, hidden, out, plain(d_output, out),
                           plain(w_.weight_hr.data(), hidden), d_raw.data());
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
  rounding_.store(&tape.d_input[t * rows * gates], rows * gates);
  // Where both are the same they are rounded alike.
  if (s_.cell == Cell::kGru) {
    rounding_.store(d_hidden, rows * gates);
  } else {
    std::copy_n(&tape.d_input[t * rows * gates], rows * gates, d_hidden);
  }
  Vector through(rows * out);
  if (resets_before_) reset_candidates_backward(t, trace, tape, through);
  add_sums(rows, gates, d_hidden, tape.dw.bias_hh);
  if (s_.layer_norm) {
    const Vector factor = dropped(&tape.previous_h[t * rows * out], rows);
    Vector product(rows * gates), normalized(hidden);
    rounding_.multiply_add(rows, gates, out, plain(factor.data(), out),
                           transposed(w_.weight_hh.data(), out), product.data());
    sums_backward(rows, product.data(), w_.gain_hh, d_hidden, tape.dw.gain_hh.data());
    rounding_.store(d_hidden, rows * gates);
    for (int64_t b = 0; b < rows; ++b) {
      normalize(hidden, &trace.new_cells[(t * rows + b) * hidden], normalized.data());
      for (int64_t j = 0; j < hidden; ++j) {
        tape.dw.gain_c[j] += d_normalized[b * hidden + j] * normalized[j];
        tape.dw.shift_c[j] += d_normalized[b * hidden + j];
      }
    }
  }
  rounding_.multiply_add(rows, out, resets_before_ ? 2 * hidden : gates, plain(d_hidden, gates),
                         plain(w_.weight_hh.data(), out), through.data());
  through = dropped(through.data(), rows);
  for (int64_t b = 0; b < rows; ++b) {
    if (!active(t, b)) continue;
    for (int64_t j = 0; j < out; ++j)
      dh[b * out + j] =
          through[b * out + j] + kept_dh[b * out + j] + (lstm_ ? 0.0 : direct[b * hidden + j]);
    for (int64_t j = 0; lstm_ && j < hidden; ++j) dc[b * hidden + j] += kept_dc[b * hidden + j];
    rounding_.keep(dh + b * out, out);
    if (lstm_) rounding_.keep(dc + b * hidden, hidden);
    if (!starts_anew(t, b)) continue;
    std::fill_n(dh + b * out, out, 0.0);
    if (lstm_) std::fill_n(dc + b * hidden, hidden, 0.0);
  }
}

}  // namespace sluice::oracle
