#pragma once

#include "runtime/cuda/launch.h"

/// For the .cu files of kernels/**/cuda: kernels that are on the GPU when the one ahead ends.
namespace sluice::runtime::cuda {

/// Waits for the end of the kernel ahead, if that isn't over, and lets the next one come. What
/// launch_early queues calls this in every thread before anything that other kernels read or write.
__device__ inline void begin_behind_kernel_ahead() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// As launch; on Hopper the kernel's blocks may take their places while the kernel ends that the
/// stream was given last.
template <typename... Parameters, typename... Arguments>
void launch_early(Stream& stream, std::string_view what, void (*kernel)(Parameters...), dim3 grid,
                  dim3 block, std::size_t shared_bytes, Arguments&&... arguments) {
  const GpuProperties& gpu = gpu_of(stream);
  // Other code may not wait, and then mustn't begin early either.
  if (!gpu.code.hopper) {
    return launch(stream, what, kernel, grid, block, shared_bytes,
                  std::forward<Arguments>(arguments)...);
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const CurrentDevice current(gpu.ordinal);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        what);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = handle_of(stream);
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), what);
}

}  // namespace sluice::runtime::cuda
