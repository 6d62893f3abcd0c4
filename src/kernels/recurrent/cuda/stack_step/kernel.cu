#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/stack_step/cells.h"
#include "kernels/recurrent/cuda/stack_step/launch.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::stack_step {
namespace {

using by_parts::kMultiplierRegisters;
using by_parts::kMultipliers;
using by_parts::kSplitterRegisters;
using by_parts::kThreads;
using by_parts::Stages;

__global__ void __launch_bounds__(kThreads, 1)
    stack_step_kernel(const __grid_constant__ StackStep args) {
  extern __shared__ std::byte memory[];
  const Stages stages(memory);
  if (threadIdx.x == 0) stages.begin();
  __syncthreads();
  let_next_kernel_begin();
  if (threadIdx.x < kMultipliers) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplierRegisters));
    wait_for_kernel_ahead();
    by_parts::Multiplier<LeftRows, Cells>(args, stages).run();
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kSplitterRegisters));
    // Weights have been there since before the first step.
    by_parts::RightFactor<WeightColumns>(args, stages).run();
  }
}

}  // namespace

void queue(runtime::cuda::CudaStream& stream, bool behind_step, const StackStep& args) {
  constexpr const char* kWhat = "queue a recurrent step of a stack";
  runtime::cuda::check(
      cudaFuncSetAttribute(stack_step_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           Stages::kSharedBytes),
      kWhat);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(Work::count(args));
  config.blockDim = kThreads;
  config.dynamicSmemBytes = Stages::kSharedBytes;
  config.stream = stream.handle();
  config.attrs = &early;
  config.numAttrs = behind_step ? 1 : 0;
  runtime::cuda::check(cudaLaunchKernelEx(&config, stack_step_kernel, args), kWhat);
}

}  // namespace sluice::kernels::recurrent::cuda::stack_step
