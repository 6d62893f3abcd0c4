#pragma once

#include "kernels/recurrent/cuda/joined_step/ring.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

/// The box of units of a gate at some depth, into all blocks of the cluster.
__device__ inline void copy_to_all(std::uint32_t to, const CUtensorMap& map, int depth, int unit,
                                   int gate, std::uint32_t barrier) {
  constexpr std::uint16_t kAll = (1 << kSharers) - 1;
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(depth), "r"(unit), "r"(gate), "r"(barrier), "h"(kAll)
      : "memory");
}

/// The warp that asks for copies.
template <typename T, int kGates>
class Copies {
 public:
  __device__ Copies(const Factors& factors, const Ring<kGates>& ring)
      : factors_(factors), ring_(ring) {}

  /// By one thread.
  __device__ void run() {
#pragma unroll 1
    for (int product = 0; product < 2; ++product) {
      // Of what the kernel ahead writes only the input is read.
      if (product == 1) {
        wait_for_kernel_ahead();
        let_next_kernel_begin();
      }
      copy_all(product);
    }
  }

 private:
  static constexpr int kDepth = kLineBytes / static_cast<int>(sizeof(T));

  __device__ void copy_all(int product) {
#pragma unroll 1
    for (int i = 0; i < factors_.chunks[product]; ++i) {
      // The first time nobody has read what is there.
      wait_for_phase(ring_.emptied(place_.stage), place_.parity ^ 1);
      copy(product, i * kDepth);
      place_.next(Ring<kGates>::kStages);
    }
  }
  __device__ void copy(int product, int depth) const {
    const std::uint32_t filled = ring_.filled(place_.stage);
    arrive_and_expect(filled, Ring<kGates>::kStageBytes);
    copy_box(ring_.left(place_.stage), factors_.left[product], depth,
             static_cast<int>(blockIdx.y) * kRows, filled);
    constexpr int kUnitsOfBlock = kUnits / kSharers;
    const int first = static_cast<int>(cluster_rank()) * kUnitsOfBlock;
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      copy_to_all(ring_.right(place_.stage) + (g * kUnits + first) * kLineBytes,
                  factors_.right[product], depth, static_cast<int>(blockIdx.x) * kUnits + first, g,
                  filled);
    }
  }

  const Factors& factors_;
  const Ring<kGates>& ring_;
  RingPlace place_;
};

}  // namespace sluice::kernels::recurrent::cuda::joined_step
