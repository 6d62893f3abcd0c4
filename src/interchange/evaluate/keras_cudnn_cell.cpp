#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

/// The equations of cuDNN, with the matrices that CuDNNLSTM and CuDNNGRU of Keras give to it. They
/// cut the kernels into blocks of H columns and hand each block's numbers over row by row. cuDNN
/// reads them as a matrix with H rows.
class KerasCudnnEquations final : public CellEquations {
 public:
  explicit KerasCudnnEquations(const SourceCell& cell)
      : cell_(cell),
        kernel_(cell.get("kernel")),
        recurrent_kernel_(cell.get("recurrent_kernel")),
        bias_(cell.get("bias")) {}

  void step(std::span<const double> x, CellState& state) const override {
    const std::vector<double> before = state.h;
    const bool is_lstm = cell_.kind == CellKind::kLstm;
    for (std::int64_t unit = 0; unit < cell_.hidden; ++unit) {
      if (is_lstm) {
        step_lstm(unit, x, before, state);
      } else {
        step_gru(unit, x, before, state);
      }
    }
  }

 private:
  /// The product of a row of the matrix in a block with a vector, and one of the two biases.
  double product(const io::HostTensor& kernel, std::int64_t block, std::int64_t row,
                 std::span<const double> vector) const {
    double sum = 0;
    for (std::size_t i = 0; i < vector.size(); ++i) {
      const std::int64_t place =
          row * static_cast<std::int64_t>(vector.size()) + static_cast<std::int64_t>(i);
      sum +=
          vector[i] * at(kernel, place / cell_.hidden, block * cell_.hidden + place % cell_.hidden);
    }
    return sum;
  }
  double from_input(std::int64_t block, std::int64_t unit, std::span<const double> x) const {
    return product(kernel_, block, unit, x) + at(&bias_, block * cell_.hidden + unit);
  }
  double from_state(std::int64_t block, std::int64_t unit, const std::vector<double>& h) const {
    const std::int64_t half = bias_.shape[0] / 2;
    return product(recurrent_kernel_, block, unit, h) +
           at(&bias_, half + block * cell_.hidden + unit);
  }

  void step_lstm(std::int64_t unit, std::span<const double> x, const std::vector<double>& before,
                 CellState& state) const {
    const auto sum = [&](std::int64_t block) {
      return from_input(block, unit, x) + from_state(block, unit, before);
    };
    double& c = state.c[static_cast<std::size_t>(unit)];
    c = activate({"sigmoid"}, sum(1)) * c + activate({"sigmoid"}, sum(0)) * std::tanh(sum(2));
    state.h[static_cast<std::size_t>(unit)] = activate({"sigmoid"}, sum(3)) * std::tanh(c);
  }
  void step_gru(std::int64_t unit, std::span<const double> x, const std::vector<double>& before,
                CellState& state) const {
    const auto gate = [&](std::int64_t block) {
      return activate({"sigmoid"}, from_input(block, unit, x) + from_state(block, unit, before));
    };
    const double z = gate(0);
    const double n = std::tanh(from_input(2, unit, x) + gate(1) * from_state(2, unit, before));
    double& h = state.h[static_cast<std::size_t>(unit)];
    h = (1 - z) * n + z * h;
  }

  const SourceCell& cell_;
  const io::HostTensor &kernel_, &recurrent_kernel_, &bias_;
};

}  // namespace

std::unique_ptr<CellEquations> keras_cudnn_equations(const SourceCell& cell) {
  return std::make_unique<KerasCudnnEquations>(cell);
}

}  // namespace sluice::interchange
