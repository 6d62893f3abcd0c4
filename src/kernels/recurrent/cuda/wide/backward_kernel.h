#pragma once

#include <type_traits>

#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/wide/backward_cell.h"
#include "kernels/recurrent/cuda/wide/resident_product.h"
#include "kernels/recurrent/cuda/wide/roles.h"

/// The gradients of gates and of initial states over the whole sequence. The four blocks of a chunk
/// of units are (in) a cluster: each multiplies a quarter of the gates' depth for all units of the
/// chunk, and evaluates the cells of a quarter of them.
namespace sluice::kernels::recurrent::cuda::wide {

/// kStages: of the ring, for which weights are in registers.
template <typename Cell, typename T, int kStages>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ LayerBackward args,
                    const __grid_constant__ Geometry geometry) {
  extern __shared__ __align__(1024) std::byte shared[];
  const BlockMemory memory(geometry, sizeof(BackwardState));
  const Part part(geometry);
  const Extent& extent = args.extent;
  const std::uint32_t ring = shared_address(shared);
  const Barriers barriers{ring + static_cast<std::uint32_t>(memory.barriers), geometry.ring};
  const int rank = static_cast<int>(cluster_rank()), first = rank - part.quarter;
  const Sharers sharers{geometry.sharers, part.quarter, kBlocksOfChunk, rank / kBlocksOfChunk};
  int* steps = reinterpret_cast<int*>(shared + memory.counts);
  int* counts = steps + geometry.tiles_each;
  if (threadIdx.x < 32) {
    count_steps(extent, part, steps);
    __syncwarp();
    // The last step's gradients are multiplied for the initial state's alone.
    for (int i = static_cast<int>(threadIdx.x); i < part.tiles; i += 32) {
      counts[i] = max(0, steps[i] - (args.dh0 ? 0 : 1));
    }
  }
  const auto expect_parts = [&](int buffer) {
    arrive_and_expect(barriers.parts_full(buffer), BlockMemory::kPartsBytes);
  };
  if (threadIdx.x == 32) {
    begin_barriers(barriers, part.tiles, sharers.count, 1, kBlocksOfChunk * kCellWarps);
    for (int i = 0; i < geometry.sums; ++i) expect_parts(i);
    copy_weights(args.weights[part.direction], geometry, part,
                 ring + static_cast<std::uint32_t>(memory.weights), barriers);
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  const Items items(counts, part.tiles);

  const auto evaluate_cells = [&](auto even) {
    const CellPlace<even.value> place(extent, geometry, part, barriers);
    BackwardCell<Cell, T, even.value> cell(args, place, part, shared + memory.states);
    const float4* parts = reinterpret_cast<const float4*>(shared + memory.parts);
    const auto time_of = [&](int number, int tile) {
      return part.direction == 1 ? number : steps[tile] - 1 - number;
    };
    const auto step = [&](int number, int tile) {
      cell.step(tile);
      if (number < items.count(tile)) cell.hand_on(number, tile);
      cell.write(tile, time_of(number, tile));
    };
    for (int tile = 0; tile < part.tiles; ++tile) {
      cell.begin(tile);
      if (steps[tile] == 0) continue;
      cell.read(tile, time_of(0, tile));
      cell.receive();
      step(0, tile);
    }
    const auto read = [&](const Item& item) {
      if (!items.has(item) || item.number + 1 >= steps[item.tile]) return;
      cell.read(item.tile, time_of(item.number + 1, item.tile));
    };
    // Whose cells multiply their gradients for this block's cells.
    const std::uint32_t empty =
        place.lane() < kBlocksOfChunk
            ? address_in(static_cast<std::uint32_t>(first + place.lane()), barriers.parts_empty(0))
            : 0;
    Turn turn{geometry.sums};
    Item item = items.first();
    read(item);
    while (items.has(item)) {
      const Item next = items.after(item);
      cell.receive();
      read(next);
      wait_for_phase(barriers.parts_full(turn.buffer), turn.parity);
      if (place.thread() == 0) expect_parts(turn.buffer);
      cell.add_parts(item.tile, parts + turn.buffer * (BlockMemory::kPartsBytes / 16));
      __syncwarp();
      if (empty != 0) arrive_in_cluster(empty + turn.buffer * 8);
      turn.next();
      if (item.number + 1 < steps[item.tile]) step(item.number + 1, item.tile);
      item = next;
    }
    for (int tile = 0; tile < part.tiles; ++tile) cell.finish(tile, steps[tile]);
  };

  const int role = static_cast<int>(threadIdx.x) / 128;
  if (role < kProductGroups) {
    take_registers<kProductRegisters>();
    ResidentProduct<T, kStages> product(args.weights[part.direction], geometry, part, role, ring,
                                        ring + static_cast<std::uint32_t>(memory.weights), barriers,
                                        sharers);
    // A warp has the sums of one block's cells.
    const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
    const std::uint32_t to =
        address_in(static_cast<std::uint32_t>(first + warp),
                   ring + static_cast<std::uint32_t>(
                              memory.parts + ((part.quarter * 2 + role) * 128 + lane) * 16));
    const std::uint32_t full =
        address_in(static_cast<std::uint32_t>(first + warp), barriers.parts_full(0));
    Turn turn{geometry.sums};
    for (Item item = items.first(); items.has(item); item = items.after(item)) {
      float sums[16];
      product.run(sums);
      wait_for_phase(barriers.parts_empty(turn.buffer), turn.parity ^ 1);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 values =
            make_uint4(__float_as_uint(sums[4 * i]), __float_as_uint(sums[4 * i + 1]),
                       __float_as_uint(sums[4 * i + 2]), __float_as_uint(sums[4 * i + 3]));
        persistent::send(to + turn.buffer * BlockMemory::kPartsBytes + i * 512, values,
                         full + turn.buffer * 8, true);
      }
      turn.next();
    }
  } else if (role == kProductGroups) {
    give_registers<kCellRegisters>();
    if (extent.hidden % 2 == 0) {
      evaluate_cells(std::true_type{});
    } else {
      evaluate_cells(std::false_type{});
    }
  } else {
    give_registers<kCopyRegisters>();
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    if (warp == 1) announce_items(geometry, part, items, barriers);
    if (warp == 0) {
      copy_items(geometry, extent.directions, part, items,
                 DepthPart{part.quarter * geometry.stages * kStageChunks, geometry.depth_chunks},
                 sharers, ring, barriers);
    }
  }
  // No block ends while another may still write into it.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::wide
