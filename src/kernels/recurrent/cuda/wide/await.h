#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sluice::kernels::recurrent::cuda::wide {

/// Queues a kernel of one warp that ends when all of `count` counters, kCounterBytes from one to
/// the next, have reached `wanted`. What was written before they were counted up can be read
/// then.
void await_counters(cudaStream_t stream, const std::uint32_t* counters, std::int32_t count,
                    std::uint32_t wanted);

}  // namespace sluice::kernels::recurrent::cuda::wide
