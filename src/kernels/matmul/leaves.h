#pragma once

#include "kernels/matmul/halved.h"
#include "kernels/matmul/matmul.h"

namespace sluice::kernels::matmul {

/// The operations of halved.h.
struct HalvedLeaves {
  void (*halve)(const Context& context, const HalveArgs& args);
  void (*make_alphas)(const Context& context, std::span<const AlphaArgs> alphas);
  void (*matmul)(const Context& context, const HalvedMatmulArgs& args);
};

/// The operations of matmul.h on one kind of device: arguments are checked already, and each is
/// queued on the context's stream.
struct Leaves {
  void (*matmul)(const Context& context, const MatmulArgs& args);
  const HalvedLeaves* halved = nullptr;  ///< or null: the device has none
};

}  // namespace sluice::kernels::matmul
