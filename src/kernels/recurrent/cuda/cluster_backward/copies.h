#pragma once

#include "kernels/recurrent/cuda/cluster_backward/block.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// What a block reads of global memory for a step and writes to it, by the copy engine; called by
/// single threads.
template <typename Shape>
class Copies {
  using Memory = BlockMemory<Shape>;

 public:
  __device__ Copies(const LaunchArgs& launch, const Part& part, int steps, std::uint32_t shared)
      : launch_(launch), part_(part), steps_(steps), shared_(shared) {}

  /// All turns.
  __device__ void run() const {
    const Barriers<Shape> barriers{shared_ + Memory::kBarriers};
#pragma unroll 1
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) read(chunk, 0);
    for (int turn = 0; turn < steps_; ++turn) {
#pragma unroll 1
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        // The cells have taken its inputs before they write.
        wait_for_phase(barriers.gates_full(chunk), turn & 1);
        if (turn + 1 < steps_) read(chunk, turn + 1);
        write(chunk, turn);
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        arrive(barriers.gates_empty(chunk));
      }
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }

  /// Has a chunk's inputs read for a turn.
  __device__ void read(int chunk, int turn) const {
    const Maps& maps = launch_.maps[part_.direction];
    const Barriers<Shape> barriers{shared_ + Memory::kBarriers};
    const std::uint32_t to = shared_ + Memory::kInputs + chunk * ChunkInputs::kBytes;
    const std::uint32_t barrier = barriers.inputs_full(chunk);
    const int row = part_.first_row, unit = unit_of(chunk), time = time_of(turn);
    const int before = part_.direction == 1 ? time + 1 : time;
    const bool has_dy = launch_.layer.dy != nullptr;
    arrive_and_expect(barrier, launch_.rows * (3 * 128 + (has_dy ? 64 : 0)));
    copy_box(to, maps.saved, unit * 4, row, time, barrier);
    copy_box(to + ChunkInputs::kSavedBytes, maps.saved, unit * 4 + 64, row, time, barrier);
    copy_box(to + ChunkInputs::kC, maps.c, unit, row, before, barrier);
    if (has_dy) copy_box(to + ChunkInputs::kDy, maps.dy, unit, row, time, barrier);
  }

  __device__ void write(int chunk, int turn) const {
    const CUtensorMap& map = launch_.maps[part_.direction].d_gates;
    const std::uint32_t from = shared_ + Memory::kGates + chunk * Memory::kChunkBytes;
#pragma unroll 1
    for (int gate = 0; gate < 4; ++gate) {
      asm volatile(
          "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1,%2,%3,%4}], [%5];" ::
              "l"(&map),
          "r"(unit_of(chunk)), "r"(gate), "r"(part_.first_row), "r"(time_of(turn)),
          "r"(from + gate * Memory::kGateBytes)
          : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }

 private:
  __device__ int unit_of(int chunk) const {
    return part_.block * Shape::kUnits + chunk * kChunkUnits;
  }
  __device__ int time_of(int turn) const { return part_.direction == 1 ? turn : steps_ - 1 - turn; }
  const LaunchArgs& launch_;
  const Part part_;
  const int steps_;
  const std::uint32_t shared_;
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
