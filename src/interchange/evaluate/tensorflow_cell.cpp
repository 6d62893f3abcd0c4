#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

/// The equations of TensorFlow 1: LSTMCell, GRUCell and BasicRNNCell. A cell multiplies its kernel
/// with the input and the state, one behind the other.
class TensorflowEquations final : public CellEquations {
 public:
  explicit TensorflowEquations(const SourceCell& cell) : cell_(cell) {}

  void step(std::span<const double> x, CellState& state) const override {
    if (cell_.kind == CellKind::kLstm) return step_lstm(x, state);
    if (cell_.kind == CellKind::kGru) return step_gru(x, state);
    state.h = product(joined(x, state.h), cell_.get("kernel"), cell_.find("bias"));
    for (double& h : state.h) h = activate(cell_.candidate, h);
  }

 private:
  using Vector = std::vector<double>;

  static Vector joined(std::span<const double> x, const Vector& h) {
    Vector both(x.begin(), x.end());
    both.insert(both.end(), h.begin(), h.end());
    return both;
  }
  /// x kernel + bias
  static Vector product(const Vector& x, const io::HostTensor& kernel, const io::HostTensor* bias) {
    Vector y(static_cast<std::size_t>(kernel.shape[1]));
    for (std::size_t column = 0; column < y.size(); ++column) {
      const auto j = static_cast<std::int64_t>(column);
      y[column] = at(bias, j);
      for (std::size_t row = 0; row < x.size(); ++row) {
        y[column] += x[row] * at(kernel, static_cast<std::int64_t>(row), j);
      }
    }
    return y;
  }

  /// i, j, f, o = split([x, h] kernel + bias); BlockLSTMV2 has i, f, j, o.
  void step_lstm(std::span<const double> x, CellState& state) const {
    const Vector sums = product(joined(x, state.h), cell_.get("kernel"), cell_.find("bias"));
    const io::HostTensor* w_i = cell_.find("w_i_diag");
    const io::HostTensor* w_f = cell_.find("w_f_diag");
    const io::HostTensor* w_o = cell_.find("w_o_diag");
    const auto hidden = static_cast<std::size_t>(cell_.hidden);
    const std::size_t j_at = cell_.gates == "ifgo" ? 2 : 1, f_at = 3 - j_at;
    Vector m(hidden);
    for (std::size_t unit = 0; unit < hidden; ++unit) {
      const auto u = static_cast<std::int64_t>(unit);
      double& c = state.c[unit];
      const double i = activate(cell_.gate, sums[unit] + at(w_i, u) * c);
      const double j = activate(cell_.candidate, sums[j_at * hidden + unit]);
      const double f =
          activate(cell_.gate, sums[f_at * hidden + unit] + cell_.forget_bias + at(w_f, u) * c);
      c = f * c + i * j;
      const double o = activate(cell_.gate, sums[3 * hidden + unit] + at(w_o, u) * c);
      m[unit] = o * activate(cell_.state, c);
    }
    const io::HostTensor* projection = cell_.find("projection");
    state.h = projection == nullptr ? m : product(m, *projection, nullptr);
  }

  /// r, u = split(gate([x, h] gate_kernel + gate_bias))
  void step_gru(std::span<const double> x, CellState& state) const {
    const Vector sums =
        product(joined(x, state.h), cell_.get("gate_kernel"), cell_.find("gate_bias"));
    const auto hidden = static_cast<std::size_t>(cell_.hidden);
    Vector reset = state.h;
    for (std::size_t unit = 0; unit < hidden; ++unit) {
      reset[unit] *= activate(cell_.gate, sums[unit]);
    }
    const Vector candidate =
        product(joined(x, reset), cell_.get("candidate_kernel"), cell_.find("candidate_bias"));
    for (std::size_t unit = 0; unit < hidden; ++unit) {
      const double u = activate(cell_.gate, sums[hidden + unit]);
      state.h[unit] = u * state.h[unit] + (1 - u) * activate(cell_.candidate, candidate[unit]);
    }
  }

  const SourceCell& cell_;
};

}  // namespace

std::unique_ptr<CellEquations> tensorflow_equations(const SourceCell& cell) {
  return std::make_unique<TensorflowEquations>(cell);
}

}  // namespace sluice::interchange
