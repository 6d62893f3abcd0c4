#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "finite_differences.h"
#include "oracle/attention_decoder.h"
#include "random_values.h"

namespace sluice::oracle {
namespace {

using Vector = std::vector<double>;

struct Case {
  DecoderShape shape;
  DecoderWeights weights;
  DecoderInput input;
  DecoderOutputGradients gradients;
};

std::vector<std::pair<std::string, Vector*>> named(DecoderWeights& w) {
  std::vector<std::pair<std::string, Vector*>> list;
  for (Weights& cell : w.cells) {
    list.emplace_back("weight_ih", &cell.weight_ih);
    list.emplace_back("weight_hh", &cell.weight_hh);
    list.emplace_back("bias_ih", &cell.bias_ih);
    list.emplace_back("bias_hh", &cell.bias_hh);
  }
  list.emplace_back("query", &w.attention.query);
  list.emplace_back("memory weight", &w.attention.memory);
  list.emplace_back("score", &w.attention.score);
  list.emplace_back("general", &w.attention.general);
  list.emplace_back("combine", &w.combine);
  list.emplace_back("combine_bias", &w.combine_bias);
  return list;
}

Case random_case(Cell cell, Attention attention, RandomValues& random) {
  DecoderShape s{cell, attention};
  s.time = random.integer(1, 5);
  s.source_time = random.integer(1, 6);
  s.rows = random.integer(1, 5);
  s.embedding = random.integer(1, 5);
  s.memory = random.integer(1, 6);
  s.hidden = random.integer(1, 6);
  s.layers = random.integer(1, 3);
  s.output = random.integer(1, 5);
  s.key = random.integer(1, 5);
  Case c{s, zero_weights(s), {}, {}};
  for (auto& [name, values] : named(c.weights)) random.fill(*values, 0.8);
  const int64_t places = s.time * s.rows, states = s.layers * s.rows * s.hidden;
  c.input.embedded = random.vector(places * s.embedding);
  c.input.memory = random.vector(s.source_time * s.rows * s.memory);
  for (int64_t b = 0; b < s.rows; ++b) {
    c.input.lengths.push_back(static_cast<int>(b == 2 ? 0 : random.integer(1, s.time)));
    c.input.memory_lengths.push_back(
        static_cast<int>(b == 1 ? 0 : random.integer(0, s.source_time)));
  }
  c.input.h0 = random.vector(states);
  c.gradients.da = random.vector(places * s.output);
  c.gradients.dhn = random.vector(states);
  for (int64_t layer = 0; layer + 1 < s.layers; ++layer)
    c.input.dropout.push_back(random.mask(places * s.hidden, 0.3));
  if (cell != Cell::kLstm) return c;
  c.input.c0 = random.vector(states);
  c.gradients.dcn = random.vector(states);
  return c;
}

void for_each_case(const std::function<void(Case&, RandomValues&)>& check) {
  RandomValues random(11);
  for (const Cell cell :
       {Cell::kLstm, Cell::kGru, Cell::kGruResetBefore, Cell::kRnnTanh, Cell::kRnnRelu})
    for (const Attention attention : {Attention::kAdditive, Attention::kMultiplicative})
      for (int trial = 0; trial < 6; ++trial) {
        Case c = random_case(cell, attention, random);
        check(c, random);
      }
}

TEST(AttentionDecoderOracle, GradientsEqualFiniteDifferences) {
  for_each_case([](Case& c, RandomValues& random) {
    const auto loss = [&] {
      const DecoderOutput out = forward(c.shape, c.weights, c.input);
      return dot(out.a, c.gradients.da) + dot(out.hn, c.gradients.dhn) +
             dot(out.cn, c.gradients.dcn);
    };
    const DecoderOutput out = forward(c.shape, c.weights, c.input);
    DecoderGradients g = backward(c.shape, c.weights, c.input, out, c.gradients);
    expect_gradient("embedded", c.input.embedded, g.dembedded, loss, random);
    expect_gradient("memory", c.input.memory, g.dmemory, loss, random);
    expect_gradient("h0", c.input.h0, g.dh0, loss, random);
    expect_gradient("c0", c.input.c0, g.dc0, loss, random);
    const auto values = named(c.weights), gradients = named(g.weights);
    for (size_t i = 0; i < values.size(); ++i)
      expect_gradient(values[i].first, *values[i].second, *gradients[i].second, loss, random);
  });
}

TEST(AttentionDecoderOracle, InactiveRowsAndEmptyMemoriesAreZeroAndStatesKeepTheirLastValue) {
  for_each_case([](Case& c, RandomValues&) {
    const DecoderShape& s = c.shape;
    const DecoderOutput out = forward(s, c.weights, c.input);
    for (int64_t t = 0; t < s.time; ++t)
      for (int64_t b = 0; b < s.rows; ++b) {
        const int64_t place = t * s.rows + b;
        const bool active = t < c.input.lengths[b];
        double sum = 0;
        for (int64_t i = 0; i < s.source_time; ++i) {
          const double alpha = out.alpha[place * s.source_time + i];
          sum += alpha;
          if (i >= c.input.memory_lengths[b]) {
            EXPECT_EQ(alpha, 0.0);
          }
        }
        const bool attends = active && c.input.memory_lengths[b] > 0;
        EXPECT_NEAR(sum, attends ? 1.0 : 0.0, 1e-14);
        for (int64_t j = 0; j < s.output && !active; ++j)
          EXPECT_EQ(out.a[place * s.output + j], 0.0);
      }
    // A row of length 0 ends where it began.
    for (int64_t b = 0; b < s.rows; ++b)
      for (int64_t i = 0; i < s.layers * s.hidden && c.input.lengths[b] == 0; ++i) {
        const int64_t at = (i / s.hidden * s.rows + b) * s.hidden + i % s.hidden;
        EXPECT_EQ(out.hn[at], c.input.h0[at]);
      }
  });
}

TEST(AttentionDecoderOracle, WhatLiesPastTheLengthsIsNeverRead) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for_each_case([&](Case& c, RandomValues&) {
    const DecoderShape& s = c.shape;
    const DecoderOutput out = forward(s, c.weights, c.input);
    DecoderGradients g = backward(s, c.weights, c.input, out, c.gradients);
    const auto poison = [&](Vector& values, const std::vector<int>& lengths, int64_t width) {
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t place = static_cast<int64_t>(i) / width;
        if (place / s.rows >= lengths[place % s.rows]) values[i] = nan;
      }
    };
    poison(c.input.embedded, c.input.lengths, s.embedding);
    poison(c.input.memory, c.input.memory_lengths, s.memory);
    poison(c.gradients.da, c.input.lengths, s.output);
    const DecoderOutput again = forward(s, c.weights, c.input);
    EXPECT_EQ(again.a, out.a);
    EXPECT_EQ(again.alpha, out.alpha);
    EXPECT_EQ(again.hn, out.hn);
    DecoderGradients g_again = backward(s, c.weights, c.input, again, c.gradients);
    EXPECT_EQ(g_again.dembedded, g.dembedded);
    EXPECT_EQ(g_again.dmemory, g.dmemory);
    const auto values = named(g.weights), again_values = named(g_again.weights);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(*values[i].second, *again_values[i].second) << values[i].first;
  });
}

// One row, one step, one memory entry, every width 1, identity-like weights: small enough to work
// out by hand.
TEST(AttentionDecoderOracle, OneStepByHand) {
  DecoderShape s{Cell::kGru, Attention::kMultiplicative};
  DecoderWeights w = zero_weights(s);
  w.cells[0].bias_ih = {0, 0, 0.5};  // r = z = 1/2, n = tanh(1/2), h0 = 0: h = tanh(1/2) / 2
  w.attention.general = {3};
  w.combine = {0.25, 2};
  w.combine_bias = {-0.125};
  DecoderInput in;
  in.embedded = {7};
  in.memory = {1.5};
  const DecoderOutput out = forward(s, w, in);
  const double h = std::tanh(0.5) / 2;
  EXPECT_DOUBLE_EQ(out.hn[0], h);
  EXPECT_DOUBLE_EQ(out.alpha[0], 1.0);
  EXPECT_DOUBLE_EQ(out.a[0], std::tanh(0.25 * 1.5 + 2 * h - 0.125));
}

TEST(AttentionDecoderOracle, RefusesArraysOfTheWrongSize) {
  RandomValues random(5);
  const Case good = random_case(Cell::kLstm, Attention::kAdditive, random);
  Case bad = good;
  bad.input.memory.push_back(0);
  EXPECT_THROW(forward(bad.shape, bad.weights, bad.input), std::invalid_argument);
  bad = good;
  bad.weights.attention.general.push_back(0);
  EXPECT_THROW(forward(bad.shape, bad.weights, bad.input), std::invalid_argument);
  bad = good;
  bad.input.memory_lengths[0] = -1;
  EXPECT_THROW(forward(bad.shape, bad.weights, bad.input), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::oracle
