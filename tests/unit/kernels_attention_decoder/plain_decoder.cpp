#include "unit/kernels_attention_decoder/plain_decoder.h"

#include <algorithm>
#include <cmath>

namespace sluice::kernels::attention_decoder {
namespace {

using Floats = std::vector<float>;
using base::DType;

float rounded(float value, DType storage) {
  if (storage == DType::kBFloat16) return static_cast<float>(base::BFloat16(value));
  if (storage == DType::kFloat16) return static_cast<float>(base::Float16(value));
  return value;
}

float sigmoid(float value) { return 1 / (1 + std::exp(-value)); }

/// A matrix [outputs, inputs], by columns, so that a loop over outputs is one over neighbours.
class Matrix {
 public:
  Matrix(const std::vector<double>& rows, std::int64_t inputs, DType storage)
      : inputs_(inputs),
        outputs_(static_cast<std::int64_t>(rows.size()) / inputs),
        columns_(rows.size()) {
    for (std::int64_t i = 0; i < outputs_; ++i) {
      for (std::int64_t k = 0; k < inputs_; ++k) {
        columns_[k * outputs_ + i] = rounded(static_cast<float>(rows[i * inputs_ + k]), storage);
      }
    }
  }

  void add_product(const Floats& values, Floats& sums) const {
    for (std::int64_t k = 0; k < inputs_; ++k) {
      const float value = values[k];
      for (std::int64_t i = 0; i < outputs_; ++i) sums[i] += value * columns_[k * outputs_ + i];
    }
  }
  Floats product(const Floats& values) const {
    Floats sums(static_cast<std::size_t>(outputs_));
    add_product(values, sums);
    return sums;
  }

 private:
  std::int64_t inputs_, outputs_;
  Floats columns_;
};

struct Layer {
  Matrix input, hidden;
  Floats bias;
};

class PlainDecoder {
 public:
  PlainDecoder(const oracle::DecoderShape& shape, const oracle::DecoderWeights& weights,
               DType storage)
      : s_(shape),
        storage_(storage),
        query_(weights.attention.query, shape.hidden, storage),
        key_(weights.attention.memory, shape.memory, storage),
        output_(weights.combine, shape.memory + shape.hidden, storage),
        score_(weights.attention.score.begin(), weights.attention.score.end()),
        output_bias_(weights.combine_bias.begin(), weights.combine_bias.end()) {
    for (std::int64_t l = 0; l < shape.layers; ++l) {
      const oracle::Weights& cell = weights.cells[static_cast<std::size_t>(l)];
      Floats bias(cell.bias_ih.begin(), cell.bias_ih.end());
      for (std::size_t i = 0; i < bias.size(); ++i) bias[i] += static_cast<float>(cell.bias_hh[i]);
      layers_.push_back({{cell.weight_ih, shape.input_of(l), storage},
                         {cell.weight_hh, shape.hidden, storage},
                         std::move(bias)});
    }
  }

  void run(const oracle::DecoderInput& input, std::int64_t row, PlainOutputs& out) const {
    const auto index = static_cast<std::size_t>(row);
    const std::int64_t length = input.lengths.empty() ? s_.time : input.lengths[index];
    const std::int64_t source =
        input.memory_lengths.empty() ? s_.source_time : input.memory_lengths[index];
    std::vector<Floats> h, c, values, keys;
    for (std::int64_t l = 0; l < s_.layers; ++l) {
      h.push_back(line(input.h0, l * s_.rows + row, s_.hidden));
      c.push_back(line(input.c0, l * s_.rows + row, s_.hidden));
      round(h.back());
    }
    for (std::int64_t i = 0; i < source; ++i) {
      values.push_back(line(input.memory, i * s_.rows + row, s_.memory));
      round(values.back());
      keys.push_back(key_.product(values.back()));
      round(keys.back());
    }
    Floats a(static_cast<std::size_t>(s_.output));
    for (std::int64_t t = 0; t < length; ++t) {
      Floats x = line(input.embedded, t * s_.rows + row, s_.embedding);
      round(x);
      x.insert(x.end(), a.begin(), a.end());
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        step(layers_[l], x, h[l], c[l]);
        x = h[l];
      }
      const Floats alpha = attend(query_.product(x), keys);
      a = attended(x, alpha, values);
      store(alpha, (t * s_.rows + row) * s_.source_time, out.alpha);
      store(a, (t * s_.rows + row) * s_.output, out.a);
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const std::int64_t place = (static_cast<std::int64_t>(l) * s_.rows + row) * s_.hidden;
      store(h[l], place, out.hn);
      std::copy(c[l].begin(), c[l].end(), out.cn.begin() + place);
    }
  }

 private:
  /// Row `place` of a matrix of so many columns; zeros of an absent one.
  static Floats line(const std::vector<double>& values, std::int64_t place, std::int64_t width) {
    if (values.empty()) return Floats(static_cast<std::size_t>(width));
    return Floats(values.begin() + place * width, values.begin() + (place + 1) * width);
  }
  void round(Floats& values) const {
    for (float& value : values) value = rounded(value, storage_);
  }
  void store(const Floats& values, std::int64_t place, std::vector<double>& to) const {
    std::transform(values.begin(), values.end(), to.begin() + place,
                   [&](float value) { return rounded(value, storage_); });
  }

  void step(const Layer& layer, const Floats& x, Floats& h, Floats& c) const {
    Floats sums = layer.bias;
    layer.input.add_product(x, sums);
    layer.hidden.add_product(h, sums);
    const std::size_t units = h.size();
    for (std::size_t i = 0; i < units; ++i) {
      c[i] = sigmoid(sums[units + i]) * c[i] + sigmoid(sums[i]) * std::tanh(sums[2 * units + i]);
      h[i] = rounded(sigmoid(sums[3 * units + i]) * std::tanh(c[i]), storage_);
    }
  }

  Floats attend(const Floats& query, const std::vector<Floats>& keys) const {
    Floats alpha;
    for (const Floats& key : keys) {
      float score = 0;
      for (std::size_t k = 0; k < key.size(); ++k)
        score += score_[k] * std::tanh(query[k] + key[k]);
      alpha.push_back(score);
    }
    if (alpha.empty()) return alpha;
    const float most = *std::max_element(alpha.begin(), alpha.end());
    float total = 0;
    for (float& weight : alpha) total += weight = std::exp(weight - most);
    for (float& weight : alpha) weight /= total;
    return alpha;
  }

  /// a of a step.
  Floats attended(const Floats& q, const Floats& alpha, const std::vector<Floats>& values) const {
    Floats combined(static_cast<std::size_t>(s_.memory));
    for (std::size_t s = 0; s < alpha.size(); ++s) {
      for (std::size_t i = 0; i < combined.size(); ++i) combined[i] += alpha[s] * values[s][i];
    }
    round(combined);
    combined.insert(combined.end(), q.begin(), q.end());
    Floats a = output_bias_;
    output_.add_product(combined, a);
    for (float& value : a) value = rounded(std::tanh(value), storage_);
    return a;
  }

  const oracle::DecoderShape& s_;
  const DType storage_;
  const Matrix query_, key_, output_;
  const Floats score_, output_bias_;
  std::vector<Layer> layers_;
};

}  // namespace

PlainOutputs plain_outputs(const oracle::DecoderShape& s, const oracle::DecoderWeights& weights,
                           const oracle::DecoderInput& input, DType storage) {
  const PlainDecoder decoder(s, weights, storage);
  const auto zeros = [](std::int64_t count) {
    return std::vector<double>(static_cast<std::size_t>(count));
  };
  PlainOutputs out{zeros(s.time * s.rows * s.output), zeros(s.time * s.rows * s.source_time),
                   zeros(s.layers * s.rows * s.hidden), zeros(s.layers * s.rows * s.hidden)};
#pragma omp parallel for
  for (std::int64_t row = 0; row < s.rows; ++row) decoder.run(input, row, out);
  return out;
}

}  // namespace sluice::kernels::attention_decoder
