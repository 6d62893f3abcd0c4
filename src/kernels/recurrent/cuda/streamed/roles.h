#pragma once

#include "kernels/recurrent/cuda/streamed/product.h"
#include "kernels/recurrent/cuda/wide/roles.h"

/// How the warps of a block share its work, in both passes.
namespace sluice::kernels::recurrent::cuda::streamed {

/// Of a thread; together all that a block begins with, 80 for each of its threads, or 72.
struct RoleRegisters {
  int product, cell, copy;
};
constexpr RoleRegisters registers_of(int cell_groups) {
  return cell_groups == kFewCellGroups ? RoleRegisters{152, 48, 32} : RoleRegisters{152, 40, 40};
}
constexpr bool takes_all(int cell_groups, int registers) {
  const RoleRegisters role = registers_of(cell_groups);
  return 128 * (kProductGroups * role.product + cell_groups * role.cell + role.copy) ==
         registers * block_threads(cell_groups);
}
static_assert(takes_all(kFewCellGroups, 80) && takes_all(kMoreCellGroups, 72));

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

/// Runs a block: `products` of values that are published one after the other, and `evaluate_cells`.
template <typename T, int kCellGroups, bool kBeside, typename EvaluateCells>
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
  constexpr RoleRegisters kRegisters = registers_of(kCellGroups);
  if (group < kProductGroups) {
    wide::take_registers<kRegisters.product>();
    constexpr int kRegisterChunks = register_chunks(kBeside);
    if (kBeside && group == 0) {
      multiply<T, kRegisterChunks, kBeside>(geometry, part, weights, group, shared, memory,
                                            barriers, products);
    } else {
      multiply<T, kRegisterChunks, false>(geometry, part, weights, group, shared, memory, barriers,
                                          products);
    }
  } else if (group < kProductGroups + kCellGroups) {
    wide::give_registers<kRegisters.cell>();
    evaluate_cells();
  } else {
    wide::give_registers<kRegisters.copy>();
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
