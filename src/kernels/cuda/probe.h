#pragma once

namespace sluice::kernels::cuda {

/// Why the current GPU can't run this build's kernels, in CUDA's words; null if it can.
const char* refuse_current_gpu();

}  // namespace sluice::kernels::cuda
