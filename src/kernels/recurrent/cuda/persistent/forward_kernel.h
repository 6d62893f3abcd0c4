#pragma once

#include "kernels/recurrent/cuda/persistent/forward_cell.h"
#include "kernels/recurrent/cuda/persistent/forward_product.h"

/// Forward over the whole sequence or a piece of it.
namespace sluice::kernels::recurrent::cuda::persistent {

/// Where things lie in a block's shared memory, in bytes.
template <typename Cell, typename T, int kBlocks, int kTiles>
struct ForwardMemory {
  using Buffer = StateBuffer<kBlocks, kTiles>;
  static constexpr int kState = 0;  ///< two of them take turns
  static constexpr int kExchange = kState + 2 * Buffer::kBytes;
  static constexpr int kExchangeBytes = ForwardProduct<T, kBlocks, kTiles>::kExchange * 16;
  static constexpr int kInputs = kExchange + 2 * kExchangeBytes;
  static constexpr int kOutgoing = kInputs + ForwardCell<Cell, T, kTiles>::kInputBytes;
  static constexpr int kBarriers = kOutgoing + 2 * kThreads * kTiles * 2;
  static constexpr int kBytes = kBarriers + 2 * ForwardProduct<T, kBlocks, kTiles>::kGroups * 8;
};

/// Eight values of h0 from `unit` on, of which those that don't exist are zero.
template <typename T>
__device__ uint4 octet_of(const T* row, int unit, int hidden, bool aligned) {
  if (aligned && unit < hidden) return *reinterpret_cast<const uint4*>(row + unit);
  T values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = unit + i < hidden ? row[unit + i] : T(0.0f);
  uint4 bits;
  memcpy(&bits, values, sizeof(bits));
  return bits;
}

/// Fills the first buffer with the initial state of all units, and clears the second: rows and
/// units that don't exist stay zero.
template <typename T, int kBlocks, int kTiles>
__device__ void fill_state(uint4* state, const LayerForward& args, const Share& share, int rank) {
  constexpr int kRows = 8 * kTiles, kAll = kBlocks * kOctets * kRows;
  const int hidden = args.extent.hidden;
  const T* h0 = static_cast<const T*>(args.h0);
  const bool aligned = hidden % 8 == 0 && reinterpret_cast<std::uintptr_t>(h0) % 16 == 0;
#pragma unroll
  for (int i = threadIdx.x; i < kAll; i += kThreads) {
    const int slot = i / (kOctets * kRows), octet = i / kRows % kOctets, row = i % kRows;
    const int unit = behind<kBlocks>(rank, slot) * kUnits + octet * 8;
    uint4 values{};
    if (h0 && row < share.rows) {
      const std::int64_t global =
          static_cast<std::int64_t>(share.direction) * args.extent.rows + share.first_row + row;
      values = octet_of(h0 + global * hidden, unit, hidden, aligned);
    }
    state[i] = values;
    state[kAll + i] = uint4{};
  }
}

/// Sends an octet of units of the rows that a warp owns to all blocks of the cluster.
template <typename T, int kBlocks, int kTiles>
class StateSender {
 public:
  using Buffer = StateBuffer<kBlocks, kTiles>;
  using Product = ForwardProduct<T, kBlocks, kTiles>;

  __device__ StateSender(std::uint32_t state, std::uint32_t barriers, std::byte* outgoing, int rank,
                         const Owner& owner)
      : owner_(owner), outgoing_(outgoing + threadIdx.x / 32 * kTiles * 64) {
#pragma unroll
    for (int i = 0; i < kTargets; ++i) {
      // A lane's target; the rows of one target are neighbours.
      const int distance = i * 8 + owner.lane / 4;
      const int to = ahead<kBlocks>(rank, min(distance, kBlocks - 1));
      states_[i] = address_in(to, state + distance * Buffer::kSlotBytes +
                                      owner.octet * Buffer::kOctetBytes + owner.row * 16);
      barriers_[i] = address_in(to, barriers + distance / Product::kGroup * 8);
    }
  }

  template <typename Cell>
  __device__ void send_all(const ForwardCell<Cell, T, kTiles>& cell, int buffer) {
    T* out = reinterpret_cast<T*>(outgoing_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (cell.warp_has_row(n))
        store(out + n * 32 + owner_.lane % 4 * 8 + owner_.lane / 4, cell.h(n));
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!cell.warp_has_row(n)) continue;
      const uint4 value = reinterpret_cast<const uint4*>(out)[n * 4 + owner_.lane % 4];
#pragma unroll
      for (int i = 0; i < kTargets; ++i) {
        const bool target = kBlocks % 8 == 0 || i * 8 + owner_.lane / 4 < kBlocks;
        send(states_[i] + buffer * Buffer::kBytes + n * 128, value,
             barriers_[i] + buffer * Product::kGroups * 8, target && cell.has_row(n));
      }
    }
    // The next step writes there again.
    __syncwarp();
  }

 private:
  static constexpr int kTargets = (kBlocks + 7) / 8;

  const Owner& owner_;
  std::byte* outgoing_;
  std::uint32_t states_[kTargets], barriers_[kTargets];
};

template <typename Cell, typename T, int kBlocks, int kTiles>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ LayerForward args, const Spread spread) {
  using Memory = ForwardMemory<Cell, T, kBlocks, kTiles>;
  using Product = ForwardProduct<T, kBlocks, kTiles>;
  extern __shared__ __align__(128) std::byte shared[];
  const std::uint32_t base = shared_address(shared);
  const std::uint32_t state = base + Memory::kState, barriers = base + Memory::kBarriers;
  const Owner owner;
  const int rank = static_cast<int>(cluster_rank());
  const Share share(args.extent, spread, static_cast<int>(blockIdx.x) / kBlocks);
  const int group_bytes = Product::kGroup * share.rows * kUnits * static_cast<int>(sizeof(T));

  // A group of slots has a barrier in each buffer, which is armed again after each use.
  constexpr int kGroups = Product::kGroups;
  const bool arms = threadIdx.x < kGroups;
  const auto barrier = [&](int buffer, int group) {
    return barriers + static_cast<std::uint32_t>((buffer * kGroups + group) * 8);
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
      arrive_and_expect(barrier(buffer, threadIdx.x), group_bytes);
    }
  }
  fill_state<T, kBlocks, kTiles>(reinterpret_cast<uint4*>(shared + Memory::kState), args, share,
                                 rank);
  const int begin = args.extent.begin;
  const int steps = steps_of(args.extent, share);
  const bool reverse = share.direction == 1;
  const auto time_of = [&](int s) { return begin + (reverse ? steps - 1 - s : s); };
  ForwardCell<Cell, T, kTiles> cell(args, share, rank, owner, base + Memory::kInputs,
                                    time_of(0) - begin);
  for (int s = 0; s + 1 < cell.kAhead; ++s) cell.read_ahead(s < steps);
  Product product(args.weights[share.direction], rank, owner);
  StateSender<T, kBlocks, kTiles> sender(state, barriers, shared + Memory::kOutgoing, rank, owner);
  if (begin == 0) cell.write_initial_state(steps, reverse);
  cluster_arrive();
  cluster_wait();

  cell.move_to(time_of(0));
  for (int s = 0; s < steps; ++s) {
    const int buffer = s % 2;
    cell.read_ahead(s + cell.kAhead - 1 < steps);
    cell.receive();
    product.clear();
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (s > 0) wait_for_phase(barrier(buffer, g), (s - 1) / 2 % 2);
      product.add(g, state + buffer * Memory::Buffer::kBytes);
      // While the products run: nobody waits for what the step before has to write.
      if (g == 0 && s > 0) cell.write();
    }
    if (arms && s > 0) arrive_and_expect(barrier(buffer, threadIdx.x), group_bytes);
    float products[kTiles][4];
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
