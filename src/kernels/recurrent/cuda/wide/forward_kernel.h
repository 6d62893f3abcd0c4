#pragma once

#include "kernels/recurrent/cuda/wide/forward_cell.h"
#include "kernels/recurrent/cuda/wide/resident_product.h"
#include "kernels/recurrent/cuda/wide/roles.h"

/// The forward pass of a layer over the whole sequence.
namespace sluice::kernels::recurrent::cuda::wide {

/// kStages: of the ring, that a tile's depth takes, or kRegisterStages + 1 for more of them.
template <typename Cell, typename Arithmetic, int kStages>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ LayerForward args,
                   const __grid_constant__ Geometry geometry) {
  using T = typename Arithmetic::Storage;
  extern __shared__ __align__(1024) std::byte shared[];
  const BlockMemory memory(geometry, forward_bytes(sizeof(T)));
  constexpr int kReading = reading_warps(1);
  const Part part(geometry);
  const Extent& extent = args.extent;
  const std::uint32_t ring = shared_address(shared);
  const Barriers barriers{ring + static_cast<std::uint32_t>(memory.barriers)};
  const Sharers sharers{geometry.sharers, 0, 1, static_cast<int>(cluster_rank())};
  int* steps = reinterpret_cast<int*>(shared + memory.counts);
  int* lengths = reinterpret_cast<int*>(shared + memory.lengths);
  if (threadIdx.x < 32) count_steps(extent, part, lengths, steps);
  if (threadIdx.x == 32) {
    begin_barriers(barriers, geometry, part.tiles, kProductThreads, kCellThreads, kCellWarps,
                   input_arrivals(kReading, extent.hidden));
    copy_weights(args.weights[part.direction], geometry, part,
                 ring + static_cast<std::uint32_t>(memory.weights), barriers);
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  const Items items(steps, part.tiles);
  float2* parts = reinterpret_cast<float2*>(shared + memory.parts);
  constexpr int kPartsPairs = BlockMemory::kPartsBytes / 8;

  const auto time_of = [&](const Item& item) {
    return part.direction == 1 ? steps[item.tile] - 1 - item.number : item.number;
  };
  const auto read = [&](auto even) {
    const Part part(geometry);
    const CellPlace<even.value> place(extent, geometry, part, barriers, lengths,
                                      Reader<even.value, kReading>::thread());
    const ForwardInputs<T> inputs(shared + memory.inputs, place.thread());
    read_ahead<Cell, T, even.value, kReading>(args, place, inputs, items, geometry.ahead, barriers,
                                              time_of);
  };
  const auto evaluate_cells = [&](auto even) {
    const Part part(geometry);
    const CellPlace<even.value> place(extent, geometry, part, barriers, lengths,
                                      static_cast<int>(threadIdx.x) % kCellThreads);
    ForwardCell<Cell, Arithmetic, even.value> cell(args, geometry, place, part,
                                                   shared + memory.states, shared + memory.inputs);
    for (int tile = 0; tile < part.tiles; ++tile) {
      cell.begin(tile, steps[tile]);
      if (steps[tile] > 0) cell.hand_on(0, tile);
    }
    Turn turn{geometry.sums};
    RingPlace slot;
    for (Item item = items.first(); items.has(item); item = items.after(item)) {
      wait_for_phase(barriers.inputs_full(slot.stage), slot.parity);
      cell.receive(slot.stage);
      arrive(barriers.inputs_empty(slot.stage));
      slot.next(geometry.ahead);
      float products[kCells][4];
      wait_for_phase(barriers.parts_full(turn.buffer), turn.parity);
      cell.add_parts(parts + turn.buffer * kPartsPairs, products);
      arrive(barriers.parts_empty(turn.buffer));
      turn.next();
      const int time = time_of(item);
      cell.step(item.tile, time, products);
      if (item.number + 1 < steps[item.tile]) cell.hand_on(item.number + 1, item.tile);
      cell.write(item.tile, time);
    }
    for (int tile = 0; tile < part.tiles; ++tile) cell.finish(tile, steps[tile]);
  };

  constexpr Registers kRegisters = registers_for(kStages);
  const int role = static_cast<int>(threadIdx.x) / 128;
  if (role < kProductGroups) {
    take_registers<kRegisters.product>();
    const int group = warpgroup_of_products<kStages>(role);
    ResidentProduct<typename Arithmetic::Factor, kStages> product(
        args.weights[part.direction], geometry, part, group, shared, memory, barriers, sharers);
    const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
    Turn turn{geometry.sums};
    for (int left = items.total(); left > 0; --left) {
      float sums[16];
      product.run(sums);
      wait_for_phase(barriers.parts_empty(turn.buffer), turn.parity ^ 1);
      float2* to = parts + turn.buffer * kPartsPairs + (role * 4 + warp) * 256 + lane;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 both = row_by_row(sums + 4 * i);
        to[i * 64] = make_float2(both.x, both.y);
        to[i * 64 + 32] = make_float2(both.z, both.w);
      }
      arrive(barriers.parts_full(turn.buffer));
      turn.next();
    }
  } else if (role < kProductGroups + kCellGroups) {
    give_registers<kRegisters.cell>();
    for_width(extent, evaluate_cells);
  } else {
    give_registers<kRegisters.copy>();
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const Part part(geometry);
    const Items items(steps, part.tiles);
    if (warp == 1) announce_items(geometry, part, items, barriers);
    if (warp == 0) {
      copy_items(geometry, extent.directions, part, items, DepthPart{0, geometry.depth_chunks},
                 sharers, ring, barriers);
    }
    if (warp >= 2) for_width(extent, read);
  }
  // No block ends while another may still write into it.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::wide
