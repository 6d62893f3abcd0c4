#include "interchange/evaluate/cell_equations.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::interchange {

std::unique_ptr<CellEquations> equations_of(const SourceCell& cell) {
  switch (cell.convention) {
    case Convention::kKeras:
      return keras_equations(cell);
    case Convention::kKerasCudnn:
      return keras_cudnn_equations(cell);
    case Convention::kTensorflow:
      return tensorflow_equations(cell);
    case Convention::kTensorflowCudnnGru:
      return tensorflow_cudnn_gru_equations(cell);
    case Convention::kOnnx:
      return onnx_equations(cell);
    case Convention::kPaddle:
      return paddle_equations(cell);
    case Convention::kTorch:
    case Convention::kArrays:
      break;
  }
  return torch_equations(cell);
}

double activate(const Activation& activation, double a) {
  if (activation.is("linear")) return a;
  if (activation.is("tanh")) return std::tanh(a);
  if (activation.is("sigmoid")) return 1 / (1 + std::exp(-a));
  if (activation.is("relu")) return std::max(a, 0.0);
  if (activation.is("hard_sigmoid")) {
    return std::clamp(activation.alpha * a + activation.beta, 0.0, 1.0);
  }
  base::fail(ErrorCode::kUnsupported, "the activation '{}' is not computed", activation.name);
}

}  // namespace sluice::interchange
