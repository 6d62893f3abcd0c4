#pragma once

#include "kernels/matmul/matmul.h"

namespace sluice::kernels::matmul {

/// The operations of matmul.h on one kind of device: arguments are checked already, and each is
/// queued on the context's stream.
struct Leaves {
  void (*matmul)(const Context& context, const MatmulArgs& args);
};

}  // namespace sluice::kernels::matmul
