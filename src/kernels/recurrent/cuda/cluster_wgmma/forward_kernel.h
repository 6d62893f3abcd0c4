#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/exchange.h"
#include "kernels/recurrent/cuda/cluster_wgmma/forward_cells.h"
#include "kernels/recurrent/cuda/cluster_wgmma/inputs.h"
#include "kernels/recurrent/cuda/cluster_wgmma/outputs.h"
#include "kernels/recurrent/cuda/cluster_wgmma/product.h"
#include "kernels/recurrent/cuda/ring_place.h"
#include "kernels/recurrent/cuda/wide/block.h"
#include "kernels/recurrent/cuda/wide/roles.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Called by one thread.
template <int kGroups>
__device__ void begin_barriers(const Barriers& barriers, const Geometry& geometry) {
#pragma unroll 1
  for (int tile = 0; tile < geometry.tiles; ++tile) {
#pragma unroll 1
    for (int parity = 0; parity < 2; ++parity) {
      begin_barrier(barriers.state_full(tile, parity), 1);
      begin_barrier(barriers.state_written(tile, parity), 32 * kWritingWarps);
    }
    begin_barrier(barriers.made(tile), kGroups * 128);
  }
#pragma unroll 1
  for (int slot = 0; slot < geometry.ahead; ++slot) {
    begin_barrier(barriers.inputs_full(slot), 1);
  }
  publish_barriers();
}

/// Finds the largest initial h of the cluster's rows, in magnitude; called by all threads.
template <typename Memory>
__device__ void find_largest_state(const LayerForward& args, const Part& part, std::byte* shared,
                                   const Memory& memory) {
  auto* largest = reinterpret_cast<unsigned*>(shared + memory.largest);
  if (threadIdx.x == 0) *largest = 0;
  __syncthreads();
  const auto* h0 = static_cast<const float*>(args.h0);
  if (h0 == nullptr) return;
  const int hidden = args.extent.hidden;
  h0 += static_cast<std::int64_t>(part.direction * args.extent.rows + part.first_row) * hidden;
  float most = 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < part.rows * hidden; i += blockDim.x) {
    most = fmaxf(most, fabsf(h0[i]));
  }
  // Of numbers that aren't negative the bits are in the same order.
  atomicMax(largest, __float_as_uint(most));
  __syncthreads();
}

/// Brings the initial state to shared memory, h of all units and c of the block's; called by all
/// threads.
template <typename Arithmetic, typename Memory>
__device__ void begin_state(const LayerForward& args, const Geometry& geometry, const Part& part,
                            std::byte* shared, const Memory& memory) {
  using T = typename Arithmetic::Storage;
  using Factor = typename Arithmetic::Factor;
  const int hidden = args.extent.hidden;
  const int line = part.direction * args.extent.rows + part.first_row;
  float* c = reinterpret_cast<float*>(shared + memory.cells);
  const auto h0_at = [&](int row, int unit) {
    return static_cast<const T*>(args.h0)[static_cast<std::int64_t>(line + row) * hidden + unit];
  };
  persistent::Scale scale;
  if constexpr (Arithmetic::kScaled) {
    find_largest_state(args, part, shared, memory);
    scale = scale_of_state(shared, memory);
  }
#pragma unroll 1
  for (int tile = 0; tile < geometry.tiles; ++tile) {
    const int first = geometry.first_column(tile), columns = geometry.columns(tile);
    auto* h =
        reinterpret_cast<Factor*>(shared + memory.states + TileState<Memory>{geometry}.at(tile, 0));
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < columns * Memory::kDepth; i += blockDim.x) {
      const int row = i / Memory::kDepth, unit = i % Memory::kDepth;
      T value{};
      if (args.h0 && first + row < part.rows && unit < hidden) value = h0_at(first + row, unit);
      h[(unit / 8 * columns + row) * 8 + unit % 8] =
          persistent::Factors<Arithmetic>(value, scale).parts[0];
    }
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < geometry.all_columns() * Memory::kUnits;
       i += blockDim.x) {
    const int row = i / Memory::kUnits, unit = part.rank * Memory::kUnits + i % Memory::kUnits;
    const bool exists = row < part.rows && unit < hidden;
    float* to = c + row * Memory::kCellStride + i % Memory::kUnits;
    *to = args.c0 && exists ? args.c0[static_cast<std::int64_t>(line + row) * hidden + unit] : 0;
    if constexpr (Arithmetic::kScaled) {
      to[(memory.plain - memory.cells) / 4] = args.h0 && exists ? h0_at(row, unit) : 0;
    }
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <typename Cell, typename Arithmetic, int kGroups>
__global__ void __launch_bounds__(threads_of(kGroups), 1)
    forward_kernel(const __grid_constant__ LayerForward args,
                   const __grid_constant__ Geometry geometry,
                   const __grid_constant__ CUtensorMap inputs) {
  using Memory = BlockMemory<kGroups, Cell::kGates, Arithmetic::kScaled>;
  extern __shared__ __align__(1024) std::byte shared[];
  const Memory memory(geometry);
  const Part part(args.extent, geometry);
  const std::uint32_t base = shared_address(shared);
  const std::uint32_t states_base = base + static_cast<std::uint32_t>(memory.states);
  const Barriers barriers{base + static_cast<std::uint32_t>(memory.barriers)};
  int* steps = reinterpret_cast<int*>(shared + memory.steps);
  int* lengths = reinterpret_cast<int*>(shared + memory.lengths);
  if (threadIdx.x < 32) count_steps(args.extent, geometry, part, lengths, steps);
  if (threadIdx.x == 32) begin_barriers<kGroups>(barriers, geometry);
  begin_state<Arithmetic>(args, geometry, part, shared, memory);
  __syncthreads();
  cluster_arrive();
  cluster_wait();

  const TileState<Memory> states{geometry};
  const auto time_of = [&](const Items& item) {
    return part.direction == 1 ? steps[item.tile] - 1 - item.step : item.step;
  };
  Items item(geometry, steps);
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group < kGroups) {
    if constexpr (kGroups == 3) wide::take_registers<152>();
    ResidentWeights<typename Arithmetic::Factor, kGroups> weights(args.weights[part.direction],
                                                                  part.rank, group);
    using Cells = ForwardCells<Cell, Arithmetic, Memory>;
    Cells cells(args, part, shared, memory);
    const Turns<kGroups> turns(group);
    RingPlace ahead;
    for (; item.has(); item.advance()) {
      const int tile = item.tile, step = item.step, next = step + 1;
      const int columns = geometry.columns(tile);
      float sums[kMostTileRows / 2];
      wait_for_phase(barriers.inputs_full(ahead.stage), ahead.parity);
      cells.begin_sums(
          sums, reinterpret_cast<const float*>(shared + ahead.stage * Memory::slot_bytes(geometry)),
          columns);
      ahead.next(geometry.ahead);
      wait_for_phase(barriers.state_written(tile, next & 1), states.written_phase(next) ^ 1);
      const int before = states.at(tile, step), after = states.at(tile, next);
      if (step > 0) wait_for_phase(barriers.state_full(tile, step & 1), states.full_phase(step));
      weights.multiply(sums, states_base + static_cast<std::uint32_t>(before), columns, turns);
      const typename Cells::Place place{geometry.first_column(tile),
                                        columns,
                                        time_of(item),
                                        before,
                                        after,
                                        states.cells_at(tile, step),
                                        states.cells_at(tile, next)};
      cells.step(sums, place);
      // Visible to TMA, too.
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      arrive(barriers.made(tile));
      // The fence would wait for it.
      cells.save(place);
    }
    turns.end();
  } else {
    if constexpr (kGroups == 3) wide::give_registers<56>();
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    if (warp == 0) {
      if (threadIdx.x % 32 == 0) {
        const InputReader<Memory> reader(args, geometry, part, inputs, Cell::kGates, base,
                                         barriers);
        Items ahead = item;
        for (int i = 0; i < geometry.ahead && ahead.has(); ++i, ahead.advance()) {
          reader.read(ahead.tile, time_of(ahead), i);
        }
        int slot = 0;
        for (; item.has(); item.advance()) {
          const int tile = item.tile, number = item.step + 1;
          const int bytes = Memory::kUnits * geometry.columns(tile) * 2;
          const std::uint32_t full = barriers.state_full(tile, number & 1);
          wait_for_phase(barriers.made(tile), item.step & 1);
          if (number < steps[tile]) {
            const int piece = states.at(tile, number) + part.rank * bytes;
            send_to_others(part.rank, states_base + static_cast<std::uint32_t>(piece), bytes, full);
          } else {
            // Nobody but the block itself reads it.
            arrive(full);
          }
          // Who has made its part of h has read its inputs.
          if (ahead.has()) {
            reader.read(ahead.tile, time_of(ahead), slot);
            ahead.advance();
          }
          slot = slot + 1 == geometry.ahead ? 0 : slot + 1;
        }
      }
    } else {
      const Outputs<Cell, typename Arithmetic::Storage, Memory> outputs(args, geometry, part,
                                                                        shared, memory, warp - 1);
#pragma unroll 1
      for (int tile = 0; tile < geometry.tiles; ++tile) {
        outputs.begin(tile, steps[tile]);
        arrive(barriers.state_written(tile, 0));
      }
#pragma unroll 1
      for (; item.has(); item.advance()) {
        const int number = item.step + 1;
        wait_for_phase(barriers.state_full(item.tile, number & 1), states.full_phase(number));
        outputs.write(item.tile, number, time_of(item));
        arrive(barriers.state_written(item.tile, number & 1));
      }
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
