#pragma once

#include "kernels/recurrent/cuda/joined_step/cells.h"
#include "kernels/recurrent/cuda/joined_step/copies.h"
#include "kernels/recurrent/cuda/joined_step/product.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

/// Adds what one instruction takes of the depth to all sums of a warpgroup that the product has.
template <typename Cell, typename T, bool of_state>
__device__ void multiply(float* sums, std::uint32_t rows, std::uint32_t columns) {
  const std::uint64_t left = lines_at(rows, kGroupBytes), right = lines_at(columns, kGroupBytes);
  if constexpr (Cell::kGates == 4) {
    add_lines<T, 4 * kUnits>(sums, left, right);
  } else {
    constexpr int kSums = kUnits / 2;  // of a group
    add_lines<T, 2 * kUnits>(sums, left, right);
    add_lines<T, kUnits>(sums + (of_state ? 3 : 2) * kSums, left,
                         lines_at(columns + 2 * kUnits * kLineBytes, kGroupBytes));
  }
}

/// The products of so many chunks from `place` on, by a warpgroup. It waits for each before it
/// looks for the next one, so that the stage is filled again meanwhile: the tensor cores have the
/// other warpgroup's.
template <typename Cell, typename T, bool of_state>
__device__ void multiply(float* sums, const Ring<Cell::kGates>& ring, RingPlace& place, int count,
                         int group) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    wait_for_phase(ring.filled(place.stage), place.parity);
    const std::uint32_t rows = ring.left(place.stage) + group * kGroupRows * kLineBytes;
    const std::uint32_t columns = ring.right(place.stage);
    begin_products();
#pragma unroll
    for (int j = 0; j < kLineBytes; j += kDepthBytes) {
      multiply<Cell, T, of_state>(sums, rows + j, columns + j);
    }
    end_products();
    wait_for_products<0>();
    ring.release(place.stage);
    place.next(Ring<Cell::kGates>::kStages);
  }
}

/// Grid: x units, y rows.
template <typename Cell, typename T>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor)
    step_kernel(const __grid_constant__ Factors factors,
                const __grid_constant__ CellForwardArgs args) {
  extern __shared__ __align__(1024) std::byte shared[];
  const Ring<Cell::kGates> ring(shared);
  if (threadIdx.x == kMultipliers) {
#pragma unroll
    for (int product = 0; product < 2; ++product) {
      prefetch_map(factors.left[product]);
      prefetch_map(factors.right[product]);
    }
    ring.begin();
  }
  __syncwarp();
  cluster_arrive();
  if (threadIdx.x >= kMultipliers) {
    cluster_wait();
    if (threadIdx.x == kMultipliers) Copies<T, Cell::kGates>(factors, ring).run();
    __syncwarp();
    cluster_arrive();
  } else {
    typename Cells<Cell, T>::Sums sums;
    Cells<Cell, T> cells(args);
    cells.begin(sums);
    // Defined here rather than where the first product of some of them is.
#pragma unroll
    for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
    cells.load_states();
    cluster_wait();
    const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
    RingPlace place;
    const int of_state = factors.chunks[0], of_input = factors.chunks[1];
    if constexpr (Cell::kGates == 4) {
      multiply<Cell, T, true>(sums, ring, place, of_state + of_input, group);
    } else {
      multiply<Cell, T, true>(sums, ring, place, of_state, group);
      multiply<Cell, T, false>(sums, ring, place, of_input, group);
    }
    cluster_arrive();
    cells.run(sums);
  }
  // Blocks stay until nobody copies or arrives there.
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::joined_step
