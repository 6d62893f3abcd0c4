#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

/// The equations of ONNX's operators LSTM, GRU and RNN (onnx.ai, Operators), one direction. Gate
/// `k` has the rows from k * H on of w and r, and the numbers from k * H on of both halves of b.
class OnnxEquations final : public CellEquations {
 public:
  explicit OnnxEquations(const SourceCell& cell)
      : cell_(cell), w_(cell.get("w")), r_(cell.get("r")), b_(cell.find("b")), p_(cell.find("p")) {}

  void step(std::span<const double> x, CellState& state) const override {
    if (cell_.kind == CellKind::kLstm) return step_lstm(x, state);
    if (cell_.kind == CellKind::kGru) return step_gru(x, state);
    const std::vector<double> before = state.h;
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      const double sum = input_sum(0, unit, x) + hidden_sum(0, unit, before);
      state.h[static_cast<std::size_t>(unit)] = activate(cell_.candidate, sum);
    }
  }

 private:
  /// X W^T + Wb of a unit of a gate.
  double input_sum(std::int64_t gate, std::int64_t unit, std::span<const double> x) const {
    const std::int64_t row = gate * cell_.hidden + unit;
    double sum = at(b_, row);
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * at(w_, row, as_index(i));
    return sum;
  }
  /// H R^T + Rb of a unit of a gate.
  double hidden_sum(std::int64_t gate, std::int64_t unit, const std::vector<double>& h) const {
    const std::int64_t row = gate * cell_.hidden + unit;
    double sum = at(b_, r_.shape[0] + row);
    for (std::size_t i = 0; i < h.size(); ++i) sum += h[i] * at(r_, row, as_index(i));
    return sum;
  }
  /// P of a unit: parts 0, 1 and 2 belong to i, o and f.
  double peephole(std::int64_t part, std::int64_t unit) const {
    return at(p_, part * cell_.hidden + unit);
  }
  static std::int64_t as_index(std::size_t i) { return static_cast<std::int64_t>(i); }

  void step_lstm(std::span<const double> x, CellState& state) const {
    constexpr std::int64_t kInput = 0, kOutput = 1, kForget = 2, kCell = 3;
    const std::vector<double> before = state.h;
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      const auto sum = [&](std::int64_t gate) {
        return input_sum(gate, unit, x) + hidden_sum(gate, unit, before);
      };
      double& c = state.c[static_cast<std::size_t>(unit)];
      const double i = activate(cell_.gate, sum(kInput) + peephole(0, unit) * c);
      const double f = activate(cell_.gate, sum(kForget) + peephole(2, unit) * c);
      c = f * c + i * activate(cell_.candidate, sum(kCell));
      const double o = activate(cell_.gate, sum(kOutput) + peephole(1, unit) * c);
      state.h[static_cast<std::size_t>(unit)] = o * activate(cell_.state, c);
    }
  }

  void step_gru(std::span<const double> x, CellState& state) const {
    constexpr std::int64_t kUpdate = 0, kReset = 1, kHidden = 2;
    const std::vector<double> before = state.h;
    std::vector<double> r(before.size()), r_times_before(before.size());
    const auto gate = [&](std::int64_t index, std::int64_t unit) {
      return activate(cell_.gate, input_sum(index, unit, x) + hidden_sum(index, unit, before));
    };
    for (std::size_t unit = 0; unit < before.size(); ++unit) {
      r[unit] = gate(kReset, as_index(unit));
      r_times_before[unit] = r[unit] * before[unit];
    }
    for (std::size_t unit = 0; unit < before.size(); ++unit) {
      const std::int64_t u = as_index(unit);
      const double z = gate(kUpdate, u);
      const double past = cell_.reset_after ? r[unit] * hidden_sum(kHidden, u, before)
                                            : hidden_sum(kHidden, u, r_times_before);
      const double candidate = activate(cell_.candidate, input_sum(kHidden, u, x) + past);
      state.h[unit] = (1 - z) * candidate + z * before[unit];
    }
  }

  const SourceCell& cell_;
  const io::HostTensor &w_, &r_;
  const io::HostTensor *b_, *p_;
};

}  // namespace

std::unique_ptr<CellEquations> onnx_equations(const SourceCell& cell) {
  return std::make_unique<OnnxEquations>(cell);
}

}  // namespace sluice::interchange
