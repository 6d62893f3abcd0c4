#pragma once

#include "kernels/recurrent/cuda/persistent/backward_cell.h"
#include "kernels/recurrent/cuda/persistent/backward_product.h"

/// The gradients of gates and of initial states over the whole sequence or a piece of it.
namespace sluice::kernels::recurrent::cuda::persistent {

/// What threads keep, by what the kernel is given.
template <typename Args, typename Cell, typename T, int kBlocks, int kTiles>
struct BackwardStateOf {
  using type = BackwardCell<Cell, T, kTiles>;
};

/// Where things lie in a block's shared memory, in bytes. Of parts and of gates there are two,
/// which take turns.
template <typename Args, typename Cell, typename Arithmetic, int kBlocks, int kTiles>
struct BackwardMemory {
  using State =
      typename BackwardStateOf<Args, Cell, typename Arithmetic::Storage, kBlocks, kTiles>::type;
  using Product = BackwardProduct<Arithmetic, Cell::kGates, kBlocks, kTiles, State::kAside>;
  static constexpr int kParts = 0;
  static constexpr int kGates = kParts + 2 * Product::Parts::kBytes;
  static constexpr int kWeights = kGates + 2 * Product::Gates::kBytes;
  static constexpr int kBarriers = kWeights + Product::Weights::kBytes;
  static constexpr int kState = kBarriers + 2 * 8;
  static constexpr int kBytes = kState + State::kSharedBytes;
};

/// `Args` is LayerBackward, or what adds to it.
template <typename Args, typename Cell, typename Arithmetic, int kBlocks, int kTiles>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ Args args, const Spread spread) {
  using Memory = BackwardMemory<Args, Cell, Arithmetic, kBlocks, kTiles>;
  using Product = typename Memory::Product;
  using Parts = typename Product::Parts;
  using Gates = typename Product::Gates;
  extern __shared__ __align__(128) std::byte shared[];
  const std::uint32_t base = shared_address(shared), barriers = base + Memory::kBarriers;
  const Owner owner;
  const typename Product::Ring ring(args.extent);
  const Share share(args.extent, spread, static_cast<int>(blockIdx.x) / ring.blocks);
  // Behind an odd number of single blocks.
  if (Product::Ring::kVaries && share.direction == args.extent.directions) return;
  // The weights take longest to come.
  float unscale = 1;
  if constexpr (Arithmetic::kScaled) unscale = Scale(*args.largest[share.direction]).down;
  const Product product(args.weights[share.direction], ring, owner, share.rows,
                        shared + Memory::kWeights, unscale, base + Memory::kParts, barriers);

  const int step_bytes = Product::step_bytes(share.rows, ring.blocks);
  if (threadIdx.x == 0) {
    for (int buffer = 0; buffer < 2; ++buffer) begin_barrier(barriers + buffer * 8, 1);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int buffer = 0; buffer < 2; ++buffer) {
      arrive_and_expect(barriers + buffer * 8, step_bytes);
    }
  }
  const int begin = args.extent.begin;
  const int steps = steps_of(args.extent, share);
  const bool reverse = share.direction == 1;
  const bool wants_dh = args.dh0 || args.dh_before;
  const auto time_of = [&](int turn) { return begin + (reverse ? turn : steps - 1 - turn); };
  typename Memory::State cell(args, share, ring.rank, owner, begin + steps, base + Memory::kState);
  cell.move_to(time_of(0));
  if (steps > 0) cell.read(0);
  cluster_arrive();
  cluster_wait();

  const auto receive = [&](int turn) {
    const int buffer = turn % 2;
    wait_for_phase(barriers + buffer * 8, (turn - 1) / 2 % 2);
    const std::byte* parts = shared + Memory::kParts + buffer * Parts::kBytes;
    cell.add([&](int n, int which = 0) {
      return Parts::total(parts, ring.blocks, which, owner.unit, owner.row + n * 8);
    });
  };
  for (int turn = 0; turn < steps; ++turn) {
    const int buffer = turn % 2;
    cell.prepare();
    if (turn + 1 < steps) cell.read(1);
    if (turn > 0) receive(turn);
    std::byte* gates = shared + Memory::kGates + buffer * Gates::kBytes;
    cell.step();
    if constexpr (Arithmetic::kScaled) {
      Gates::put_largest(gates, cell, owner);
      __syncthreads();
    }
    Gates::put(gates, cell, owner);
    __syncthreads();
    // All have waited for this turn's parts.
    if (threadIdx.x == 0 && turn > 0) {
      arrive_and_expect(barriers + buffer * 8, step_bytes);
    }
    if (turn + 1 < steps || wants_dh) {
      product.send_parts(gates, 1 - buffer);
    }
    cell.write();
  }
  if (steps > 0 && wants_dh) receive(steps);
  cell.write_first_state();
  // All that is ever sent to a block it has waited for: it may end before the others.
  cell.clear_rest(begin + steps);
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
