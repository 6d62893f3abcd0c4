#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

/// dynamic_lstm and dynamic_gru of Paddle 1, with the fully connected layer before them, by the
/// formulas of their documentation.
class PaddleEquations final : public CellEquations {
 public:
  explicit PaddleEquations(const SourceCell& cell)
      : cell_(cell),
        input_weight_(cell.get("input_weight")),
        input_bias_(cell.find("input_bias")),
        weight_(cell.get("weight")),
        bias_(cell.find("bias")) {}

  void step(std::span<const double> x, CellState& state) const override {
    if (cell_.kind == CellKind::kLstm) {
      step_lstm(x, state);
    } else {
      step_gru(x, state);
    }
  }

 private:
  /// A column of what the fully connected layer puts out, with the cell's bias.
  double from_input(std::span<const double> x, std::int64_t column) const {
    double sum = at(bias_, column) + at(input_bias_, column);
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += x[i] * at(input_weight_, static_cast<std::int64_t>(i), column);
    }
    return sum;
  }

  /// Columns of the weight and of the bias: candidate, input gate, forget gate, output gate; then
  /// the bias has the weights of the cell state for the three gates.
  void step_lstm(std::span<const double> x, CellState& state) const {
    const std::int64_t units = cell_.hidden;
    const bool peeps = bias_ != nullptr && bias_->shape[1] == 7 * units;
    const std::vector<double> before = state.h;
    const auto sum = [&](std::int64_t block, std::int64_t unit) {
      const std::int64_t column = block * units + unit;
      double total = from_input(x, column);
      for (std::int64_t i = 0; i < units; ++i) {
        total += before[static_cast<std::size_t>(i)] * at(weight_, i, column);
      }
      return total;
    };
    const auto peep = [&](std::int64_t block, std::int64_t unit, double c) {
      return peeps ? c * at(bias_, block * units + unit) : 0;
    };
    for (std::int64_t unit = 0; unit < units; ++unit) {
      double& c = state.c[static_cast<std::size_t>(unit)];
      const double candidate = activate(cell_.candidate, sum(0, unit));
      const double input = activate(cell_.gate, sum(1, unit) + peep(4, unit, c));
      const double forget = activate(cell_.gate, sum(2, unit) + peep(5, unit, c));
      c = forget * c + input * candidate;
      const double output = activate(cell_.gate, sum(3, unit) + peep(6, unit, c));
      state.h[static_cast<std::size_t>(unit)] = output * activate(cell_.state, c);
    }
  }

  /// The weight's numbers are a matrix [units, 2 * units] for update and reset, and behind it one
  /// [units, units] for the candidate.
  void step_gru(std::span<const double> x, CellState& state) const {
    const std::int64_t units = cell_.hidden;
    const auto numbers = weight_.values<float>();
    const std::vector<double> before = state.h;
    const auto gate = [&](std::int64_t column) {
      double total = from_input(x, column);
      for (std::int64_t i = 0; i < units; ++i) {
        total += before[static_cast<std::size_t>(i)] *
                 numbers[static_cast<std::size_t>(i * 2 * units + column)];
      }
      return activate(cell_.gate, total);
    };
    std::vector<double> reset = before;
    for (std::int64_t i = 0; i < units; ++i) reset[static_cast<std::size_t>(i)] *= gate(units + i);
    for (std::int64_t unit = 0; unit < units; ++unit) {
      double total = from_input(x, 2 * units + unit);
      for (std::int64_t i = 0; i < units; ++i) {
        total += reset[static_cast<std::size_t>(i)] *
                 numbers[static_cast<std::size_t>(2 * units * units + i * units + unit)];
      }
      const double update = gate(unit), candidate = activate(cell_.candidate, total);
      const double old = before[static_cast<std::size_t>(unit)];
      state.h[static_cast<std::size_t>(unit)] = cell_.keeps_by_complement
                                                    ? (1 - update) * old + update * candidate
                                                    : update * old + (1 - update) * candidate;
    }
  }

  const SourceCell& cell_;
  const io::HostTensor& input_weight_;
  const io::HostTensor* input_bias_;
  const io::HostTensor& weight_;
  const io::HostTensor* bias_;
};

}  // namespace

std::unique_ptr<CellEquations> paddle_equations(const SourceCell& cell) {
  return std::make_unique<PaddleEquations>(cell);
}

}  // namespace sluice::interchange
