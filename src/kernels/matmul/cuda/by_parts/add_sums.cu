#include "kernels/matmul/cuda/by_parts/add_sums.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::matmul::cuda::by_parts {
namespace {

constexpr int kBlock = 256;

__global__ void __launch_bounds__(kBlock) add_sums_kernel(const AddSums args) {
  const std::int64_t column = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (column >= args.columns) return;
  const float bias = args.bias == nullptr ? 0 : args.bias[column];
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const float* sums = args.sums + row * args.stride + column;
    float sum = *sums;
#pragma unroll 4
    for (std::int64_t k = 1; k < args.count; ++k) sum += sums[k * args.step];
    float& c = args.c[row * args.c_stride + column];
    if (args.beta != 0) sum += args.beta * c;
    c = sum + bias;
  }
}

}  // namespace

void add_sums(runtime::cuda::CudaStream& stream, const AddSums& args) {
  constexpr std::int64_t kMostRows = 65535;
  const dim3 grid(static_cast<unsigned>((args.columns + kBlock - 1) / kBlock),
                  static_cast<unsigned>(std::min(args.rows, kMostRows)));
  runtime::cuda::launch(stream, "add the sums of a product", add_sums_kernel, grid, kBlock, 0,
                        args);
}

}  // namespace sluice::kernels::matmul::cuda::by_parts
