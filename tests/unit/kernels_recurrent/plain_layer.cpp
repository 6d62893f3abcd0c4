#include "unit/kernels_recurrent/plain_layer.h"

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
        hidden_(stack.descriptor.hidden),
        gates_(stack.descriptor.gates() * hidden_),
        lstm_(stack.descriptor.cell == CellType::kLstm),
        input_weights_(columns_of(stack.weights[0].weight_ih, stack.descriptor.input)),
        recurrent_weights_(columns_of(stack.weights[0].weight_hh, hidden_)) {}

  /// y of one row.
  void run(std::int64_t row, std::vector<double>& y) const {
    const oracle::StackInput& in = stack_.input;
    const auto state = [&](const std::vector<double>& all) {
      return all.empty() ? Floats(hidden_)
                         : Floats(all.begin() + row * hidden_, all.begin() + (row + 1) * hidden_);
    };
    Floats h = state(in.h0), c = state(in.c0);
    const std::int64_t width = stack_.descriptor.input;
    const std::int64_t length =
        in.lengths.empty() ? stack_.time : in.lengths[static_cast<std::size_t>(row)];
    for (std::int64_t t = 0; t < length; ++t) {
      const auto x = in.x.begin() + (t * stack_.rows + row) * width;
      const Floats from_input =
          sums(stack_.weights[0].bias_ih, input_weights_, Floats(x, x + width));
      const Floats from_hidden = sums(stack_.weights[0].bias_hh, recurrent_weights_, h);
      for (std::int64_t unit = 0; unit < hidden_; ++unit) {
        h[unit] =
            rounded(step(unit, from_input, from_hidden, h[unit], c[unit]), stack_.descriptor.dtype);
        y[(t * stack_.rows + row) * hidden_ + unit] = h[unit];
      }
    }
  }

 private:
  /// [columns, gates], so that a loop over gates is one over neighbours.
  Floats columns_of(const std::vector<double>& weights, std::int64_t columns) const {
    Floats result(weights.size());
    for (std::int64_t gate = 0; gate < gates_; ++gate) {
      for (std::int64_t k = 0; k < columns; ++k) {
        result[k * gates_ + gate] = factor(static_cast<float>(weights[gate * columns + k]));
      }
    }
    return result;
  }

  float factor(float value) const { return tf32_ ? without_last_bits(value) : value; }

  Floats sums(const std::vector<double>& bias, const Floats& columns, const Floats& values) const {
    Floats result(bias.begin(), bias.end());
    for (std::size_t k = 0; k < values.size(); ++k) {
      const float value = factor(values[k]);
      const float* column = columns.data() + static_cast<std::int64_t>(k) * gates_;
      for (std::int64_t gate = 0; gate < gates_; ++gate) result[gate] += value * column[gate];
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
  const std::int64_t hidden_, gates_;
  const bool lstm_;
  const Floats input_weights_, recurrent_weights_;
};

}  // namespace

std::vector<double> plain_outputs(const StackCase& stack, const std::string& precision) {
  const PlainLayer layer(stack, precision == "tf32");
  std::vector<double> y(static_cast<std::size_t>(stack.time * stack.rows) *
                        static_cast<std::size_t>(stack.descriptor.hidden));
#pragma omp parallel for
  for (std::int64_t row = 0; row < stack.rows; ++row) layer.run(row, y);
  return y;
}

}  // namespace sluice::kernels::recurrent::testing
