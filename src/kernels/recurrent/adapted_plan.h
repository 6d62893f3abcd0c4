#pragma once

#include <memory>

#include "kernels/recurrent/recurrent.h"

/// Plans for tensors as callers from outside have them. Implementations take weights and cell
/// states in the master dtype and contiguous tensors alone; here others are converted on their way
/// in and out, in workspace.
namespace sluice::kernels::recurrent {

/// How the caller's tensors may differ from what recurrent.h says.
struct CallerTensors {
  DType weights = DType::kFloat32;  ///< of weights and their gradients
  DType cells = DType::kFloat32;    ///< of c0, cn, dcn and dc0; c_sequence stays cell-state dtype
  /// x, y, dy and dx may have any strides of time and rows; features lie next to each other.
  bool strided = false;
};

/// bias_ih and bias_hh of the weights may be absent: zeros.
std::unique_ptr<Plan> adapt(const Descriptor& descriptor, const CallerTensors& tensors,
                            std::unique_ptr<Plan> plan);

}  // namespace sluice::kernels::recurrent
