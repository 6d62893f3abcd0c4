#pragma once

#include "kernels/matmul/matmul.h"

namespace sluice::kernels::matmul {

using runtime::Stream;

/// The operations of matmul.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*matmul)(Stream& stream, const MatmulArgs& args);
};

}  // namespace sluice::kernels::matmul
