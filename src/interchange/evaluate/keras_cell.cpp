#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

/// The equations of LSTM, GRU and SimpleRNN of Keras, with its names: `x` is what the input gives
/// to a gate, `inner` what the state gives.
class KerasEquations final : public CellEquations {
 public:
  explicit KerasEquations(const SourceCell& cell)
      : cell_(cell),
        kernel_(cell.get("kernel")),
        recurrent_kernel_(cell.get("recurrent_kernel")),
        bias_(cell.find("bias")) {}

  void step(std::span<const double> inputs, CellState& state) const override {
    if (cell_.kind == CellKind::kLstm) return step_lstm(inputs, state);
    if (cell_.kind == CellKind::kGru) return step_gru(inputs, state);
    const std::vector<double> h_before = state.h;
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      state.h[static_cast<std::size_t>(unit)] =
          activate(cell_.candidate, x(0, unit, inputs) + inner(0, unit, h_before));
    }
  }

 private:
  double x(std::int64_t gate, std::int64_t unit, std::span<const double> inputs) const {
    const std::int64_t column = gate * cell_.hidden + unit;
    // The bias is a vector, or the first row of two.
    double sum = at(bias_, column);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      sum += inputs[i] * at(kernel_, static_cast<std::int64_t>(i), column);
    }
    return sum;
  }
  double inner(std::int64_t gate, std::int64_t unit, const std::vector<double>& h) const {
    const std::int64_t column = gate * cell_.hidden + unit;
    double sum = 0;
    for (std::size_t i = 0; i < h.size(); ++i) {
      sum += h[i] * at(recurrent_kernel_, static_cast<std::int64_t>(i), column);
    }
    return sum;
  }
  /// The second row of the bias of a GRU that resets after the product.
  double recurrent_bias(std::int64_t gate, std::int64_t unit) const {
    return bias_ == nullptr ? 0 : at(*bias_, 1, gate * cell_.hidden + unit);
  }

  void step_lstm(std::span<const double> inputs, CellState& state) const {
    const std::vector<double> h_before = state.h;
    const auto sum = [&](std::int64_t gate, std::int64_t unit) {
      return x(gate, unit, inputs) + inner(gate, unit, h_before);
    };
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      double& c = state.c[static_cast<std::size_t>(unit)];
      const double i = activate(cell_.gate, sum(0, unit));
      const double f = activate(cell_.gate, sum(1, unit));
      c = f * c + i * activate(cell_.candidate, sum(2, unit));
      const double o = activate(cell_.gate, sum(3, unit));
      state.h[static_cast<std::size_t>(unit)] = o * activate(cell_.state, c);
    }
  }

  void step_gru(std::span<const double> inputs, CellState& state) const {
    const std::vector<double> h_before = state.h;
    const auto gate = [&](std::int64_t index, std::int64_t unit) {
      double sum = x(index, unit, inputs) + inner(index, unit, h_before);
      if (cell_.reset_after) sum += recurrent_bias(index, unit);
      return activate(cell_.gate, sum);
    };
    std::vector<double> r(h_before.size()), reset(h_before.size());
    for (std::size_t unit = 0; unit < r.size(); ++unit) {
      r[unit] = gate(1, static_cast<std::int64_t>(unit));
      reset[unit] = r[unit] * h_before[unit];
    }
    for (std::size_t i = 0; i < r.size(); ++i) {
      const auto unit = static_cast<std::int64_t>(i);
      const double z = gate(0, unit);
      const double from_state = cell_.reset_after
                                    ? r[i] * (inner(2, unit, h_before) + recurrent_bias(2, unit))
                                    : inner(2, unit, reset);
      const double hh = activate(cell_.candidate, x(2, unit, inputs) + from_state);
      state.h[i] = z * h_before[i] + (1 - z) * hh;
    }
  }

  const SourceCell& cell_;
  const io::HostTensor &kernel_, &recurrent_kernel_;
  const io::HostTensor* bias_;
};

}  // namespace

std::unique_ptr<CellEquations> keras_equations(const SourceCell& cell) {
  return std::make_unique<KerasEquations>(cell);
}

}  // namespace sluice::interchange
