#pragma once

#include "kernels/recurrent/cuda/persistent/backward_cell.h"
#include "kernels/recurrent/cuda/persistent/backward_product.h"

/// The gradients of gates and of initial states over the whole sequence or a piece of it.
namespace sluice::kernels::recurrent::cuda::persistent {

/// Where things lie in a block's shared memory, in bytes. There are two of each, which take turns.
template <typename Cell, int kBlocks, int kTiles>
struct BackwardMemory {
  static constexpr int kParts = 0;
  static constexpr int kGates = kParts + 2 * PartBuffer<kBlocks, kTiles>::kBytes;
  static constexpr int kBarriers = kGates + 2 * GateBuffer<Cell::kGates, kTiles>::kBytes;
  static constexpr int kBytes = kBarriers + 2 * 8;
};

template <typename Cell, typename T, int kBlocks, int kTiles>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ LayerBackward args, const Spread spread) {
  using Memory = BackwardMemory<Cell, kBlocks, kTiles>;
  using Product = BackwardProduct<T, Cell::kGates, kBlocks, kTiles>;
  using Parts = PartBuffer<kBlocks, kTiles>;
  using Gates = GateBuffer<Cell::kGates, kTiles>;
  extern __shared__ __align__(128) std::byte shared[];
  const std::uint32_t base = shared_address(shared), barriers = base + Memory::kBarriers;
  const Owner owner;
  const int rank = static_cast<int>(cluster_rank());
  const Share share(args.extent, spread, static_cast<int>(blockIdx.x) / kBlocks);
  // The weights take longest to come.
  const Product product(args.weights[share.direction], rank, owner, share.rows,
                        base + Memory::kParts, barriers);

  if (threadIdx.x == 0) {
    for (int buffer = 0; buffer < 2; ++buffer) begin_barrier(barriers + buffer * 8, 1);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int buffer = 0; buffer < 2; ++buffer) {
      arrive_and_expect(barriers + buffer * 8, Product::step_bytes(share.rows));
    }
  }
  const int begin = args.extent.begin;
  const int steps = steps_of(args.extent, share);
  const bool reverse = share.direction == 1;
  const bool wants_dh = args.dh0 || args.dh_before;
  const auto time_of = [&](int turn) { return begin + (reverse ? turn : steps - 1 - turn); };
  BackwardCell<Cell, T, kTiles> cell(args, share, rank, owner, begin + steps);
  cell.move_to(time_of(0));
  if (steps > 0) cell.read(0);
  cluster_arrive();
  cluster_wait();

  const auto receive = [&](int turn) {
    const int buffer = turn % 2;
    wait_for_phase(barriers + buffer * 8, (turn - 1) / 2 % 2);
    const std::byte* parts = shared + Memory::kParts + buffer * Parts::kBytes;
    cell.add([&](int n) { return Parts::total(parts, owner.unit, owner.row + n * 8); });
  };
  for (int turn = 0; turn < steps; ++turn) {
    const int buffer = turn % 2;
    cell.prepare();
    if (turn + 1 < steps) cell.read(1);
    if (turn > 0) receive(turn);
    T* gates = reinterpret_cast<T*>(shared + Memory::kGates + buffer * Gates::kBytes);
    cell.step([&](int n, int g, T value) { gates[Gates::index(g, owner, n)] = value; });
    __syncthreads();
    // All have waited for this turn's parts.
    if (threadIdx.x == 0 && turn > 0) {
      arrive_and_expect(barriers + buffer * 8, Product::step_bytes(share.rows));
    }
    if (turn + 1 < steps || wants_dh) {
      product.send_parts(base + Memory::kGates + buffer * Gates::kBytes, 1 - buffer);
    }
    cell.write();
  }
  if (steps > 0 && wants_dh) receive(steps);
  cell.write_first_state();
  // All that is ever sent to a block it has waited for: it may end before the others.
  cell.clear_rest(begin + steps);
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
