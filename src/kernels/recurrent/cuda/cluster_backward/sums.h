#pragma once

#include "kernels/recurrent/cuda/cluster_backward/row_bounds.h"
#include "kernels/recurrent/cuda/storage.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Sums of the gates' gradients over all steps and half of a cluster's rows, for the gradients of
/// biases: a warp has one half, a lane four units of one gate in each chunk. Where gradients are
/// scaled, it tells the other blocks the bounds of its rows as well.
template <typename Arithmetic, typename Shape>
class GateSums {
  using Factor = typename Arithmetic::Factor;
  using Memory = BlockMemory<Shape, sizeof(typename Arithmetic::Storage)>;
  using Bounds = RowBounds<Shape, Memory>;
  static constexpr int kHalf = Bounds::kHalf, kLaneUnits = 4;

 public:
  __device__ GateSums(const LaunchArgs& launch, const Part& part, int steps, std::uint32_t shared,
                      int half)
      : launch_(launch),
        part_(part),
        steps_(steps),
        half_(half),
        shared_(shared),
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
    write(sums);
  }

  /// The same of scaled gradients. `lengths`: of the cluster's rows.
  __device__ void run_scaled(const int* lengths) const {
    float sums[Shape::kChunks][kLaneUnits] = {};
    Bounds bounds(launch_, part_, steps_, shared_, lengths, half_);
    meet_cells();
#pragma unroll 1
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      bounds.read(chunk, 0);
      bounds.take(chunk);
    }
    if (steps_ > 0) bounds.tell(0);
    bounds.read(0, 1);
    for (int turn = 0; turn < steps_; ++turn) {
      wait_for_phase(barriers_.bounds_full(turn), turn / 2 % 2);
      const float down =
          scale_of_row<Memory, Shape>(shared_, turn, half_ * kHalf + min(lane(), kHalf - 1)).down;
#pragma unroll
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        constexpr int kLast = Shape::kChunks - 1;
        bounds.take(chunk);
        bounds.read(chunk == kLast ? 0 : chunk + 1, chunk == kLast ? turn + 2 : turn + 1);
        wait_for_phase(barriers_.gates_full(chunk), turn & 1);
        // Before anything else, as cells wait for it.
        if (chunk == kLast && turn + 1 < steps_) bounds.tell(turn + 1);
        add(chunk, sums[chunk], down);
        arrive(barriers_.gates_empty(chunk));
      }
    }
    write(sums);
  }

  /// Of those that evaluate cells, when they have told how far the last states reach; they don't
  /// wait.
  __device__ static void arrive_from_cells() {
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" ::"n"(kMeeting), "n"(kMeetingThreads) : "memory");
  }

 private:
  /// A barrier that no other role takes.
  static constexpr int kMeeting = 3, kMeetingThreads = 32 * (kCellWarps + kSumWarps);

  __device__ static void meet_cells() {
    asm volatile("bar.sync %0, %1;" ::"n"(kMeeting), "n"(kMeetingThreads) : "memory");
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int gate() { return lane() / 8; }
  /// `down`: what takes the scale of the lane's row back.
  __device__ void add(int chunk, float (&sums)[kLaneUnits], float down = 1) const {
    // Reckoned anew in each chunk: kept for all of them, places and scales would be spilled.
    std::uint32_t gates = gates_ + chunk * Memory::kChunkBytes;
    int later = gate() % 2;
    asm volatile("" : "+r"(gates), "+r"(later), "+f"(down));
#pragma unroll 3
    for (int i = 0; i < kHalf; ++i) {
      // Every second gate begins a row later: lines of two rows have all banks.
      const int row = i + later < kHalf ? i + later : 0;
      uint2 bits;
      asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];"
                   : "=r"(bits.x), "=r"(bits.y)
                   : "r"(in_lines_of_64(gates + row * 64)));
      Factor values[kLaneUnits];
      memcpy(values, &bits, sizeof(values));
      float of_row = 1;
      if constexpr (Arithmetic::kScaled) of_row = __shfl_sync(~0u, down, row);
#pragma unroll
      for (int u = 0; u < kLaneUnits; ++u) {
        if constexpr (Arithmetic::kScaled) {
          sums[u] = fmaf(load(values + u), of_row, sums[u]);
        } else {
          sums[u] += load(values + u);
        }
      }
    }
  }

  __device__ void write(const float (&sums)[Shape::kChunks][kLaneUnits]) const {
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) write(chunk, sums[chunk]);
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
  const std::uint32_t shared_;
  const Barriers<Shape> barriers_;
  const std::uint32_t gates_;
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
