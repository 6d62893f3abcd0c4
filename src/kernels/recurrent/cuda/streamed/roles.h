#pragma once

#include "kernels/recurrent/cuda/streamed/product.h"
#include "kernels/recurrent/cuda/wide/roles.h"

/// How the warps of a block share its work, in both passes.
namespace sluice::kernels::recurrent::cuda::streamed {

/// Of a thread; together all that a block begins with, 80 for each of its threads.
inline constexpr int kProductRegisters = 152, kCellRegisters = 48, kCopyRegisters = 32;
static_assert((kProductGroups * kProductRegisters + kCellGroups * kCellRegisters + kCopyRegisters) *
                  128 ==
              80 * kThreads);

template <typename T, int kRegisterChunks, bool kBeside>
__device__ void multiply(const Geometry& geometry, const Part& part, const std::byte* weights,
                         int group, std::uint32_t shared, const BlockMemory& memory,
                         const Barriers& barriers, int count) {
  Product<T, kRegisterChunks, kBeside> product(geometry, weights, group, shared, memory, barriers);
  const SumSender sender(geometry, part, group, shared, memory, barriers);
  for (int number = 0; number < count; ++number) {
    float sums[16], beside[4];
    product.run(sums, beside);
    sender.send(number, sums);
    if constexpr (kBeside) sender.send_beside(number, beside, barriers);
  }
}

/// Runs a block: `products` of values that are handed on one after the other, and `evaluate_cells`.
template <typename T, bool kBeside, typename EvaluateCells>
__device__ void run_block(const void* packed, const Geometry& geometry, const Extent& extent,
                          const Part& part, const BlockMemory& memory, const Barriers& barriers,
                          std::uint32_t shared, int products, const EvaluateCells& evaluate_cells) {
  const std::byte* weights =
      static_cast<const std::byte*>(packed) + part.block * geometry.packed_bytes();
  if (threadIdx.x == 0) barriers.begin(geometry);
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group < kProductGroups) {
    wide::take_registers<kProductRegisters>();
    constexpr int kRegisterChunks = register_chunks(kBeside);
    if (kBeside && group == 0) {
      multiply<T, kRegisterChunks, kBeside>(geometry, part, weights, group, shared, memory,
                                            barriers, products);
    } else {
      multiply<T, kRegisterChunks, false>(geometry, part, weights, group, shared, memory, barriers,
                                          products);
    }
  } else if (group < kProductGroups + kCellGroups) {
    wide::give_registers<kCellRegisters>();
    evaluate_cells();
  } else {
    wide::give_registers<kCopyRegisters>();
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    if (warp == 0) copy_values(geometry, extent, part, shared + memory.ring, barriers, products);
    if (warp == 1) announce(geometry, extent, part, barriers, products);
    if (warp == 2 && threadIdx.x % 32 == 0) {
      copy_weights(geometry, weights, shared, memory, barriers, products);
    }
  }
  // No block ends while another may still write into it.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::streamed
