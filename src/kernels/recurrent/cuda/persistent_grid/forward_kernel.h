#pragma once

#include "kernels/recurrent/cuda/persistent/forward_cell.h"
#include "kernels/recurrent/cuda/persistent_grid/float32_product.h"
#include "kernels/recurrent/cuda/persistent_grid/product.h"

/// Forward over the whole sequence.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// What follows from a block's units, and where things lie in shared memory. Rows of weights are
/// the units' gates, [octet][gate][unit].
template <typename Cell, typename T, int kUnits, int kLoads>
struct ForwardMemory {
  static_assert(kUnits % kOctet == 0);
  using Place = persistent_grid::Place<kUnits>;
  using State = persistent::ForwardCell<Cell, T, 1>;
  static constexpr int kBands =
      (Cell::kGates * kUnits + band_rows(sizeof(T)) - 1) / band_rows(sizeof(T));
  using Product = ProductOf<T, kBands, Cell::kGates, kLoads>;
  using Sums = typename Product::Sums;
  static constexpr int kSums = 0;  ///< two of them take turns
  static constexpr int kInputs = 2 * Sums::kBytes;
  static constexpr int kWeights = kInputs + State::kInputBytes;
  static constexpr int kBytes = kWeights + Product::kBytes;
};

/// Sends the new state of the unit and row that a thread owns.
template <typename T>
class StateSender {
 public:
  template <typename Place>
  __device__ StateSender(const Exchange<T>& exchange, const Place& place, int rank)
      : exchange_(exchange), sends_(place.sends && (kAlone || place.first)) {
    const int unit = rank * Place::kBlockUnits + place.unit;
    offset_ = exchange.layout().offset(unit / kOctet, place.owner.row) +
              unit % kOctet * static_cast<int>(sizeof(T));
  }

  template <typename State>
  __device__ void send(const State& state, int turn) const {
    if (!state.warp_has_row(0)) return;
    std::uint32_t word;
    if constexpr (kAlone) {
      word = word_of(state.h(0));
    } else {
      T stored;
      store(&stored, state.h(0));
      word = bits_of(stored);
      word |= neighbours(word) << 16;
    }
    if (sends_ && state.has_row(0)) tell(exchange_.buffer(turn) + offset_, word);
  }
  template <typename State>
  __device__ void clear(const State& state, int turn) const {
    if (sends_ && state.has_row(0)) tell(exchange_.buffer(turn) + offset_, kAbsent);
  }

 private:
  static constexpr bool kAlone = sizeof(T) == 4;  ///< each value is a word

  const Exchange<T>& exchange_;
  const bool sends_;
  int offset_;
};

template <typename Cell, typename T, int kUnits, int kLoads>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ LayerForward args, const __grid_constant__ Grid grid) {
  using Memory = ForwardMemory<Cell, T, kUnits, kLoads>;
  using Place = typename Memory::Place;
  using State = typename Memory::State;
  using Sums = typename Memory::Sums;
  extern __shared__ __align__(128) std::byte shared[];
  const int rank = static_cast<int>(blockIdx.x) % grid.blocks;
  const int group = static_cast<int>(blockIdx.x) / grid.blocks;
  const Share share(args.extent, grid.spread, group);
  const Place place(rank, args.extent.hidden);
  const Exchange<T> exchange(grid, share, group, octets_of(args.extent.hidden));
  const StateSender<T> sender(exchange, place, rank);
  const int steps = persistent::steps_of(args.extent, share);
  const bool reverse = share.direction == 1;
  const auto time_of = [&](int s) { return reverse ? steps - 1 - s : s; };
  State state(args, share, 0, place.owner, shared_address(shared + Memory::kInputs), time_of(0));
  if (place.owns_warp && steps > 0) sender.send(state, 0);
  for (int s = 0; s + 1 < State::kAhead; ++s) state.read_ahead(s < steps);
  const typename Memory::Product product(args.weights[share.direction], grid, exchange,
                                         static_cast<int>(threadIdx.x) / 32,
                                         shared + Memory::kWeights);
  if (place.owns_warp) state.write_initial_state(steps, reverse);

  state.move_to(time_of(0));
  for (int s = 0; s < steps; ++s) {
    float* sums = reinterpret_cast<float*>(shared + Memory::kSums) + s % 2 * Sums::kFloats;
    product.run(exchange.buffer(s), sums, [&] {
      if (!place.owns_warp) return;
      state.receive();
      state.read_ahead(s + State::kAhead - 1 < steps);
    });
    __syncthreads();
    if (place.owns_warp) {
      float products[1][4] = {};
      if (state.warp_has_row(0)) {
        reinterpret_cast<float4&>(products[0]) =
            Sums::total(Sums::at(sums, place.owner.half, place.unit, place.owner.lane % 4));
      }
      state.step(products);
      if (s + 1 < steps) sender.send(state, s + 1);
      // While the state travels.
      if (s > 0) sender.clear(state, s - 1);
      state.write();
    }
    exchange.order(s);
  }
  if (!place.owns_warp) return;
  state.fill_rest(steps, reverse);
  state.write_last_state();
}

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
