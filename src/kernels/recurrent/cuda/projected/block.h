#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/load_order.h"
#include "kernels/recurrent/cuda/projected/block_memory.h"
#include "kernels/recurrent/cuda/ring_place.h"
#include "kernels/recurrent/cuda/storage.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

/// What a block is, its barriers and its ring of values.
namespace sluice::kernels::recurrent::cuda::projected {

/// Addresses of barriers.
struct Barriers {
  std::uint32_t base;
  int ring, weight_ring;

  __device__ std::uint32_t full(int stage) const { return base + stage * 8; }
  __device__ std::uint32_t empty(int stage) const { return full(ring + stage); }
  __device__ std::uint32_t weights_full(int stage) const { return full(2 * ring + stage); }
  __device__ std::uint32_t weights_empty(int stage) const {
    return weights_full(weight_ring + stage);
  }
  __device__ std::uint32_t resident() const { return weights_full(2 * weight_ring); }
  /// Of the projection's sums.
  __device__ std::uint32_t sums_full() const { return resident() + 8; }
  __device__ std::uint32_t sums_empty() const { return resident() + 16; }
};

/// What a block is, and where its memory is.
struct Block {
  const Stack& stack;
  const Layer& layer;
  int rank;              ///< in its layer
  int index;             ///< of the layer
  std::byte* shared;     ///< its shared memory
  std::uint32_t memory;  ///< the address of that
  BlockMemory places;
  Barriers barriers;
  bool last;  ///< layer of the stack

  /// Its weights of the gates: [depth / 32][kGatesBytes].
  __device__ const std::byte* gates() const {
    return layer.gates + static_cast<std::int64_t>(rank) * layer.depths() * kGatesBytes;
  }
  /// Whether its cluster has features of the projection.
  __device__ bool projects() const { return rank < layer.state_pieces; }
};

/// The thread's warp, which the compiler knows to be one number for all of its lanes.
__device__ inline int own_warp() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0); }

/// A barrier of all warps that multiply and the one that publishes what they wrote.
__device__ inline void meet() { asm volatile("bar.sync 1, %0;" ::"n"(kWorkers + 32) : "memory"); }

/// Calls gates(t, tile) and projection(t, tile) in the order in which all warps of a block take
/// them: in each step the gates of all tiles, then their projections, so that one tile's values
/// travel while another is multiplied; or tile by tile, so that the layer above starts sooner.
template <typename Gates, typename Projection>
__device__ void in_order(const Block& block, const Gates& gates, const Projection& projection) {
  const Stack& stack = block.stack;
  const int together = block.layer.one_by_one ? 1 : stack.tiles;
#pragma unroll 1
  for (int t = 0; t < stack.time; ++t) {
#pragma unroll 1
    for (int first = 0; first < stack.tiles; first += together) {
#pragma unroll 1
      for (int tile = first; tile < first + together; ++tile) gates(t, tile);
#pragma unroll 1
      for (int tile = first; tile < first + together; ++tile) projection(t, tile);
    }
  }
}

/// Lanes of a warp that each tell a block of the cluster: all of the warp have come by here.
__device__ inline void arrive_in_all(std::uint32_t barrier) {
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCluster) arrive_in_cluster(address_in(lane, barrier));
}

/// The same, and what they have loaded from shared memory may be overwritten.
__device__ inline void arrive_in_all_after_loads(std::uint32_t barrier) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  arrive_after_loads(lane < kCluster ? address_in(lane, barrier) : 0);
}

/// Where an element of a tile of values is: `feature` in 16s from `piece` on.
template <typename T, int kOctets>
__device__ T* value_at(std::byte* tile, int piece, int feature, int octet, int row) {
  return reinterpret_cast<T*>(tile + ((piece * 2 + feature / 8) * kOctets + octet) * kMatrixBytes) +
         row * 8 + feature % 8;
}

__device__ inline std::uint32_t* counter_of(std::uint32_t* counters, int tile) {
  return counters + tile * (kCounterBytes / 4);
}
__device__ inline const std::uint32_t* counter_of(const std::uint32_t* counters, int tile) {
  return counters + tile * (kCounterBytes / 4);
}

/// The ring of values as workers see it.
class ValueRing {
 public:
  __device__ explicit ValueRing(const Block& block) : block_(block) {}

  /// The address of the next chunk, once it is there.
  __device__ std::uint32_t take() {
    const int stage = coming_.stage;
    wait_for_phase(block_.barriers.full(stage), coming_.parity);
    coming_.next(block_.stack.ring);
    return block_.memory + block_.places.values + stage * kChunkBytes;
  }
  /// This warp has read the first chunk that it took and has not released.
  __device__ void release() {
    arrive_in_all(block_.barriers.empty(read_.stage));
    read_.next(block_.stack.ring);
  }

 private:
  const Block& block_;
  RingPlace coming_, read_;
};

}  // namespace sluice::kernels::recurrent::cuda::projected
