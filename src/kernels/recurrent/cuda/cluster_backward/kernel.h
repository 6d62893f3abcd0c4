#pragma once

#include <utility>

#include "kernels/recurrent/cuda/cluster_backward/cells.h"
#include "kernels/recurrent/cuda/cluster_backward/copies.h"
#include "kernels/recurrent/cuda/cluster_backward/product.h"
#include "kernels/recurrent/cuda/cluster_backward/sums.h"
#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/wide/roles.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Calls body with 0, .. as constants.
template <int kCount, typename Body>
__device__ void for_constants(const Body& body) {
  [&]<int... kNumbers>(std::integer_sequence<int, kNumbers...>) {
    (body(std::integral_constant<int, kNumbers>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

/// Registers of a thread by its role; together what a block begins with, 96 for each thread.
inline constexpr int kProductRegisters = 168, kCellRegisters = 48;
static_assert((2 * kProductRegisters + 3 * kCellRegisters) * 128 == 96 * kThreads);

/// Sends the sums of a round to the blocks of the units: a warp has one slice of one of them.
template <typename Shape, typename Memory>
class Sender {
 public:
  __device__ Sender(int block, int slot, std::uint32_t shared, const Barriers<Shape>& barriers)
      : barriers_(barriers) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto to = static_cast<std::uint32_t>(slot % Shape::kBlocks);
    const std::uint32_t slice = shared + Memory::kParts + block * Memory::kPartBytes +
                                slot / Shape::kBlocks * Memory::kSliceBytes;
    eights_ = address_in(to, slice + lane * 16);
    rest_ = address_in(to, slice + 2 * Memory::kEightBytes + lane / 4 * 16);
    full_ = address_in(to, barriers.parts_full(0));
    sends_rest_ = lane % 4 == 0;
  }

  __device__ void send(int round, int turn, const float (&sums)[12]) const {
    constexpr int kSlices = kChunkUnits / kSliceUnits;
    const Slot slot = part_slot<Shape>(turn, Shape::chunk_of(round));
    const std::uint32_t slice = slot.index * Shape::kBlocks * Memory::kPartBytes +
                                round * Shape::kSlicesOfRound % kSlices * Memory::kSliceBytes;
    wait_for_phase(barriers_.parts_empty(slot.index), slot.parity ^ 1);
    follow_loads();
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      // Of one row both units, then those of the next.
      const uint4 values =
          make_uint4(__float_as_uint(sums[4 * i]), __float_as_uint(sums[4 * i + 2]),
                     __float_as_uint(sums[4 * i + 1]), __float_as_uint(sums[4 * i + 3]));
      const std::uint32_t to = i < 2 ? eights_ + i * Memory::kEightBytes : rest_;
      persistent::send(to + slice, values, full_ + slot.index * 8, i < 2 || sends_rest_);
    }
  }

 private:
  const Barriers<Shape>& barriers_;
  std::uint32_t eights_, rest_, full_;
  bool sends_rest_;
};

/// The gradients of gates and of initial states over the whole sequence.
template <typename Cell, typename Arithmetic, typename Shape>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ LaunchArgs launch) {
  using Memory = BlockMemory<Shape, sizeof(typename Arithmetic::Storage)>;
  extern __shared__ __align__(1024) std::byte shared[];
  const std::uint32_t at = shared_address(shared);
  const Barriers<Shape> barriers{at + Memory::kBarriers};
  const Part part = Part::of<Shape>(launch);
  const Extent& extent = launch.layer.extent;
  int* lengths = reinterpret_cast<int*>(shared + Memory::kLengths);
  int* all_steps = lengths + kRows;
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x), row = part.first_row + lane;
    int length = 0;
    if (lane < launch.rows && row < extent.rows) {
      length = extent.lengths ? extent.lengths[row] : extent.time;
    }
    if (lane < kRows) lengths[lane] = length;
    const int most = __reduce_max_sync(~0u, length);
    if (lane == 0) *all_steps = most;
  }
  if (threadIdx.x == 32) {
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      begin_barrier(barriers.gates_full(chunk), 32 * kCellWarps);
      begin_barrier(barriers.gates_empty(chunk), 32 * (kProductWarps + kSumWarps) + 1);
      begin_barrier(barriers.inputs_full(chunk), 1);
    }
    for (int slot = 0; slot < kPartSlots; ++slot) {
      begin_barrier(barriers.parts_full(slot), 1);
      begin_barrier(barriers.parts_empty(slot), Shape::kBlocks * kCellWarps);
    }
    for (int turn = 0; turn < 2; ++turn) begin_barrier(barriers.bounds_full(turn), 1);
    publish_barriers();
  }
  if constexpr (Memory::kScaled) {
    if (threadIdx.x < 2 * kRows) {
      reinterpret_cast<std::uint32_t*>(shared + Memory::kReaches)[threadIdx.x] = 0;
    }
  }
  __syncthreads();
  const int steps = *all_steps;
  // The last step's gradients are multiplied for the initial state's alone.
  const int products = max(0, steps - (launch.layer.dh0 ? 0 : 1));
  cluster_arrive();
  cluster_wait();

  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < kProductWarps) {
    wide::take_registers<kProductRegisters>();
    GateProduct<typename Arithmetic::Factor, Shape, Memory> product(
        launch.layer.weights[part.direction], part.block, warp / 4, shared, at);
    const Sender<Shape, Memory> sender(part.block, warp, at, barriers);
    // Each thread for itself: racecheck does not follow one that speaks for its warp.
    const auto release = [&](int chunk) { arrive(barriers.gates_empty(chunk)); };
    constexpr int kLast = Shape::kRounds - 1;
    for (int turn = 0; turn < products; ++turn) {
      float sums[12];
      for_constants<Shape::kRounds>([&](auto each_round) {
        constexpr int kRound = decltype(each_round)::value;
        for_constants<Shape::kChunks>([&](auto each_chunk) {
          constexpr int kChunk = decltype(each_chunk)::value;
          if (kRound == 0) wait_for_phase(barriers.gates_full(kChunk), turn & 1);
          begin_products();
          product.template multiply<kRound, kChunk>(sums);
          end_products();
          if (kRound == kLast && kChunk > 0) {
            wait_for_products<1>();
            release(kChunk - 1);
          }
        });
        wait_for_products<0>();
        sender.send(kRound, turn, sums);
      });
      release(Shape::kChunks - 1);
    }
  } else {
    wide::give_registers<kCellRegisters>();
    if (warp < kCopyWarp) {
      Cells<Cell, Arithmetic, Shape>(launch, part, steps, shared).run();
    } else if (warp > kCopyWarp) {
      const GateSums<Arithmetic, Shape> sums(launch, part, steps, at, warp - kCopyWarp - 1);
      if constexpr (Arithmetic::kScaled) {
        sums.run_scaled(lengths);
      } else {
        sums.run();
      }
    } else if (threadIdx.x % 32 == 0 && steps > 0) {
      Copies<Shape, Memory>(launch, part, steps, at).run();
    }
  }
  // No block ends while another may still write into it.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
