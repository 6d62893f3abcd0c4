#pragma once

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// What launches of plain RNNs take.
namespace sluice::kernels::recurrent::cuda::persistent {

struct RnnForwardArgs : LayerForward {
  bool relu;  ///< the activation, else tanh
};
struct RnnBackwardArgs : LayerBackward {
  bool relu;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
