#include "unit/kernels_recurrent/plain_layer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/dtype.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using Floats = std::vector<float>;

float rounded(float value, DType storage) {
  if (storage == DType::kBFloat16) return static_cast<float>(base::BFloat16(value));
  if (storage == DType::kFloat16) return static_cast<float>(base::Float16(value));
  return value;
}

float without_last_bits(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~0x1fffu);
}

float sigmoid(float value) { return 1 / (1 + std::exp(-value)); }

class PlainLayer {
 public:
  PlainLayer(const StackCase& stack, bool tf32)
      : stack_(stack),
        tf32_(tf32),
        hidden_(stack.descriptor.hidden_of(0)),
        output_(stack.descriptor.output_of(0)),
        gates_(stack.descriptor.gates() * hidden_),
        lstm_(stack.descriptor.cell == CellType::kLstm),
        input_weights_(columns_of(stack.weights[0].weight_ih, stack.descriptor.input)),
        recurrent_weights_(columns_of(stack.weights[0].weight_hh, output_)),
        projection_(stack.descriptor.projects() ? columns_of(stack.weights[0].weight_hr, hidden_)
                                                : Floats()) {}

  /// y of one row.
  void run(std::int64_t row, std::vector<double>& y) const {
    const oracle::StackInput& in = stack_.input;
    const auto state = [&](const std::vector<double>& all, std::int64_t units) {
      return all.empty() ? Floats(units)
                         : Floats(all.begin() + row * units, all.begin() + (row + 1) * units);
    };
    Floats h = state(in.h0, output_), c = state(in.c0, hidden_);
    const std::int64_t width = stack_.descriptor.input;
    const std::int64_t length =
        in.lengths.empty() ? stack_.time : in.lengths[static_cast<std::size_t>(row)];
    for (std::int64_t t = 0; t < length; ++t) {
      const auto x = in.x.begin() + (t * stack_.rows + row) * width;
      const Floats from_input =
          sums(stack_.weights[0].bias_ih, input_weights_, Floats(x, x + width));
      const Floats from_hidden = sums(stack_.weights[0].bias_hh, recurrent_weights_, h);
      h.resize(hidden_);  // before a projection; only a GRU, which has none, reads it
      for (std::int64_t unit = 0; unit < hidden_; ++unit) {
        h[unit] = stored(step(unit, from_input, from_hidden, h[unit], c[unit]));
      }
      if (!projection_.empty()) {
        h = sums(std::vector<double>(output_), projection_, h);
        for (float& value : h) value = stored(value);
      }
      std::copy(h.begin(), h.end(), y.begin() + (t * stack_.rows + row) * output_);
    }
  }

 private:
  /// [columns, rows], so that a loop over rows (gates) is one over neighbours.
  Floats columns_of(const std::vector<double>& weights, std::int64_t columns) const {
    Floats result(weights.size());
    const std::int64_t rows = static_cast<std::int64_t>(weights.size()) / columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t k = 0; k < columns; ++k) {
        result[k * rows + row] = factor(static_cast<float>(weights[row * columns + k]));
      }
    }
    return result;
  }

  float stored(float value) const { return rounded(value, stack_.descriptor.dtype); }

  float factor(float value) const { return tf32_ ? without_last_bits(value) : value; }

  Floats sums(const std::vector<double>& bias, const Floats& columns, const Floats& values) const {
    Floats result(bias.begin(), bias.end());
    const float* column = columns.data();
    for (const float unrounded : values) {
      const float value = factor(unrounded);
      for (float& sum : result) sum += value * *column++;
    }
    return result;
  }

  /// The unit's new output; the LSTM's new cell state replaces c.
  float step(std::int64_t unit, const Floats& input, const Floats& recurrent, float h,
             float& c) const {
    const auto sum = [&](std::int64_t gate) {
      return input[gate * hidden_ + unit] + recurrent[gate * hidden_ + unit];
    };
    if (lstm_) {
      c = sigmoid(sum(1)) * c + sigmoid(sum(0)) * std::tanh(sum(2));
      return sigmoid(sum(3)) * std::tanh(c);
    }
    if (gates_ == hidden_) return std::tanh(sum(0));
    const float r = sigmoid(sum(0)), z = sigmoid(sum(1));
    const float n = std::tanh(input[2 * hidden_ + unit] + r * recurrent[2 * hidden_ + unit]);
    return (1 - z) * n + z * h;
  }

  const StackCase& stack_;
  const bool tf32_;
  const std::int64_t hidden_, output_, gates_;
  const bool lstm_;
  const Floats input_weights_, recurrent_weights_, projection_;
};

}  // namespace

std::vector<double> plain_outputs(const StackCase& stack, const std::string& precision) {
  const PlainLayer layer(stack, precision == "tf32");
  std::vector<double> y(static_cast<std::size_t>(stack.time * stack.rows) *
                        static_cast<std::size_t>(stack.descriptor.output_of(0)));
#pragma omp parallel for
  for (std::int64_t row = 0; row < stack.rows; ++row) layer.run(row, y);
  return y;
}

}  // namespace sluice::kernels::recurrent::testing
