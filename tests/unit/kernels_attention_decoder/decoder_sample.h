#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention_decoder/attention_decoder.h"
#include "oracle/attention_decoder.h"
#include "unit/support/on_device.h"

/// A random decoder, its inputs and the gradients of its outputs, as plain numbers. They are exact
/// in the tested type, so that the oracle sees the same ones.
namespace sluice::kernels::attention_decoder {

struct DecoderCase {
  Descriptor d;  ///< the capacities
  std::int64_t time = 1, source = 1, rows = 1;
  bool source_lengths = true, target_lengths = true, initial_state = true, end_gradients = true;
};

inline std::string describe(const DecoderCase& c) {
  return fmt::format(
      "{} {} L{} E{} H{} M{} K{} A{} T{} S{} B{} dropout {} {}{}{}{}", recurrent::name_of(c.d.cell),
      name_of(c.d.attention), c.d.layers, c.d.embedding, c.d.hidden, c.d.memory, c.d.key,
      c.d.output, c.time, c.source, c.rows, c.d.dropout, c.source_lengths ? "s" : "-",
      c.target_lengths ? "t" : "-", c.initial_state ? "i" : "-", c.end_gradients ? "e" : "-");
}

/// Odd sizes on both sides of a panel of 16.
inline DecoderCase random_case(std::mt19937_64& engine, CellType cell, AttentionType attention,
                               DType dtype) {
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  };
  DecoderCase c;
  c.time = between(1, 7);
  c.source = between(1, 19);
  c.rows = between(1, 20);
  c.source_lengths = between(0, 3) > 0;
  c.target_lengths = between(0, 3) > 0;
  c.initial_state = between(0, 1) > 0;
  c.end_gradients = between(0, 1) > 0;
  c.d.cell = cell;
  c.d.attention = attention;
  c.d.layers = between(1, 3);
  c.d.embedding = between(1, 35);
  c.d.hidden = between(1, 35);
  c.d.memory = between(1, 35);
  c.d.key = attention == AttentionType::kAdditive ? between(1, 35) : 0;
  c.d.output = between(1, 35);
  c.d.target_time = c.time + between(0, 2);
  c.d.source_time = c.source + between(0, 2);
  c.d.rows = c.rows + between(0, 2);
  c.d.dtype = dtype;
  c.d.training = true;
  return c;
}

template <typename T>
class Sample {
 public:
  Sample(const DecoderCase& c, std::uint64_t seed) : c_(c), engine_(seed) {
    const Descriptor& d = c.d;
    shape.cell = oracle::cell_named(recurrent::name_of(d.cell));
    shape.attention = d.attention == AttentionType::kAdditive ? oracle::Attention::kAdditive
                                                              : oracle::Attention::kMultiplicative;
    shape.time = c.time;
    shape.source_time = c.source;
    shape.rows = c.rows;
    shape.embedding = d.embedding;
    shape.memory = d.memory;
    shape.hidden = d.hidden;
    shape.layers = d.layers;
    shape.output = d.output;
    shape.key = d.key;
    weights = oracle::zero_weights(shape);
    for (auto* array : arrays(weights)) *array = draw(array->size(), 0.5);
    input.embedded = draw(c.time * c.rows * d.embedding);
    input.memory = draw(c.source * c.rows * d.memory);
    if (c.source_lengths) input.memory_lengths = lengths(c.source);
    if (c.target_lengths) input.lengths = lengths(c.time);
    const bool lstm = d.cell == CellType::kLstm;
    const std::int64_t state = d.layers * c.rows * d.hidden;
    if (c.initial_state) input.h0 = draw(state);
    if (c.initial_state && lstm) input.c0 = draw(state);
    gradients.da = draw(c.time * c.rows * d.output);
    if (c.end_gradients) gradients.dhn = draw(state);
    if (c.end_gradients && lstm) gradients.dcn = draw(state);
  }

  /// Uniform on [-scale, scale), exact in T.
  std::vector<double> draw(std::size_t count, double scale = 1.0) {
    return testing::widened(
        testing::random_values<T>(engine_, static_cast<std::int64_t>(count), scale));
  }
  std::vector<double> draw(std::int64_t count) { return draw(static_cast<std::size_t>(count)); }

  /// The arrays of a set of weights in a fixed order, those that the decoder has.
  static std::vector<std::vector<double>*> arrays(oracle::DecoderWeights& w) {
    std::vector<std::vector<double>*> all;
    for (oracle::Weights& cell : w.cells) {
      for (auto* a : {&cell.weight_ih, &cell.weight_hh, &cell.bias_ih, &cell.bias_hh}) {
        all.push_back(a);
      }
    }
    for (auto* a : {&w.attention.query, &w.attention.memory, &w.attention.score,
                    &w.attention.general, &w.combine, &w.combine_bias}) {
      if (!a->empty()) all.push_back(a);
    }
    return all;
  }

  oracle::DecoderShape shape;
  oracle::DecoderWeights weights;
  oracle::DecoderInput input;
  oracle::DecoderOutputGradients gradients;

 private:
  /// 0..most, at least one of them 0 where there are several rows.
  std::vector<int> lengths(std::int64_t most) {
    std::vector<int> values(static_cast<std::size_t>(c_.rows));
    for (int& v : values) v = static_cast<int>(engine_() % static_cast<std::uint64_t>(most + 1));
    if (c_.rows > 1) values[engine_() % values.size()] = 0;
    return values;
  }

  DecoderCase c_;
  std::mt19937_64 engine_;
};

}  // namespace sluice::kernels::attention_decoder
