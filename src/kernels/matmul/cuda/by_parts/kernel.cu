#include "kernels/matmul/cuda/by_parts/kernel.h"
#include "kernels/matmul/cuda/by_parts/right_factor.h"
#include "kernels/matmul/cuda/by_parts/tile_of_c.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::matmul::cuda::by_parts {
namespace {

__global__ void __launch_bounds__(kThreads, 1)
    multiply_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ std::byte memory[];
  const Stages stages(memory);
  if (threadIdx.x == 0) stages.begin();
  __syncthreads();
  if (threadIdx.x < kMultipliers) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplierRegisters));
    Multiplier<LeftRows, TileOfC>(args, stages).run();
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kSplitterRegisters));
    if (args.right.depth_in_rows) {
      RightFactor<RightColumns<true>>(args, stages).run();
    } else {
      RightFactor<RightColumns<false>>(args, stages).run();
    }
  }
}

}  // namespace

void multiply(runtime::cuda::CudaStream& stream, const Arguments& args, int blocks) {
  runtime::cuda::launch(stream, "multiply by parts", multiply_kernel,
                        std::min(blocks, Work::count(args)), kThreads, Stages::kSharedBytes, args);
}

}  // namespace sluice::kernels::matmul::cuda::by_parts
