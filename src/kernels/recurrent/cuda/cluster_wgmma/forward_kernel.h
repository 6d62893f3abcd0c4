#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/exchange.h"
#include "kernels/recurrent/cuda/cluster_wgmma/forward_cells.h"
#include "kernels/recurrent/cuda/cluster_wgmma/inputs.h"
#include "kernels/recurrent/cuda/cluster_wgmma/outputs.h"
#include "kernels/recurrent/cuda/cluster_wgmma/product.h"
#include "kernels/recurrent/cuda/wide/roles.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Warpgroups of units, and one whose warps read and write global memory.
constexpr int threads_of(int groups) { return 128 * (groups + 1); }

/// Called by one thread.
template <int kGroups>
__device__ void begin_barriers(const Barriers& barriers, const Geometry& geometry) {
#pragma unroll 1
  for (int tile = 0; tile < geometry.tiles; ++tile) {
#pragma unroll 1
    for (int parity = 0; parity < 2; ++parity) {
      begin_barrier(barriers.state_full(tile, parity), kGroups);
      begin_barrier(barriers.state_written(tile, parity), kWritingThreads);
    }
  }
#pragma unroll 1
  for (int slot = 0; slot < geometry.ahead; ++slot) {
    begin_barrier(barriers.inputs_full(slot), kReadingThreads);
    begin_barrier(barriers.inputs_empty(slot), kGroups * 128);
  }
  publish_barriers();
}

/// Brings the initial state to shared memory, h of all units and c of the block's, and clears what
/// inputs don't fill; called by all threads.
template <typename Cell, typename T, int kGroups>
__device__ void begin_state(const LayerForward& args, const Geometry& geometry, const Part& part,
                            std::byte* shared, const BlockMemory<kGroups>& memory) {
  using Memory = BlockMemory<kGroups>;
  const int hidden = args.extent.hidden;
  const int line = part.direction * args.extent.rows + part.first_row;
  float* c = reinterpret_cast<float*>(shared + memory.cells);
#pragma unroll 1
  for (int tile = 0; tile < geometry.tiles; ++tile) {
    const int first = geometry.first_column(tile), columns = geometry.columns(tile);
    T* h = reinterpret_cast<T*>(shared + TileState<kGroups>{geometry}.at(tile, 0));
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < columns * Memory::kDepth; i += blockDim.x) {
      const int row = i / Memory::kDepth, unit = i % Memory::kDepth;
      T value{};
      if (args.h0 && first + row < part.rows && unit < hidden) {
        value = static_cast<const T*>(
            args.h0)[static_cast<std::int64_t>(line + first + row) * hidden + unit];
      }
      h[(unit / 8 * columns + row) * 8 + unit % 8] = value;
    }
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < geometry.all_columns() * Memory::kUnits;
       i += blockDim.x) {
    const int row = i / Memory::kUnits, unit = part.rank * Memory::kUnits + i % Memory::kUnits;
    const bool read = args.c0 && row < part.rows && unit < hidden;
    c[row * Memory::kCellStride + i % Memory::kUnits] =
        read ? args.c0[static_cast<std::int64_t>(line + row) * hidden + unit] : 0;
  }
  float* inputs = reinterpret_cast<float*>(shared + memory.inputs);
  const int count = geometry.ahead * Memory::input_bytes(geometry) / 4;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += blockDim.x) inputs[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <typename Cell, typename Arithmetic, int kGroups>
__global__ void __launch_bounds__(threads_of(kGroups), 1)
    forward_kernel(const __grid_constant__ LayerForward args,
                   const __grid_constant__ Geometry geometry) {
  using T = typename Arithmetic::Storage;
  using Memory = BlockMemory<kGroups>;
  extern __shared__ __align__(1024) std::byte shared[];
  const Memory memory(geometry);
  const Part part(args.extent, geometry);
  const std::uint32_t base = shared_address(shared);
  const Barriers barriers{base + static_cast<std::uint32_t>(memory.barriers)};
  int* steps = reinterpret_cast<int*>(shared + memory.steps);
  int* lengths = reinterpret_cast<int*>(shared + memory.lengths);
  if (threadIdx.x < 32) count_steps(args.extent, geometry, part, lengths, steps);
  if (threadIdx.x == 32) begin_barriers<kGroups>(barriers, geometry);
  begin_state<Cell, T, kGroups>(args, geometry, part, shared, memory);
  __syncthreads();
  cluster_arrive();
  cluster_wait();

  const TileState<kGroups> states{geometry};
  const auto time_of = [&](int step, int tile) {
    return part.direction == 1 ? steps[tile] - 1 - step : step;
  };
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group < kGroups) {
    if constexpr (kGroups == 3) wide::take_registers<152>();
    ResidentWeights<T, kGroups> weights(args.weights[part.direction], part.rank, group);
    const ForwardCells<Cell, T, kGroups> cells(args, part, shared, memory);
    Slot slot{geometry.ahead};
    for_items(geometry, steps, [&](int step, int tile) {
      const int columns = geometry.columns(tile);
      float sums[kMostTileRows / 2];
      wait_for_phase(barriers.inputs_full(slot.index), slot.parity);
      cells.begin_sums(sums,
                       reinterpret_cast<const float*>(shared + memory.inputs +
                                                      slot.index * Memory::input_bytes(geometry)),
                       columns);
      asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barriers.inputs_empty(slot.index))
                   : "memory");
      slot.next();
      const int before = states.at(tile, step), after = states.at(tile, step + 1);
      if (step > 0) wait_for_phase(barriers.state_full(tile, step & 1), states.full_phase(step));
      weights.multiply(sums, base + static_cast<std::uint32_t>(before), columns);
      const int next = step + 1;
      wait_for_phase(barriers.state_written(tile, next & 1), states.written_phase(next) ^ 1);
      cells.step(sums, {geometry.first_column(tile), columns, time_of(step, tile), before, after,
                        states.cells_at(tile, step), states.cells_at(tile, next)});
      const int eights = kGroupUnits / 8;
      hand_on(group, part.rank,
              base + static_cast<std::uint32_t>(
                         after + (part.rank * kGroups + group) * eights * columns * 16),
              eights * columns * 16, barriers.state_full(tile, next & 1), next == steps[tile]);
    });
  } else {
    if constexpr (kGroups == 3) wide::give_registers<56>();
    const int thread = static_cast<int>(threadIdx.x) % 128;
    if (thread < kReadingThreads) {
      Slot slot{geometry.ahead};
      for_items(geometry, steps, [&](int step, int tile) {
        wait_for_phase(barriers.inputs_empty(slot.index), slot.parity ^ 1);
        read_inputs<Cell, kGroups>(
            args, part, lengths, geometry.first_column(tile), geometry.columns(tile),
            time_of(step, tile),
            base + static_cast<std::uint32_t>(memory.inputs +
                                              slot.index * Memory::input_bytes(geometry)),
            thread);
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(
                         barriers.inputs_full(slot.index))
                     : "memory");
        slot.next();
      });
    } else {
      const Outputs<Cell, T, kGroups> outputs(args, geometry, part, shared, memory,
                                              thread - kReadingThreads);
      const auto tell = [&](int tile, int number) {
        asm volatile(
            "mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barriers.state_written(tile, number & 1))
            : "memory");
      };
#pragma unroll 1
      for (int tile = 0; tile < geometry.tiles; ++tile) {
        outputs.begin(tile, steps[tile]);
        tell(tile, 0);
      }
      for_items(geometry, steps, [&](int step, int tile) {
        const int number = step + 1;
        wait_for_phase(barriers.state_full(tile, number & 1), states.full_phase(number));
        outputs.write(tile, number, time_of(step, tile));
        tell(tile, number);
      });
#pragma unroll 1
      for (int tile = 0; tile < geometry.tiles; ++tile) outputs.finish(tile, steps[tile]);
    }
  }
  // No block ends while another may still write into it.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
