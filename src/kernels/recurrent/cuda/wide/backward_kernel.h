#pragma once

#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/wide/backward_cell.h"
#include "kernels/recurrent/cuda/wide/resident_product.h"
#include "kernels/recurrent/cuda/wide/roles.h"

/// The gradients of gates and of initial states over the whole sequence. The four blocks of a chunk
/// of units are (in) a cluster: each multiplies a quarter of the gates' depth for all units of the
/// chunk, and evaluates the cells of a quarter of them.
namespace sluice::kernels::recurrent::cuda::wide {

/// Of sums that a block sends to another.
inline constexpr int kSumsBytes = kTileRows * kUnits * 4;

/// kStages: of the ring, that a tile's depth takes, or kRegisterStages + 1 for more of them.
/// `memory` is an argument for its offsets to lie in no registers.
template <typename Cell, typename Arithmetic, int kStages>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ LayerBackward args,
                    const __grid_constant__ Geometry geometry,
                    const __grid_constant__ BlockMemory memory,
                    const __grid_constant__ BackwardBoxes boxes) {
  using T = typename Arithmetic::Storage;
  extern __shared__ __align__(1024) std::byte shared[];
  constexpr int kAnnouncing = announcing_warps(Arithmetic::kScaled, kStages);
  constexpr int kReading = reading_warps(kAnnouncing);
  const Part part(geometry);
  const Extent& extent = args.extent;
  const std::uint32_t ring = shared_address(shared);
  // Each role finds them by itself, as it does its part.
  const auto barriers_of = [&](const BlockMemory& memory) {
    return Barriers{shared_address(shared) + static_cast<std::uint32_t>(memory.barriers)};
  };
  const Barriers barriers = barriers_of(memory);
  const int rank = static_cast<int>(cluster_rank()), first = rank - part.quarter;
  const Sharers sharers{geometry.sharers, part.quarter, kBlocksOfChunk, rank / kBlocksOfChunk};
  int* steps = reinterpret_cast<int*>(shared + memory.counts);
  int* counts = steps + geometry.tiles_each;
  int* turns = counts + geometry.tiles_each;
  int* lengths = reinterpret_cast<int*>(shared + memory.lengths);
  if (threadIdx.x < 32) {
    count_steps(extent, part, lengths, steps);
    __syncwarp();
    // The last step's gradients are multiplied for the initial state's alone.
    for (int i = static_cast<int>(threadIdx.x); i < part.tiles; i += 32) {
      counts[i] = max(0, steps[i] - (args.dh0 ? 0 : 1));
      turns[i] = steps[i] > 0 ? counts[i] + 1 : 0;
    }
  }
  const auto expect_parts = [](const Barriers& barriers, int buffer) {
    arrive_and_expect(barriers.parts_full(buffer), kSumsBytes * kBlocksOfChunk);
  };
  if (threadIdx.x == 32) {
    begin_barriers(barriers, geometry, part.tiles, 1, kBlocksOfChunk * kCellWarps,
                   Arithmetic::kScaled ? kCellThreads : kCellWarps,
                   geometry.boxes ? 1 : input_arrivals(kReading, extent.hidden));
    for (int i = 0; i < geometry.sums; ++i) expect_parts(barriers, i);
    copy_weights(args.weights[part.direction], geometry, part,
                 ring + static_cast<std::uint32_t>(memory.weights), barriers);
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  const Items items(counts, part.tiles);

  const auto time_of = [&](const Item& item) {
    return part.direction == 1 ? item.number : steps[item.tile] - 1 - item.number;
  };
  const auto read = [&](auto even) {
    const Part part(geometry);
    const Barriers barriers = barriers_of(memory);
    const CellPlace<even.value> place(extent, geometry, part, barriers, lengths,
                                      Reader<even.value, kReading>::thread());
    const BackwardInputs<T> inputs(shared + memory.inputs, place, false);
    read_ahead<Cell, T, even.value, kReading>(args, place, inputs, Items(steps, part.tiles),
                                              geometry.ahead, barriers, time_of);
  };
  const auto evaluate_cells = [&](auto even) {
    const Part part(geometry);
    const Barriers barriers = barriers_of(memory);
    const CellPlace<even.value> place(extent, geometry, part, barriers, lengths,
                                      static_cast<int>(threadIdx.x) % kCellThreads);
    const ScaledValues scaled(shared + memory.waiting, shared + memory.scales);
    BackwardCell<Cell, Arithmetic, even.value> cell(args, geometry, place, part, scaled,
                                                    shared + memory.states, shared + memory.inputs);
    const float4* parts = reinterpret_cast<const float4*>(shared + memory.parts);
    for (int tile = 0; tile < part.tiles; ++tile) cell.begin(tile);
    // A tile's turns are its steps, the last first, and what the last product adds to the initial
    // state.
    const Items tile_turns(turns, part.tiles);
    // Whose cells multiply their gradients for this block's cells.
    const std::uint32_t empty =
        place.lane() < kBlocksOfChunk
            ? address_in(static_cast<std::uint32_t>(first + place.lane()), barriers.parts_empty(0))
            : 0;
    Turn turn{geometry.sums};
    RingPlace slot;
    for (Item item = tile_turns.first(); tile_turns.has(item); item = tile_turns.after(item)) {
      const int tile = item.tile, time = time_of(item);
      const bool steps_on = item.number < steps[tile];
      if (steps_on) {
        wait_for_phase(barriers.inputs_full(slot.stage), slot.parity);
        cell.receive(tile, time, slot.stage);
        arrive(barriers.inputs_empty(slot.stage));
        slot.next(geometry.ahead);
      }
      float2 sums{0, 0};
      if (item.number > 0) {
        wait_for_phase(barriers.parts_full(turn.buffer), turn.parity);
        if (place.thread() == 0) expect_parts(barriers, turn.buffer);
        sums = cell.sum_of(parts + turn.buffer * (BlockMemory::kPartsBytes / 16), tile);
        arrive_after_loads(empty == 0 ? 0 : empty + turn.buffer * 8);
        turn.next();
      }
      if (!steps_on) {
        cell.add(tile, sums);
        continue;
      }
      cell.step(tile, sums);
      const bool scaled_all = Arithmetic::kScaled && args.d_scaled;
      if (scaled_all || item.number < items.count(tile)) cell.hand_on(item);
      // await_turns relies on this write coming before the next step is published.
      cell.write(tile, time);
    }
    for (int tile = 0; tile < part.tiles; ++tile) cell.finish(tile, steps[tile]);
  };

  constexpr Registers kRegisters = registers_for(kStages);
  const int role = static_cast<int>(threadIdx.x) / 128;
  if (role < kProductGroups) {
    take_registers<kRegisters.product>();
    // Reckoned here, the offsets lie in uniform registers, as addresses that depend on them then
    // do.
    const BlockMemory memory(geometry, backward_bytes(sizeof(T)));
    const Barriers barriers = barriers_of(memory);
    const int group = warpgroup_of_products<kStages>(role);
    ResidentProduct<typename Arithmetic::Factor, kStages> product(
        args.weights[part.direction], geometry, part, group, shared, memory, barriers, sharers);
    // A warp has the sums of one block's cells; of half of the rows it adds up what both warpgroups
    // have, and the other one of the other half.
    const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
    float4* halves = reinterpret_cast<float4*>(shared + memory.parts + kSumsBytes * kBlocksOfChunk);
    const std::uint32_t to = address_in(
        static_cast<std::uint32_t>(first + warp),
        ring + static_cast<std::uint32_t>(memory.parts + part.quarter * kSumsBytes + lane * 16));
    const std::uint32_t full =
        address_in(static_cast<std::uint32_t>(first + warp), barriers.parts_full(0));
    Turn turn{geometry.sums};
    for (int left = items.total(); left > 0; --left) {
      float sums[16], own[8], other[8];
      product.run(sums);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        own[i] = role == 0 ? sums[i] : sums[8 + i];
        other[i] = role == 0 ? sums[8 + i] : sums[i];
      }
      float4* half = halves + turn.buffer * (BlockMemory::kPartsBytes / 16) + thread;
#pragma unroll
      for (int i = 0; i < 2; ++i) half[(2 - 2 * role + i) * 128] = row_by_row(other + 4 * i);
      persistent::meet(1 + warp, 64);
      wait_for_phase(barriers.parts_empty(turn.buffer), turn.parity ^ 1);
      follow_loads();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 mine = row_by_row(own + 4 * i), theirs = half[(2 * role + i) * 128];
        const uint4 values =
            make_uint4(__float_as_uint(mine.x + theirs.x), __float_as_uint(mine.y + theirs.y),
                       __float_as_uint(mine.z + theirs.z), __float_as_uint(mine.w + theirs.w));
        persistent::send(to + turn.buffer * BlockMemory::kPartsBytes + (2 * role + i) * 512, values,
                         full + turn.buffer * 8, true);
      }
      // The next half may come only when this one was read.
      if (turn.buffers == 1) persistent::meet(1 + warp, 64);
      turn.next();
    }
  } else if (role < kProductGroups + kCellGroups) {
    give_registers<kRegisters.cell>();
    for_width(extent, evaluate_cells);
  } else {
    give_registers<kRegisters.copy>();
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const Part part(geometry);
    const Barriers barriers = barriers_of(memory);
    const Items items(counts, part.tiles);
    if (warp > 0 && warp <= kAnnouncing) {
      if constexpr (Arithmetic::kScaled) {
        const ScaledValues scaled(shared + memory.waiting, shared + memory.scales);
        announce_scaled_items<typename Arithmetic::Factor, Cell, kAnnouncing>(
            args, geometry, part, Items(args.d_scaled ? steps : counts, part.tiles), items, steps,
            scaled, barriers, warp - 1);
      } else {
        announce_items(geometry, part, items, barriers);
      }
    }
    if (warp == 0) {
      copy_items(geometry, extent.directions, part, items,
                 DepthPart{part.quarter * geometry.stages * kStageChunks, geometry.depth_chunks},
                 sharers, ring, barriers);
    }
    if (warp > kAnnouncing && !geometry.boxes) for_width(extent, read);
    if (warp == kAnnouncing + 1 && threadIdx.x % 32 == 0 && geometry.boxes) {
      read_boxes_ahead<Cell, T>(args, boxes, part, Items(steps, part.tiles), geometry.ahead,
                                ring + static_cast<std::uint32_t>(memory.inputs), barriers,
                                time_of);
    }
  }
  // No block ends while another may still write into it.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::wide
