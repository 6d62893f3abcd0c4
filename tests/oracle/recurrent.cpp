#include "oracle/recurrent.h"

#include <algorithm>

#include "oracle/direction.h"
#include "oracle/size_check.h"

namespace sluice::oracle {
namespace {

void check_weights(const StackShape& stack, const std::vector<Weights>& weights) {
  check_size("the list of weights", weights.size(), stack.layers * stack.directions);
  for (int64_t k = 0; k < stack.layers * stack.directions; ++k) {
    const StackShape s = stack.of_layer(k / stack.directions);
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
  const bool lstm = s.cell == Cell::kLstm;
  if (!lstm && !s.projection.empty()) fail("only the LSTM has a projection");
  if (!lstm && (s.peepholes || s.layer_norm)) fail("only the LSTM has peepholes and layer norm");
  if (s.hard_sigmoid && gate_count(s.cell) == 1) fail("a plain RNN has no gates");
  if (!lstm && !(in.c0.empty() && in.zoneout_c.empty())) fail("only the LSTM has a cell state");
  if (!s.projection.empty()) check_size("the list of projections", s.projection.size(), s.layers);
  if (!s.widths.empty()) check_size("the list of widths", s.widths.size(), s.layers);
  check_weights(s, weights);
  check_size("x", in.x.size(), s.time * s.rows * s.input);
  check_size_or_empty("lengths", in.lengths.size(), s.rows);
  for (const int length : in.lengths)
    if (length < 0 || length > s.time) fail("a length lies outside 0..time");
  check_size_or_empty("h0", in.h0.size(), s.states(s.layers * s.directions));
  check_size_or_empty("c0", in.c0.size(), s.cells(s.layers * s.directions));
  check_size_or_empty("the list of dropout masks", in.dropout.size(), s.layers - 1);
  for (size_t l = 0; l < in.dropout.size(); ++l)
    check_size("a dropout mask", in.dropout[l].size(), s.time * s.rows * s.input_of(l + 1));
  check_size_or_empty("resets", in.resets.size(), s.time * s.rows);
  const auto check_masks = [&](const char* what, const std::vector<Vector>& masks, int64_t places,
                               bool of_cells) {
    check_size_or_empty(what, masks.size(), s.layers * s.directions);
    for (size_t k = 0; k < masks.size(); ++k)
      check_size(what, masks[k].size(),
                 places * (of_cells ? s.hidden_of(k / s.directions) : s.out(k / s.directions)));
  };
  check_masks("zoneout_h", in.zoneout_h, s.time * s.rows, false);
  check_masks("zoneout_c", in.zoneout_c, s.time * s.rows, true);
  check_masks("recurrent_dropout", in.recurrent_dropout, s.rows, false);
}

void check(const StackShape& s, const StackOutputGradients& g) {
  const int64_t count = s.layers * s.directions;
  if (s.cell != Cell::kLstm && (!g.dcn.empty() || !g.dcells.empty()))
    fail("only the LSTM has a cell state");
  check_size_or_empty("dy", g.dy.size(), s.time * s.rows * s.input_of(s.layers));
  check_size_or_empty("dhn", g.dhn.size(), s.states(count));
  check_size_or_empty("dcn", g.dcn.size(), s.cells(count));
  check_size_or_empty("the list dcells", g.dcells.size(), count);
  for (size_t k = 0; k < g.dcells.size(); ++k)
    check_size("dcells", g.dcells[k].size(), s.time * s.rows * s.hidden_of(k / s.directions));
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
      weights.push_back(zero_weights(shape.cell, shape.input_of(layer), shape.hidden_of(layer),
                                     shape.projection.empty() ? 0 : shape.projection[layer],
                                     shape.peepholes, shape.layer_norm));
  return weights;
}

StackOutput forward(const StackShape& s, const std::vector<Weights>& weights,
                    const StackInput& input, Rounding* rounding) {
  check(s, weights, input);
  Rounding exact(Format::kFloat64), &rounds = rounding == nullptr ? exact : *rounding;
  const std::vector<int> lengths = lengths_of(s, input);
  const int64_t places = s.time * s.rows, count = s.layers * s.directions;
  StackOutput result;
  result.hn = or_zeros(input.h0, s.states(count));
  if (s.cell == Cell::kLstm) result.cn = or_zeros(input.c0, s.cells(count));

  Vector x = without_padding(s, lengths, s.input, input.x);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const StackShape own = s.of_layer(layer);
    const int64_t out = s.out(layer), width = s.directions * out;
    Vector y(places * width);
    for (int64_t d = 0; d < s.directions; ++d) {
      const int64_t k = layer * s.directions + d;
      const Direction direction(own, layer, d, weights[k], lengths, input, rounds);
      result.traces.push_back(
          direction.forward(x, slice(result.hn, s.states(k)), slice(result.cn, s.cells(k))));
      for (int64_t p = 0; p < places; ++p)
        std::copy_n(&result.traces[k].h[p * out], out, &y[p * width + d * out]);
    }
    result.inputs.push_back(std::move(x));
    x = std::move(y);
    if (layer + 1 == s.layers || input.dropout.empty()) continue;
    for (int64_t i = 0; i < places * width; ++i) x[i] *= input.dropout[layer][i];
    rounds.store(x);
  }
  result.y = std::move(x);
  return result;
}

StackGradients backward(const StackShape& s, const std::vector<Weights>& weights,
                        const StackInput& input, const StackOutput& output,
                        const StackOutputGradients& gradients, Rounding* rounding) {
  check(s, weights, input);
  Rounding exact(Format::kFloat64), &rounds = rounding == nullptr ? exact : *rounding;
  check(s, gradients);
  const std::vector<int> lengths = lengths_of(s, input);
  const int64_t places = s.time * s.rows, count = s.layers * s.directions;
  Vector h0 = or_zeros(input.h0, s.states(count));
  Vector c0 = s.cell == Cell::kLstm ? or_zeros(input.c0, s.cells(count)) : Vector();
  StackGradients result;
  result.dh0 = or_zeros(gradients.dhn, s.states(count));
  if (s.cell == Cell::kLstm) result.dc0 = or_zeros(gradients.dcn, s.cells(count));
  result.weights.resize(s.layers * s.directions);

  Vector dy = or_zeros(gradients.dy, places * s.input_of(s.layers));
  for (int64_t layer = s.layers - 1; layer >= 0; --layer) {
    const StackShape own = s.of_layer(layer);
    Vector dx(places * s.input_of(layer));
    for (int64_t d = 0; d < s.directions; ++d) {
      const int64_t k = layer * s.directions + d;
      const Direction direction(own, layer, d, weights[k], lengths, input, rounds);
      result.weights[k] = direction.backward(
          output.inputs[layer], slice(h0, s.states(k)), slice(c0, s.cells(k)), output.traces[k], dy,
          gradients.dcells.empty() ? Vector() : gradients.dcells[k], slice(result.dh0, s.states(k)),
          slice(result.dc0, s.cells(k)), dx);
    }
    if (layer > 0 && !input.dropout.empty())
      for (size_t i = 0; i < dx.size(); ++i) dx[i] *= input.dropout[layer - 1][i];
    rounds.store(dx);
    dy = std::move(dx);
  }
  rounds.store(result.dh0);
  rounds.keep(result.dc0);
  result.dx = std::move(dy);
  return result;
}

}  // namespace sluice::oracle
