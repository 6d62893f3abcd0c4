#pragma once

#include "kernels/recurrent/cuda/streamed/backward_cell.h"
#include "kernels/recurrent/cuda/streamed/roles.h"

/// The gradients of gates and of initial states over the whole sequence.
namespace sluice::kernels::recurrent::cuda::streamed {

template <typename Cell, typename T>
__global__ void __launch_bounds__(block_threads(kFewCellGroups), 1)
    backward_kernel(const __grid_constant__ LayerBackward args,
                    const __grid_constant__ Geometry geometry) {
  extern __shared__ __align__(1024) std::byte shared[];
  const BlockMemory memory(geometry);
  const Part part(geometry);
  const Barriers barriers{shared_address(shared) + BlockMemory::kBarriersAt};
  const int steps = steps_of(args.extent);
  // The last step's gradients are multiplied for the initial state's alone.
  const int products = max(0, steps - (args.dh0 ? 0 : 1));
  const auto evaluate_cells = [&] {
    const CellPlace place(args.extent, geometry, part, shared + memory.sums);
    const CellTurns turns(geometry, barriers);
    BackwardCell<Cell, T> cell(args, place);
    for (int number = 0; number < steps; ++number) {
      const int time = steps - 1 - number;
      cell.read(time);
      if (number > 0) {
        turns.wait_for_sums(number - 1);
        cell.add(number - 1);
      }
      cell.step(time);
      if (number < products) {
        cell.hand_on(number);
        turns.tell();
      }
      cell.write(time);
    }
    if (steps > 0 && products == steps) {
      turns.wait_for_sums(steps - 1);
      cell.add(steps - 1);
    }
    cell.finish(steps);
  };
  run_block<T, kFewCellGroups, false>(args.weights[0], geometry, args.extent, part, memory,
                                      barriers, shared_address(shared), products, evaluate_cells);
}

}  // namespace sluice::kernels::recurrent::cuda::streamed
