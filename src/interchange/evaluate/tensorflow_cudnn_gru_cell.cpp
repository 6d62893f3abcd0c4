#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

/// The equations of CudnnCompatibleGRUCell of TensorFlow 1:
///   r, u = split(gate([x, h] gate_kernel + gate_bias))
///   c    = candidate(x input_kernel + input_bias + r * (h hidden_kernel + hidden_bias))
///   h    = u * h + (1 - u) * c
class TensorflowCudnnGruEquations final : public CellEquations {
 public:
  explicit TensorflowCudnnGruEquations(const SourceCell& cell)
      : cell_(cell),
        gate_kernel_(cell.get("gate_kernel")),
        input_kernel_(cell.get("input_kernel")),
        hidden_kernel_(cell.get("hidden_kernel")),
        gate_bias_(cell.find("gate_bias")),
        input_bias_(cell.find("input_bias")),
        hidden_bias_(cell.find("hidden_bias")) {}

  void step(std::span<const double> x, CellState& state) const override {
    const std::vector<double> before = state.h;
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      const double r = gate(unit, x, before), u = gate(cell_.hidden + unit, x, before);
      double from_input = at(input_bias_, unit), from_state = at(hidden_bias_, unit);
      add_product(from_input, x, input_kernel_, 0, unit);
      add_product(from_state, before, hidden_kernel_, 0, unit);
      const double c = activate(cell_.candidate, from_input + r * from_state);
      double& h = state.h[static_cast<std::size_t>(unit)];
      h = u * h + (1 - u) * c;
    }
  }

 private:
  double gate(std::int64_t column, std::span<const double> x, std::span<const double> h) const {
    double sum = at(gate_bias_, column);
    add_product(sum, x, gate_kernel_, 0, column);
    add_product(sum, h, gate_kernel_, cell_.input, column);
    return activate(cell_.gate, sum);
  }
  static void add_product(double& sum, std::span<const double> x, const io::HostTensor& kernel,
                          std::int64_t first_row, std::int64_t column) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += x[i] * at(kernel, first_row + static_cast<std::int64_t>(i), column);
    }
  }

  const SourceCell& cell_;
  const io::HostTensor &gate_kernel_, &input_kernel_, &hidden_kernel_;
  const io::HostTensor *gate_bias_, *input_bias_, *hidden_bias_;
};

}  // namespace

std::unique_ptr<CellEquations> tensorflow_cudnn_gru_equations(const SourceCell& cell) {
  return std::make_unique<TensorflowCudnnGruEquations>(cell);
}

}  // namespace sluice::interchange
