#pragma once

#include "kernels/recurrent/cuda/cluster_backward/block.h"
#include "kernels/recurrent/cuda/storage.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Sums of the gates' gradients over all steps and half of a cluster's rows, for the gradients of
/// biases: a warp has one half, a lane four units of one gate in each chunk.
template <typename T, typename Shape>
class GateSums {
  using Memory = BlockMemory<Shape>;
  static constexpr int kHalf = kRows / kSumWarps, kLaneUnits = 4;

 public:
  __device__ GateSums(const LaunchArgs& launch, const Part& part, int steps, std::uint32_t shared,
                      int half)
      : launch_(launch),
        part_(part),
        steps_(steps),
        half_(half),
        barriers_{shared + Memory::kBarriers},
        gates_(shared + Memory::kGates + gate() * Memory::kGateBytes + half * kHalf * 64 +
               lane() % 8 * 8) {}

  __device__ void run() const {
    float sums[Shape::kChunks][kLaneUnits] = {};
    for (int turn = 0; turn < steps_; ++turn) {
#pragma unroll
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        wait_for_phase(barriers_.gates_full(chunk), turn & 1);
        add(chunk, sums[chunk]);
        arrive(barriers_.gates_empty(chunk));
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) write(chunk, sums[chunk]);
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int gate() { return lane() / 8; }

  __device__ void add(int chunk, float (&sums)[kLaneUnits]) const {
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      // Every second gate begins a row later: lines of two rows have all banks.
      const int later = (i + 1) % kHalf, row = gate() % 2 == 0 ? i : later;
      uint2 bits;
      asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];"
                   : "=r"(bits.x), "=r"(bits.y)
                   : "r"(in_lines_of_64(gates_ + chunk * Memory::kChunkBytes + row * 64)));
      T values[kLaneUnits];
      memcpy(values, &bits, sizeof(values));
#pragma unroll
      for (int u = 0; u < kLaneUnits; ++u) sums[u] += load(values + u);
    }
  }
  __device__ void write(int chunk, const float (&sums)[kLaneUnits]) const {
    const int hidden = launch_.layer.extent.hidden;
    const int unit = part_.block * Shape::kUnits + chunk * kChunkUnits + lane() % 8 * kLaneUnits;
    if (unit >= hidden) return;  // of a number of units that is a multiple of eight
    const std::int64_t row = part_.first_row / launch_.rows * kSumWarps + half_;
    float* to = launch_.gate_sums[part_.direction] + (row * 4 + gate()) * hidden + unit;
    *reinterpret_cast<float4*>(to) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  }

  const LaunchArgs& launch_;
  const Part part_;
  const int steps_, half_;
  const Barriers<Shape> barriers_;
  const std::uint32_t gates_;
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
