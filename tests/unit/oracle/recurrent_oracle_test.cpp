#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "finite_differences.h"
#include "oracle/recurrent.h"
#include "random_values.h"

namespace sluice::oracle {
namespace {

using Vector = std::vector<double>;

struct Case {
  StackShape shape;
  std::vector<Weights> weights;
  StackInput input;
  StackOutputGradients gradients;
};

Case random_case(StackShape s, RandomValues& random) {
  Case c{s, zero_weights(s), {}, {}};
  for (Weights& w : c.weights)
    for (Vector* v : {&w.weight_ih, &w.weight_hh, &w.bias_ih, &w.bias_hh, &w.weight_hr, &w.peephole,
                      &w.gain_ih, &w.gain_hh, &w.gain_c, &w.shift_c})
      random.fill(*v, 0.8);
  const int64_t places = s.time * s.rows;
  const int64_t outputs = s.states(s.layers * s.directions);
  const int64_t cells = s.cells(s.layers * s.directions);
  c.input.x = random.vector(places * s.input);
  for (int64_t b = 0; b < s.rows; ++b)
    c.input.lengths.push_back(static_cast<int>(b == 1 ? 0 : random.integer(0, s.time)));
  c.input.h0 = random.vector(outputs);
  c.gradients.dy = random.vector(places * s.input_of(s.layers));
  c.gradients.dhn = random.vector(outputs);
  for (int64_t layer = 0; layer + 1 < s.layers; ++layer)
    c.input.dropout.push_back(random.mask(places * s.input_of(layer + 1), 0.3));
  for (int64_t i = 0; s.time > 1 && i < places; ++i)
    c.input.resets.push_back(random.integer(0, 3) == 0 ? 1 : 0);
  const bool masked = random.integer(0, 1) == 0, zoned = random.integer(0, 1) == 0;
  for (int64_t k = 0; k < s.layers * s.directions; ++k) {
    const int64_t out = s.out(k / s.directions);
    if (masked) c.input.recurrent_dropout.push_back(random.mask(s.rows * out, 0.4));
    if (!zoned) continue;
    // Shares that no mask has, too: the expectation of masks is one.
    c.input.zoneout_h.push_back(random.vector(places * out, 0.5));
    const int64_t hidden = s.hidden_of(k / s.directions);
    if (s.cell == Cell::kLstm) c.input.zoneout_c.push_back(random.vector(places * hidden, 0.5));
  }
  if (s.cell != Cell::kLstm) return c;
  c.input.c0 = random.vector(cells);
  c.gradients.dcn = random.vector(cells);
  for (int64_t k = 0; k < s.layers * s.directions; ++k)
    c.gradients.dcells.push_back(random.vector(places * s.hidden_of(k / s.directions)));
  return c;
}

StackShape random_shape(Cell cell, int64_t directions, bool projects, RandomValues& random,
                        bool uneven = false) {
  StackShape s;
  s.cell = cell;
  s.time = random.integer(1, 6);
  s.rows = random.integer(1, 5);
  s.input = random.integer(1, 7);
  s.hidden = random.integer(2, 7);
  s.layers = random.integer(uneven ? 2 : 1, 3);
  s.directions = directions;
  for (int64_t layer = 0; uneven && layer < s.layers; ++layer)
    s.widths.push_back(random.integer(2, 7));
  if (uneven) s.hidden = 0;  // nothing may read it
  for (int64_t layer = 0; projects && layer < s.layers; ++layer)
    s.projection.push_back(random.integer(1, s.hidden_of(layer) - 1));
  s.peepholes = cell == Cell::kLstm && random.integer(0, 1) == 0;
  s.layer_norm = cell == Cell::kLstm && random.integer(0, 1) == 0;
  s.hard_sigmoid = gate_count(cell) > 1 && random.integer(0, 2) == 0;
  return s;
}

/// All combinations, several shapes each; of layers of one width, or of widths of their own.
void for_each_case(bool uneven, const std::function<void(Case&, RandomValues&)>& check) {
  RandomValues random(9);
  for (const Cell cell :
       {Cell::kLstm, Cell::kGru, Cell::kGruResetBefore, Cell::kRnnTanh, Cell::kRnnRelu})
    for (const int64_t directions : {1, 2})
      for (const bool projects : {false, true})
        for (int trial = 0; trial < 4; ++trial) {
          if (projects && cell != Cell::kLstm) continue;
          Case c = random_case(random_shape(cell, directions, projects, random, uneven), random);
          check(c, random);
        }
}
void for_each_case(const std::function<void(Case&, RandomValues&)>& check) {
  for (const bool uneven : {false, true}) for_each_case(uneven, check);
}

TEST(RecurrentOracle, GradientsEqualFiniteDifferences) {
  for_each_case([](Case& c, RandomValues& random) {
    // Behind a boundary, layer norm divides by next to nothing, which central differences take in
    // some shapes only. Single layers with it are checked, and stacks have the bits of those.
    if (c.shape.layer_norm && !c.shape.widths.empty()) return;
    const auto loss = [&] {
      const StackOutput out = forward(c.shape, c.weights, c.input);
      double sum =
          dot(out.y, c.gradients.dy) + dot(out.hn, c.gradients.dhn) + dot(out.cn, c.gradients.dcn);
      for (size_t k = 0; k < c.gradients.dcells.size(); ++k)
        sum += dot(out.traces[k].cells, c.gradients.dcells[k]);
      return sum;
    };
    const StackOutput out = forward(c.shape, c.weights, c.input);
    const StackGradients g = backward(c.shape, c.weights, c.input, out, c.gradients);
    expect_gradient("x", c.input.x, g.dx, loss, random);
    expect_gradient("h0", c.input.h0, g.dh0, loss, random);
    expect_gradient("c0", c.input.c0, g.dc0, loss, random);
    for (size_t k = 0; k < c.weights.size(); ++k) {
      Weights& w = c.weights[k];
      const Weights& dw = g.weights[k];
      expect_gradient("weight_ih", w.weight_ih, dw.weight_ih, loss, random);
      expect_gradient("weight_hh", w.weight_hh, dw.weight_hh, loss, random);
      expect_gradient("bias_ih", w.bias_ih, dw.bias_ih, loss, random);
      expect_gradient("bias_hh", w.bias_hh, dw.bias_hh, loss, random);
      expect_gradient("weight_hr", w.weight_hr, dw.weight_hr, loss, random);
      expect_gradient("peephole", w.peephole, dw.peephole, loss, random);
      expect_gradient("gain_ih", w.gain_ih, dw.gain_ih, loss, random);
      expect_gradient("gain_hh", w.gain_hh, dw.gain_hh, loss, random);
      expect_gradient("gain_c", w.gain_c, dw.gain_c, loss, random);
      expect_gradient("shift_c", w.shift_c, dw.shift_c, loss, random);
    }
  });
}

/// Row b of [outer, rows, width], the first `time` of every outer index for time-major arrays.
Vector row_of(const Vector& values, int64_t outer, int64_t rows, int64_t width, int64_t b) {
  Vector result;
  for (int64_t o = 0; o < outer; ++o) {
    const auto from = values.begin() + (o * rows + b) * width;
    result.insert(result.end(), from, from + width);
  }
  return result;
}

/// Row b of states of every layer and direction.
Vector state_of(const StackShape& s, const Vector& states, int64_t b) {
  Vector result;
  for (int64_t k = 0; k < s.layers * s.directions; ++k) {
    const int64_t out = s.out(k / s.directions);
    const auto from = states.begin() + s.states(k) + b * out;
    result.insert(result.end(), from, from + out);
  }
  return result;
}

/// Row b of cell states of every layer and direction.
Vector cells_of(const StackShape& s, const Vector& cells, int64_t b) {
  Vector result;
  for (int64_t k = 0; k < s.layers * s.directions; ++k) {
    const int64_t hidden = s.hidden_of(k / s.directions);
    const auto from = cells.begin() + s.cells(k) + b * hidden;
    result.insert(result.end(), from, from + hidden);
  }
  return result;
}

// The order of every sum is the same alone and in the batch, so the bits are.
TEST(RecurrentOracle, ARowOfTheBatchEqualsTheRowAloneAtItsOwnLength) {
  for_each_case([](Case& c, RandomValues&) {
    const StackShape& s = c.shape;
    const int64_t width = s.input_of(s.layers);
    const StackOutput all = forward(s, c.weights, c.input);
    for (int64_t b = 0; b < s.rows; ++b) {
      const int64_t length = c.input.lengths[b];
      const Vector hn = state_of(s, all.hn, b);
      if (length == 0) {
        EXPECT_EQ(hn, state_of(s, c.input.h0, b));
        EXPECT_EQ(row_of(all.y, s.time, s.rows, width, b), Vector(s.time * width));
        continue;
      }
      StackShape alone = s;
      alone.rows = 1;
      alone.time = length;
      StackInput input;
      input.x = row_of(c.input.x, length, s.rows, s.input, b);
      input.h0 = state_of(s, c.input.h0, b);
      if (s.cell == Cell::kLstm) input.c0 = cells_of(s, c.input.c0, b);
      for (const Vector& mask : c.input.dropout) {
        const int64_t layer = static_cast<int64_t>(input.dropout.size());
        input.dropout.push_back(row_of(mask, length, s.rows, s.input_of(layer + 1), b));
      }
      for (int64_t t = 0; !c.input.resets.empty() && t < length; ++t)
        input.resets.push_back(c.input.resets[t * s.rows + b]);
      const auto out_of = [&](const std::vector<Vector>& before) {
        return s.out(static_cast<int64_t>(before.size()) / s.directions);
      };
      for (const Vector& mask : c.input.recurrent_dropout)
        input.recurrent_dropout.push_back(
            row_of(mask, 1, s.rows, out_of(input.recurrent_dropout), b));
      for (const Vector& kept : c.input.zoneout_h)
        input.zoneout_h.push_back(row_of(kept, length, s.rows, out_of(input.zoneout_h), b));
      for (const Vector& kept : c.input.zoneout_c) {
        const int64_t layer = static_cast<int64_t>(input.zoneout_c.size()) / s.directions;
        input.zoneout_c.push_back(row_of(kept, length, s.rows, s.hidden_of(layer), b));
      }
      const StackOutput out = forward(alone, c.weights, input);
      Vector y = out.y;
      y.resize(s.time * width);  // zeros past the row's end
      EXPECT_EQ(row_of(all.y, s.time, s.rows, width, b), y);
      EXPECT_EQ(hn, out.hn);
    }
  });
}

// Of one layer, whose directions see nothing of each other.
TEST(RecurrentOracle, SequencesBehindABoundaryEqualSequencesAlone) {
  for_each_case([](Case& c, RandomValues& random) {
    StackShape s = c.shape;
    s.layers = s.rows = 1;
    if (!s.projection.empty()) s.projection.resize(1);
    if (!s.widths.empty()) s.widths.resize(1);
    s.time = 7;
    c = random_case(s, random);
    const int64_t boundary = 3;
    c.input.lengths.clear();
    c.input.zoneout_h.clear();
    c.input.zoneout_c.clear();
    c.input.resets.assign(s.time, 0);
    c.input.resets[boundary] = 1;
    const StackOutput joined = forward(s, c.weights, c.input);
    const auto part = [&](int64_t begin, int64_t end, int64_t direction_with_state) {
      StackShape alone = s;
      alone.time = end - begin;
      StackInput input;
      input.x.assign(c.input.x.begin() + begin * s.input, c.input.x.begin() + end * s.input);
      input.recurrent_dropout = c.input.recurrent_dropout;
      input.h0 = c.input.h0;
      input.c0 = c.input.c0;
      const auto clear_others = [&](Vector& states, int64_t size) {
        for (size_t i = 0; i < states.size(); ++i)
          if (static_cast<int64_t>(i) / size != direction_with_state) states[i] = 0;
      };
      clear_others(input.h0, s.out(0));
      clear_others(input.c0, s.hidden_of(0));
      return forward(alone, c.weights, input);
    };
    const StackOutput first = part(0, boundary, 0), second = part(boundary, s.time, 1);
    Vector y = first.y;
    y.insert(y.end(), second.y.begin(), second.y.end());
    EXPECT_EQ(joined.y, y);
    EXPECT_EQ(row_of(joined.hn, 1, s.directions, s.out(0), 0),
              row_of(second.hn, 1, s.directions, s.out(0), 0));
    if (s.directions == 1) return;
    EXPECT_EQ(row_of(joined.hn, 1, 2, s.out(0), 1), row_of(first.hn, 1, 2, s.out(0), 1));
  });
}

TEST(RecurrentOracle, WhatLiesPastARowsEndIsNeverRead) {
  for_each_case([](Case& c, RandomValues&) {
    const StackShape& s = c.shape;
    const StackOutput out = forward(s, c.weights, c.input);
    const StackGradients g = backward(s, c.weights, c.input, out, c.gradients);
    const auto poison = [&](Vector& values, int64_t width) {
      for (int64_t t = 0; t < s.time; ++t)
        for (int64_t b = 0; b < s.rows; ++b)
          for (int64_t j = 0; j < width && t >= c.input.lengths[b]; ++j)
            values[(t * s.rows + b) * width + j] = std::numeric_limits<double>::quiet_NaN();
    };
    poison(c.input.x, s.input);
    poison(c.gradients.dy, s.input_of(s.layers));
    for (size_t k = 0; k < c.gradients.dcells.size(); ++k)
      poison(c.gradients.dcells[k], s.hidden_of(static_cast<int64_t>(k) / s.directions));
    const StackOutput again = forward(s, c.weights, c.input);
    EXPECT_EQ(again.y, out.y);
    EXPECT_EQ(again.hn, out.hn);
    EXPECT_EQ(again.cn, out.cn);
    const StackGradients g_again = backward(s, c.weights, c.input, again, c.gradients);
    EXPECT_EQ(g_again.dx, g.dx);
    EXPECT_EQ(g_again.dh0, g.dh0);
    EXPECT_EQ(g_again.weights[0].weight_ih, g.weights[0].weight_ih);
    EXPECT_EQ(g_again.weights[0].weight_hh, g.weights[0].weight_hh);
  });
}

/// One layer of a case as a stack of its own. It reads `x`; `dy` is the gradient of what it
/// returns.
Case layer_of(const Case& c, int64_t layer, const Vector& x, const Vector& dy) {
  const StackShape& s = c.shape;
  const int64_t first = layer * s.directions, end = first + s.directions;
  Case own{s, {c.weights.begin() + first, c.weights.begin() + end}, {}, {}};
  own.shape.layers = 1;
  own.shape.input = s.input_of(layer);
  own.shape.hidden = s.hidden_of(layer);
  own.shape.widths.clear();
  if (!s.projection.empty()) own.shape.projection = {s.projection[layer]};
  const auto h_of = [&](const Vector& all) {
    return Vector(all.begin() + s.states(first), all.begin() + s.states(end));
  };
  const auto c_of = [&](const Vector& all) {
    return all.empty() ? all : Vector(all.begin() + s.cells(first), all.begin() + s.cells(end));
  };
  const auto lists_of = [&](const std::vector<Vector>& all) {
    return all.empty() ? all : std::vector<Vector>(all.begin() + first, all.begin() + end);
  };
  own.input = {x, c.input.lengths, h_of(c.input.h0), c_of(c.input.c0), {}, c.input.resets};
  own.input.zoneout_h = lists_of(c.input.zoneout_h);
  own.input.zoneout_c = lists_of(c.input.zoneout_c);
  own.input.recurrent_dropout = lists_of(c.input.recurrent_dropout);
  own.gradients = {dy, h_of(c.gradients.dhn), c_of(c.gradients.dcn), lists_of(c.gradients.dcells)};
  return own;
}

void times(Vector& values, const Vector& factors) {
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
}

/// Appends `part` to `whole`, or puts it in front.
void append(Vector& whole, const Vector& part) {
  whole.insert(whole.end(), part.begin(), part.end());
}
void prepend(Vector& whole, const Vector& part) {
  whole.insert(whole.begin(), part.begin(), part.end());
}

// Both sides take the same steps in the same order, so the bits are equal.
TEST(RecurrentOracle, AStackOfUnequalWidthsEqualsItsLayersOneAfterTheOther) {
  for_each_case(true, [](Case& c, RandomValues&) {
    const StackShape& s = c.shape;
    const StackOutput all = forward(s, c.weights, c.input);
    std::vector<StackOutput> outputs;
    Vector x = c.input.x, hn, cn;
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      const Case own = layer_of(c, layer, x, {});
      outputs.push_back(forward(own.shape, own.weights, own.input));
      append(hn, outputs.back().hn);
      append(cn, outputs.back().cn);
      x = outputs.back().y;
      if (layer + 1 < s.layers) times(x, c.input.dropout[layer]);
    }
    EXPECT_EQ(all.y, x);
    EXPECT_EQ(all.hn, hn);
    EXPECT_EQ(all.cn, cn);
    const StackGradients g = backward(s, c.weights, c.input, all, c.gradients);
    Vector dy = c.gradients.dy, dh0, dc0;
    for (int64_t layer = s.layers; layer-- > 0;) {
      const Case own = layer_of(c, layer, all.inputs[layer], dy);
      const StackGradients alone =
          backward(own.shape, own.weights, own.input, outputs[layer], own.gradients);
      prepend(dh0, alone.dh0);
      prepend(dc0, alone.dc0);
      for (int64_t d = 0; d < s.directions; ++d) {
        const Weights &got = g.weights[layer * s.directions + d], &want = alone.weights[d];
        EXPECT_EQ(got.weight_ih, want.weight_ih);
        EXPECT_EQ(got.weight_hh, want.weight_hh);
        EXPECT_EQ(got.bias_ih, want.bias_ih);
        EXPECT_EQ(got.bias_hh, want.bias_hh);
        EXPECT_EQ(got.weight_hr, want.weight_hr);
        EXPECT_EQ(got.peephole, want.peephole);
        EXPECT_EQ(got.gain_c, want.gain_c);
      }
      dy = alone.dx;
      if (layer > 0) times(dy, c.input.dropout[layer - 1]);
    }
    EXPECT_EQ(g.dx, dy);
    EXPECT_EQ(g.dh0, dh0);
    EXPECT_EQ(g.dc0, dc0);
  });
}

TEST(RecurrentOracle, EmptyArraysStandForZerosAndFullLengths) {
  RandomValues random(3);
  StackShape s = random_shape(Cell::kLstm, 2, false, random);
  Case c = random_case(s, random);
  c.input.lengths.assign(s.rows, static_cast<int>(s.time));
  c.input.h0.assign(c.input.h0.size(), 0.0);
  c.input.c0.assign(c.input.c0.size(), 0.0);
  StackInput bare = c.input;
  bare.lengths.clear();
  bare.h0.clear();
  bare.c0.clear();
  const StackOutput out = forward(s, c.weights, c.input);
  EXPECT_EQ(out.y, forward(s, c.weights, bare).y);
  const StackGradients g = backward(s, c.weights, bare, out, {c.gradients.dy, {}, {}, {}});
  const Vector zero_h(c.gradients.dhn.size()), zero_c(c.gradients.dcn.size());
  EXPECT_EQ(g.dx, backward(s, c.weights, c.input, out, {c.gradients.dy, zero_h, zero_c, {}}).dx);
}

TEST(RecurrentOracle, RefusesArraysOfTheWrongSize) {
  RandomValues random(4);
  StackShape s = random_shape(Cell::kGru, 1, false, random);
  const Case good = random_case(s, random);
  Case bad = good;
  bad.input.x.pop_back();
  EXPECT_THROW(forward(s, bad.weights, bad.input), std::invalid_argument);
  bad = good;
  bad.input.lengths[0] = static_cast<int>(s.time) + 1;
  EXPECT_THROW(forward(s, bad.weights, bad.input), std::invalid_argument);
  bad = good;
  bad.weights[0].bias_hh.push_back(0);
  EXPECT_THROW(forward(s, bad.weights, bad.input), std::invalid_argument);
  bad = good;
  bad.shape.widths.assign(bad.shape.layers + 1, bad.shape.hidden);
  EXPECT_THROW(forward(bad.shape, bad.weights, bad.input), std::invalid_argument);
  bad = good;
  bad.shape.projection.assign(bad.shape.layers, 1);
  EXPECT_THROW(forward(bad.shape, bad.weights, bad.input), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::oracle
