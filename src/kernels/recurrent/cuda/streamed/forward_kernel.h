#pragma once

#include "kernels/recurrent/cuda/streamed/forward_cell.h"
#include "kernels/recurrent/cuda/streamed/roles.h"

/// The forward pass of a layer over the whole sequence.
namespace sluice::kernels::recurrent::cuda::streamed {

template <typename Cell, typename T, int kCellGroups, bool kBeside>
__global__ void __launch_bounds__(block_threads(kCellGroups), 1)
    forward_kernel(const __grid_constant__ LayerForward args,
                   const __grid_constant__ Geometry geometry) {
  extern __shared__ __align__(1024) std::byte shared[];
  const BlockMemory memory(geometry);
  const Part part(geometry);
  const Barriers barriers{shared_address(shared) + BlockMemory::kBarriersAt};
  const int steps = steps_of(args.extent);
  const auto evaluate_cells = [&] {
    const CellPlace place(args.extent, geometry, part, shared + memory.sums);
    const CellTurns turns(geometry, barriers);
    ForwardCell<Cell, T> cell(args, geometry, place);
    cell.hand_on(0);
    if (steps > 0) turns.tell();
    for (int t = 0; t < steps; ++t) {
      cell.read(t);
      turns.wait_for_sums(t);
      cell.step(t);
      if (t + 1 < steps) {
        cell.hand_on(t + 1);
        turns.tell();
      }
      cell.write(t);
    }
    cell.finish(steps);
  };
  run_block<T, kCellGroups, kBeside>(args.weights[0], geometry, args.extent, part, memory, barriers,
                                     shared_address(shared), steps, evaluate_cells);
}

}  // namespace sluice::kernels::recurrent::cuda::streamed
