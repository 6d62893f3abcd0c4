#include <string_view>

#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

/// The equations of torch.nn.LSTM, GRU and RNN, for arrays with gates in any order. A gate's index
/// is the place of its rows.
class TorchEquations final : public CellEquations {
 public:
  explicit TorchEquations(const SourceCell& cell)
      : cell_(cell),
        weight_ih_(cell.get("weight_ih")),
        weight_hh_(cell.get("weight_hh")),
        bias_ih_(cell.find("bias_ih")),
        bias_hh_(cell.find("bias_hh")),
        peephole_(cell.find("weight_peephole")),
        weight_hr_(cell.find("weight_hr")) {}

  void step(std::span<const double> x, CellState& state) const override {
    if (cell_.kind == CellKind::kLstm) return step_lstm(x, state);
    if (cell_.kind == CellKind::kGru) return step_gru(x, state);
    const CellState before = state;
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      state.h[static_cast<std::size_t>(unit)] =
          activate(cell_.candidate, from_input(0, unit, x) + from_state(0, unit, before.h));
    }
  }

 private:
  std::int64_t place(char lstm_gate, std::int64_t usual) const {
    if (cell_.gates.empty()) return usual;
    return static_cast<std::int64_t>(cell_.gates.find(lstm_gate));
  }
  double from_input(std::int64_t gate, std::int64_t unit, std::span<const double> x) const {
    const std::int64_t row = gate * cell_.hidden + unit;
    double sum = at(bias_ih_, row);
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += at(weight_ih_, row, static_cast<std::int64_t>(i)) * x[i];
    }
    return sum;
  }
  double from_state(std::int64_t gate, std::int64_t unit, const std::vector<double>& h) const {
    const std::int64_t row = gate * cell_.hidden + unit;
    double sum = at(bias_hh_, row);
    for (std::size_t i = 0; i < h.size(); ++i) {
      sum += at(weight_hh_, row, static_cast<std::int64_t>(i)) * h[i];
    }
    return sum;
  }
  double peep(std::int64_t gate, std::int64_t unit, double c) const {
    return peephole_ == nullptr ? 0 : at(*peephole_, gate, unit) * c;
  }

  void step_lstm(std::span<const double> x, CellState& state) const {
    const CellState before = state;
    std::vector<double> y(static_cast<std::size_t>(cell_.hidden));
    const auto sum = [&](char name, std::int64_t usual, std::int64_t unit) {
      return from_input(place(name, usual), unit, x) +
             from_state(place(name, usual), unit, before.h);
    };
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      double& c = state.c[static_cast<std::size_t>(unit)];
      const double i = activate(cell_.gate, sum('i', 0, unit) + peep(0, unit, c));
      const double f =
          activate(cell_.gate, sum('f', 1, unit) + cell_.forget_bias + peep(1, unit, c));
      const double g = activate(cell_.candidate, sum('g', 2, unit));
      c = f * c + i * g;
      const double o = activate(cell_.gate, sum('o', 3, unit) + peep(2, unit, c));
      y[static_cast<std::size_t>(unit)] = o * activate(cell_.state, c);
    }
    if (weight_hr_ == nullptr) {
      state.h = y;
      return;
    }
    for (std::int64_t p = 0; p < cell_.output; ++p) {
      double projected = 0;
      for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
        projected += at(*weight_hr_, p, unit) * y[static_cast<std::size_t>(unit)];
      }
      state.h[static_cast<std::size_t>(p)] = projected;
    }
  }

  void step_gru(std::span<const double> x, CellState& state) const {
    const std::vector<double> before = state.h;
    const auto hidden = static_cast<std::size_t>(cell_.hidden);
    const std::int64_t r_at = place('r', 0), z_at = place('z', 1), n_at = place('n', 2);
    std::vector<double> r(hidden), reset(hidden);
    for (std::size_t unit = 0; unit < hidden; ++unit) {
      const auto u = static_cast<std::int64_t>(unit);
      r[unit] = activate(cell_.gate, from_input(r_at, u, x) + from_state(r_at, u, before));
      reset[unit] = r[unit] * before[unit];
    }
    for (std::size_t unit = 0; unit < hidden; ++unit) {
      const auto u = static_cast<std::int64_t>(unit);
      double z = activate(cell_.gate, from_input(z_at, u, x) + from_state(z_at, u, before));
      if (cell_.keeps_by_complement) z = 1 - z;
      const double from_before =
          cell_.reset_after ? r[unit] * from_state(n_at, u, before) : from_state(n_at, u, reset);
      const double n = activate(cell_.candidate, from_input(n_at, u, x) + from_before);
      state.h[unit] = (1 - z) * n + z * before[unit];
    }
  }

  const SourceCell& cell_;
  const io::HostTensor &weight_ih_, &weight_hh_;
  const io::HostTensor *bias_ih_, *bias_hh_, *peephole_, *weight_hr_;
};

}  // namespace

std::unique_ptr<CellEquations> torch_equations(const SourceCell& cell) {
  return std::make_unique<TorchEquations>(cell);
}

}  // namespace sluice::interchange
