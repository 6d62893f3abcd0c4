#include "base/dtype.h"
#include "kernels/matmul/cuda/finish_rows.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::matmul::cuda {
namespace {

constexpr int kBlock = 256;

template <typename T>
__global__ void finish(T* c, std::int64_t stride, std::int64_t rows, std::int64_t columns, T beta,
                       const T* bias) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlock;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
       i < rows * columns; i += step) {
    const std::int64_t column = i % columns;
    T& element = c[i / columns * stride + column];
    element = (beta == T(0) ? T(0) : beta * element) + (bias == nullptr ? T(0) : bias[column]);
  }
}

}  // namespace

void finish_rows(runtime::Stream& stream, const Tensor& c, double beta, const Tensor& bias) {
  base::dispatch_master(c.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    runtime::cuda::launch(stream, "finish the rows of a product", finish<T>,
                          runtime::cuda::blocks_for(c.element_count(), kBlock), kBlock, 0,
                          c.data_as<T>(), c.stride(0), c.size(0), c.size(1), beta,
                          bias ? bias.data_as<const T>() : nullptr);
  });
}

}  // namespace sluice::kernels::matmul::cuda
