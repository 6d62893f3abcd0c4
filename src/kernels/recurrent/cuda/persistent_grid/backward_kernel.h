#pragma once

#include "kernels/recurrent/cuda/persistent/backward_cell.h"
#include "kernels/recurrent/cuda/persistent_grid/cluster_total.h"
#include "kernels/recurrent/cuda/persistent_grid/float32_product.h"
#include "kernels/recurrent/cuda/persistent_grid/product.h"

/// The gradients of gates and of initial states over the whole sequence. The depth, all gates, is
/// split over the kCluster blocks of a cluster too, each of which multiplies for all their units:
/// so a block reads that much less.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// As ForwardMemory; rows of (transposed) weights are the units of the cluster.
template <typename Cell, typename T, int kUnits, int kCluster, int kLoads>
struct BackwardMemory {
  using Place = persistent_grid::Place<kUnits>;
  using State = persistent::BackwardCell<Cell, T, 1>;
  static constexpr int kBands =
      (kCluster * kUnits + band_rows(sizeof(T)) - 1) / band_rows(sizeof(T));
  using Product = ProductOf<T, kBands, 1, kLoads>;
  using Sums = typename Product::Sums;
  using Total = ClusterTotal<kCluster, Place>;
  static constexpr int kSums = 0;  ///< two of them take turns
  static constexpr int kTotal = 2 * Sums::kBytes;
  static constexpr int kWeights = (kTotal + Total::kBytes + 15) / 16 * 16;
  static constexpr int kBytes = kWeights + Product::kBytes;
};

/// Sends the gate gradients of the unit and row that a thread owns. Of a pair of threads the
/// first sends gates 0 and 1 of both units, the second the others.
template <typename T, int kGates>
class GateSender {
 public:
  template <typename Place>
  __device__ GateSender(const Exchange<T>& exchange, const Place& place, int rank, int octets)
      : exchange_(exchange), sends_(place.sends), first_(place.first) {
    const int unit = rank * Place::kBlockUnits + place.unit;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int gate = first_ ? i : 2 + i;
      offset_[i] = exchange.layout().offset(gate * octets + unit / kOctet, place.owner.row) +
                   unit % kOctet / 2 * 4;
    }
  }

  template <typename State>
  __device__ void send(const State& state, int turn) const {
    if (!state.warp_has_row(0)) return;
    const auto gate = [&](int g) { return bits_of(state.recurrent(0, g)); };
    const std::uint32_t low = gate(0) | gate(1) << 16;
    std::uint32_t high = gate(2);
    if (kGates > 3) high |= gate(kGates - 1) << 16;
    const std::uint32_t got = neighbours(first_ ? high : low);
    const std::uint32_t even = first_ ? low : got, odd = first_ ? got : high;
    tell_both(state, turn, __byte_perm(even, odd, 0x5410), __byte_perm(even, odd, 0x7632));
  }
  template <typename State>
  __device__ void clear(const State& state, int turn) const {
    tell_both(state, turn, kAbsent, kAbsent);
  }

 private:
  template <typename State>
  __device__ void tell_both(const State& state, int turn, std::uint32_t one,
                            std::uint32_t other) const {
    if (!sends_ || !state.has_row(0)) return;
    std::byte* to = exchange_.buffer(turn);
    tell(to + offset_[0], one);
    if (kGates > 3 || first_) tell(to + offset_[1], other);
  }

  const Exchange<T>& exchange_;
  const bool sends_, first_;
  int offset_[2];
};

/// The same of float32: each thread sends all gates.
template <int kGates>
class GateSender<float, kGates> {
 public:
  template <typename Place>
  __device__ GateSender(const Exchange<float>& exchange, const Place& place, int rank, int octets)
      : exchange_(exchange), sends_(place.sends) {
    const int unit = rank * Place::kBlockUnits + place.unit;
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      offset_[g] = exchange.layout().offset(g * octets + unit / kOctet, place.owner.row) +
                   unit % kOctet * static_cast<int>(sizeof(float));
    }
  }

  template <typename State>
  __device__ void send(const State& state, int turn) const {
    tell_all(state, turn, [&](int g) { return word_of(state.recurrent(0, g)); });
  }
  template <typename State>
  __device__ void clear(const State& state, int turn) const {
    tell_all(state, turn, [](int) { return kAbsent; });
  }

 private:
  template <typename State, typename Word>
  __device__ void tell_all(const State& state, int turn, const Word& word) const {
    if (!sends_ || !state.has_row(0)) return;
    std::byte* to = exchange_.buffer(turn);
#pragma unroll
    for (int g = 0; g < kGates; ++g) tell(to + offset_[g], word(g));
  }

  const Exchange<float>& exchange_;
  const bool sends_;
  int offset_[kGates];
};

template <typename Cell, typename T, int kUnits, int kCluster, int kLoads>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ LayerBackward args, const __grid_constant__ Grid grid) {
  using Memory = BackwardMemory<Cell, T, kUnits, kCluster, kLoads>;
  using Place = typename Memory::Place;
  using State = typename Memory::State;
  using Sums = typename Memory::Sums;
  constexpr int kGates = Cell::kGates;
  extern __shared__ __align__(128) std::byte shared[];
  const int rank = static_cast<int>(blockIdx.x) % grid.blocks;
  const int rank_in_cluster = rank % kCluster;
  const int group = static_cast<int>(blockIdx.x) / grid.blocks;
  const Share share(args.extent, grid.spread, group);
  const int octets = octets_of(args.extent.hidden);
  const Place place(rank, args.extent.hidden);
  const Exchange<T> exchange(grid, share, group, kGates * octets);
  const GateSender<T, kGates> sender(exchange, place, rank, octets);
  const typename Memory::Total total(shared + Memory::kTotal, share.rows);
  const int steps = persistent::steps_of(args.extent, share);
  const bool reverse = share.direction == 1;
  const auto time_of = [&](int turn) { return reverse ? turn : steps - 1 - turn; };
  State state(args, share, 0, place.owner, steps, 0);
  state.move_to(time_of(0));
  if (place.owns_warp && steps > 0) state.read(0);
  const typename Memory::Product product(
      args.weights[share.direction], grid, exchange,
      rank_in_cluster * kWarps + static_cast<int>(threadIdx.x) / 32, shared + Memory::kWeights);
  if (kCluster > 1) {
    cluster_arrive();
    cluster_wait();
  }

  const auto prepare = [&](int turn) {
    if (!place.owns_warp || turn >= steps) return;
    state.prepare();
    if (turn + 1 < steps) state.read(1);
  };
  /// Adds the product of the turn before to dh.
  const auto receive = [&](int turn) {
    float* sums = reinterpret_cast<float*>(shared + Memory::kSums) + turn % 2 * Sums::kFloats;
    product.run(exchange.buffer(turn - 1), sums, [&] { prepare(turn); });
    __syncthreads();
    if (!place.owns_warp || !state.warp_has_row(0)) return;
    const auto sum_of = [&](int block) {
      return Sums::total(
          Sums::at(sums, place.owner.half, block * kUnits + place.unit, place.owner.lane % 4));
    };
#pragma unroll
    for (int distance = 1; distance < kCluster; ++distance) {
      total.send(distance, turn, sum_of(total.target(distance)),
                 place.unit < kUnits && state.has_row(0));
    }
    const float own = sum_of(rank_in_cluster);
    total.wait(turn);
    state.add([&](int) { return own + total.received(turn); });
  };
  for (int turn = 0; turn < steps; ++turn) {
    if (turn > 0) {
      receive(turn);
    } else {
      prepare(turn);
    }
    if (place.owns_warp) {
      state.step();
      if (turn + 1 < steps || args.dh0) sender.send(state, turn);
      // While the gradients travel.
      if (turn > 1) sender.clear(state, turn - 2);
      state.write();
    }
    exchange.order(turn);
  }
  if (steps > 0 && args.dh0) receive(steps);
  if (place.owns_warp) {
    state.write_first_state();
    state.clear_rest(steps);
  }
  if (kCluster > 1) {
    // No block ends while another may still write into it.
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
