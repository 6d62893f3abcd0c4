#pragma once

#include "kernels/recurrent/cudnn_layout.h"

namespace sluice::kernels::recurrent::cuda {

/// The places that cuDNN's standard algorithm has for weights. Throws ErrorCode::kDevice or
/// kUnsupported with cuDNN's own words.
extern const CudnnPlaces kCudnnPlaces;

}  // namespace sluice::kernels::recurrent::cuda
