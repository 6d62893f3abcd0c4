#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "interchange/source_model.h"

namespace sluice::interchange {

/// The states of a cell; c is an LSTM's.
struct CellState {
  std::vector<double> h, c;
};

/// The equations of one cell, as its source writes them. The source must outlive it.
class CellEquations {
 public:
  virtual ~CellEquations() = default;
  /// Replaces the state by that of the next step, whose input is x.
  virtual void step(std::span<const double> x, CellState& state) const = 0;
};

std::unique_ptr<CellEquations> torch_equations(const SourceCell& cell);
std::unique_ptr<CellEquations> keras_equations(const SourceCell& cell);
std::unique_ptr<CellEquations> keras_cudnn_equations(const SourceCell& cell);
std::unique_ptr<CellEquations> tensorflow_equations(const SourceCell& cell);
std::unique_ptr<CellEquations> tensorflow_cudnn_gru_equations(const SourceCell& cell);
std::unique_ptr<CellEquations> onnx_equations(const SourceCell& cell);
std::unique_ptr<CellEquations> paddle_equations(const SourceCell& cell);

/// The equations of the cell's convention.
std::unique_ptr<CellEquations> equations_of(const SourceCell& cell);

/// activation(a) of "linear", "tanh", "sigmoid", "relu" and "hard_sigmoid"; others are refused
/// (ErrorCode::kUnsupported).
double activate(const Activation& activation, double a);

/// A number of a matrix [rows, columns].
inline double at(const io::HostTensor& matrix, std::int64_t row, std::int64_t column) {
  return matrix.values<float>()[static_cast<std::size_t>(row * matrix.shape[1] + column)];
}
/// A number of a vector, or 0 if there is none.
inline double at(const io::HostTensor* vector, std::int64_t index) {
  return vector == nullptr ? 0 : vector->values<float>()[static_cast<std::size_t>(index)];
}

}  // namespace sluice::interchange
