#pragma once

#include "kernels/recurrent/cuda/persistent/forward_cell.h"
#include "kernels/recurrent/cuda/persistent/state_exchange.h"

/// Forward over the whole sequence or a piece of it.
namespace sluice::kernels::recurrent::cuda::persistent {

/// What threads keep, by what the kernel is given.
template <typename Args, typename Cell, typename T, int kBlocks, int kTiles, int kStepsAhead,
          int kBlockUnits>
struct ForwardStateOf {
  using type = ForwardCell<Cell, T, kTiles, kStepsAhead, kBlockUnits>;
};

/// Where things lie in a block's shared memory, in bytes.
template <typename Args, typename Cell, typename Arithmetic, int kBlocks, int kTiles,
          int kBlockUnits>
struct ForwardMemory {
  static constexpr int kThreadUnits = thread_units(Cell::kGates);
  using Product = ForwardProduct<Arithmetic, kBlocks, kTiles, kBlockUnits, kThreadUnits>;
  using Buffer = StateBuffer<Arithmetic, Product::kSlots, kTiles>;
  using Sender = StateSender<Arithmetic, kBlocks, kTiles, kBlockUnits, kThreadUnits>;
  /// float32's steps take long.
  static constexpr int kStepsAhead = Arithmetic::kParts == 1 ? 4 : 2;
  using State = typename ForwardStateOf<Args, Cell, typename Arithmetic::Storage, kBlocks,
                                        Product::kOwned, kStepsAhead, kBlockUnits>::type;
  static constexpr int kState = 0;  ///< two of them take turns
  static constexpr int kWeights = kState + 2 * Buffer::kBytes;
  static constexpr int kExchange = kWeights + Product::Weights::kBytes;
  static constexpr int kExchangeBytes = Product::kExchange * 16;
  static constexpr int kInputs = kExchange + 2 * kExchangeBytes;
  static constexpr int kOutgoing = kInputs + State::kSharedBytes;
  static constexpr int kBarriers = kOutgoing + Sender::kOutgoingBytes;
  static constexpr int kBytes = kBarriers + 2 * Product::kBarriers * 8;
};

/// `Args` is LayerForward, or what adds to it.
template <typename Args, typename Cell, typename Arithmetic, int kBlocks, int kTiles,
          int kBlockUnits>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ Args args, const Spread spread) {
  using Memory = ForwardMemory<Args, Cell, Arithmetic, kBlocks, kTiles, kBlockUnits>;
  using Product = typename Memory::Product;
  extern __shared__ __align__(128) std::byte shared[];
  const std::uint32_t base = shared_address(shared);
  const std::uint32_t state = base + Memory::kState, barriers = base + Memory::kBarriers;
  const Owner owner(kBlockUnits / 8 / Memory::kThreadUnits);
  const typename Product::Ring ring(args.extent);
  const Share share(args.extent, spread, static_cast<int>(blockIdx.x) / ring.blocks);
  // Behind an odd number of single blocks.
  if (Product::Ring::kVaries && share.direction == args.extent.directions) return;
  const int group_bytes = Product::kGroup * share.rows * kUnits * 2 * Arithmetic::kParts;

  // Each buffer has barriers, which are armed again after each use.
  constexpr int kGroups = Product::kGroups, kBarriers = Product::kBarriers;
  const int groups = ring.part_of(kGroups), barrier_bytes = groups / kBarriers * group_bytes;
  const bool arms = static_cast<int>(threadIdx.x) < kBarriers;
  const auto barrier = [&](int buffer, int number) {
    return barriers + static_cast<std::uint32_t>((buffer * kBarriers + number) * 8);
  };
  if (arms) {
    for (int buffer = 0; buffer < 2; ++buffer) {
      begin_barrier(barrier(buffer, threadIdx.x), 1);
    }
    publish_barriers();
  }
  __syncthreads();
  if (arms) {
    for (int buffer = 0; buffer < 2; ++buffer) {
      arrive_and_expect(barrier(buffer, threadIdx.x), barrier_bytes);
    }
  }
  Scale scale;
  float unscale = 1;
  if constexpr (Arithmetic::kScaled) {
    scale = scale_of_state(args, share, reinterpret_cast<float*>(shared + Memory::kExchange));
    unscale = scale.down * Scale(*args.largest[share.direction]).down;
  }
  fill_state<Arithmetic, kBlocks, kTiles, kBlockUnits>(shared + Memory::kState, args, share, ring,
                                                       scale);
  const int begin = args.extent.begin;
  const int steps = steps_of(args.extent, share);
  const bool reverse = share.direction == 1;
  const auto time_of = [&](int s) { return begin + (reverse ? steps - 1 - s : s); };
  typename Memory::State cell(args, share, ring.rank, owner, base + Memory::kInputs,
                              time_of(0) - begin);
  for (int s = 0; s + 1 < cell.kAhead; ++s) cell.read_ahead(s < steps);
  Product product(args.weights[share.direction], ring, owner, shared + Memory::kWeights, unscale);
  typename Memory::Sender sender(state, barriers, shared + Memory::kOutgoing, ring, owner, scale);
  if (begin == 0) cell.write_initial_state(steps, reverse);
  cluster_arrive();
  cluster_wait();

  cell.move_to(time_of(0));
  for (int s = 0; s < steps; ++s) {
    const int buffer = s % 2;
    // While the state is on its way: nobody waits for what the step before has to write, or for
    // inputs of later steps.
    if (s > 0) cell.write();
    cell.receive();
    cell.read_ahead(s + cell.kAhead - 1 < steps);
    product.clear();
    const auto multiply = [&](int g) {
      if (s > 0 && g < kBarriers) wait_for_phase(barrier(buffer, g), (s - 1) / 2 % 2);
      product.add(g, state + buffer * Memory::Buffer::kBytes);
    };
    // Without a branch between groups their reads are on their way together; float32 has no
    // registers for that.
    if (Arithmetic::kParts == 1 && groups == kGroups) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) multiply(g);
    } else {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        if (g >= groups) break;
        multiply(g);
      }
    }
    if (arms && s > 0) arrive_and_expect(barrier(buffer, threadIdx.x), barrier_bytes);
    float products[Product::kOwned][4];
    product.finish(
        reinterpret_cast<float4*>(shared + Memory::kExchange + buffer * Memory::kExchangeBytes),
        products);
    cell.step(products);
    if (s + 1 < steps) sender.send_all(cell, 1 - buffer);
  }
  if (steps > 0) cell.write();
  cell.fill_rest(begin + steps, reverse);
  // All that is ever sent to a block it has waited for: it may end before the others.
  cell.write_last_state();
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
