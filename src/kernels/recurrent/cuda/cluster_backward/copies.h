#pragma once

#include "kernels/recurrent/cuda/cluster_backward/block.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// What a block reads from global memory for a step and writes to it, by TMA; called by single
/// threads.
template <typename Shape, typename Memory>
class Copies {
  using Inputs = typename Memory::Inputs;
  static constexpr int kSlots = Memory::kInputSlots;

 public:
  __device__ Copies(const LaunchArgs& launch, const Part& part, int steps, std::uint32_t shared)
      : launch_(launch), part_(part), steps_(steps), shared_(shared) {}

  /// All turns.
  __device__ void run() const {
    const Barriers<Shape> barriers{shared_ + Memory::kBarriers};
#pragma unroll 1
    for (int i = 0; i < kSlots; ++i) read(i % Shape::kChunks, i / Shape::kChunks);
    for (int turn = 0; turn < steps_; ++turn) {
#pragma unroll 1
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
        // The cells have taken its inputs before they write.
        wait_for_phase(barriers.gates_full(chunk), turn & 1);
        const int ahead = chunk + kSlots;
        read(ahead % Shape::kChunks, turn + ahead / Shape::kChunks);
        write(chunk, turn);
        if constexpr (kSlots < Shape::kChunks) {
          fetch(ahead % Shape::kChunks, turn + ahead / Shape::kChunks + 1);
        }
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        arrive(barriers.gates_empty(chunk));
      }
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }

  /// Issues the copies of a chunk's inputs for a backward step, if there is one.
  __device__ void read(int chunk, int turn) const {
    if (turn >= steps_) return;
    const Maps& maps = launch_.maps[part_.direction];
    const Barriers<Shape> barriers{shared_ + Memory::kBarriers};
    const int slot = Slot::of<Shape, kSlots>(turn, chunk).index;
    const std::uint32_t to = shared_ + Memory::kInputs + slot * Inputs::kBytes;
    const std::uint32_t barrier = barriers.inputs_full(slot);
    const int row = part_.first_row, unit = unit_of(chunk), time = time_of(turn);
    const int before = part_.direction == 1 ? time + 1 : time;
    const bool has_dy = launch_.layer.dy != nullptr;
    arrive_and_expect(
        barrier, launch_.rows * ((Inputs::kSavedBoxes + 1) * 128 + (has_dy ? Inputs::kDyLine : 0)));
#pragma unroll
    for (int i = 0; i < Inputs::kSavedBoxes; ++i) {
      copy_box(to + i * Inputs::kSavedBytes, maps.saved, (unit + i * Inputs::kSavedUnits) * 4, row,
               time, barrier);
    }
    copy_box(to + Inputs::kC, maps.c, unit, row, before, barrier);
    if (has_dy) copy_box(to + Inputs::kDy, maps.dy, unit, row, time, barrier);
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
  /// Prefetches a chunk's inputs to L2, if there is such a backward step: they are read so late
  /// that they must come from there.
  __device__ void fetch(int chunk, int turn) const {
    if (turn >= steps_) return;
    const Maps& maps = launch_.maps[part_.direction];
    const int row = part_.first_row, unit = unit_of(chunk), time = time_of(turn);
    const int before = part_.direction == 1 ? time + 1 : time;
#pragma unroll
    for (int i = 0; i < Inputs::kSavedBoxes; ++i) {
      fetch_box(maps.saved, (unit + i * Inputs::kSavedUnits) * 4, row, time);
    }
    fetch_box(maps.c, unit, row, before);
  }
  __device__ static void fetch_box(const CUtensorMap& map, int x, int y, int z) {
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(&map),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
  }

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
