#include "kernels/recurrent/cuda/wide/await.h"
#include "kernels/recurrent/cuda/wide/ring.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::wide {
namespace {

__global__ void await_kernel(const std::uint32_t* counters, std::int32_t count,
                             std::uint32_t wanted) {
  // Polls must not slow down those of the launch.
  constexpr unsigned kNanoseconds = 500;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const std::uint32_t* counter = counters + static_cast<std::int64_t>(i) * (kCounterBytes / 4);
    while (read_counter(counter) < wanted) __nanosleep(kNanoseconds);
  }
  order_with_copies();
}

}  // namespace

void await_counters(cudaStream_t stream, const std::uint32_t* counters, std::int32_t count,
                    std::uint32_t wanted) {
  await_kernel<<<1, 32, 0, stream>>>(counters, count, wanted);
  runtime::cuda::check(cudaGetLastError(), "queue a wait for a recurrent layer");
}

}  // namespace sluice::kernels::recurrent::cuda::wide
