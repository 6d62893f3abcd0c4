#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/recurrent/recurrent.h"

/// cuDNN's own recurrent layer, by each of its algorithms: peers, kept for comparison.
namespace sluice::kernels::recurrent::cuda {

using runtime::Device;

enum class CudnnAlgorithm { kStandard, kPersistStatic, kPersistDynamic };

/// Reasons that need no library first; then whether the library is there.
std::optional<std::string> refuse_cudnn(const Descriptor& descriptor, CudnnAlgorithm algorithm);
std::unique_ptr<Plan> make_cudnn_plan(const Descriptor& descriptor, CudnnAlgorithm algorithm,
                                      const Device& device);

}  // namespace sluice::kernels::recurrent::cuda
