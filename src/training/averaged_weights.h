#pragma once

#include <cstdint>

#include "layers/parameters.h"
#include "training/optimizer.h"

namespace sluice::training {

/// While it lives, a model's parameters are the moving average that its optimiser keeps; they stay
/// as they are if it keeps none. The parameters themselves wait in the memory of the gradients,
/// which are zero afterwards. Does not wait for the device.
class AveragedWeights {
 public:
  /// `steps` that the optimiser has made, at least one. All arguments must outlive this.
  AveragedWeights(const Context& context, const layers::Parameters& parameters,
                  const Optimizer& optimizer, std::int64_t steps);
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;
  ~AveragedWeights();

 private:
  const Context* context_;
  const layers::Parameters* parameters_;  ///< null if nothing is to be put back
};

}  // namespace sluice::training
