#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"

/// For the .cu files of kernels/**/cuda.
namespace sluice::runtime::cuda {

/// Queues a kernel and checks that it could be queued. `what` completes "could not ...".
/// `shared_bytes` are dynamic shared memory, up to what a block may have (GpuProperties).
template <typename... Parameters, typename... Arguments>
void launch(Stream& stream, std::string_view what, void (*kernel)(Parameters...), dim3 grid,
            dim3 block, std::size_t shared_bytes, Arguments&&... arguments) {
  // 48 KiB in all are had without asking, of which up to 32 may be the kernel's own, static memory.
  constexpr std::size_t kWithoutAsking = 16 << 10;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const CurrentDevice current(gpu_of(stream).ordinal);
  if (shared_bytes > kWithoutAsking) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          what);
  }
  kernel<<<grid, block, shared_bytes, handle_of(stream)>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), what);
}

/// Blocks for `count` elements of a grid-stride loop, capped so that large arrays loop.
inline unsigned blocks_for(std::int64_t count, int block) {
  constexpr std::int64_t kMost = 8192;
  return static_cast<unsigned>(std::min(kMost, (count + block - 1) / block));
}

}  // namespace sluice::runtime::cuda
