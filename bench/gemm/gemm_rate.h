#pragma once

#include <optional>

#include "runtime/context.h"

namespace sluice::bench::gemm {

/// What a device reaches in a product of large square matrices: the yardstick for layers.
struct GemmRate {
  std::int64_t size = 0;  ///< of each side
  double gflops = 0;
};

/// Measured on the context's device, dtype and TF32 as in its precision: by cuBLASLt on a GPU, by
/// oneDNN's matmul primitive on the host's processor. Nothing if that has no such product.
std::optional<GemmRate> measure_gemm_rate(const runtime::Context& context);

}  // namespace sluice::bench::gemm
