#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/projected/block_memory.h"
#include "kernels/recurrent/cuda/storage.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

/// What a block is, its barriers and its ring of values.
namespace sluice::kernels::recurrent::cuda::projected {

/// Addresses of barriers.
struct Barriers {
  std::uint32_t base;
  int ring;

  __device__ std::uint32_t full(int stage) const { return base + stage * 8; }
  __device__ std::uint32_t empty(int stage) const { return base + (ring + stage) * 8; }
  __device__ std::uint32_t weights_full(int stage) const { return base + (2 * ring + stage) * 8; }
  __device__ std::uint32_t weights_empty(int stage) const {
    return base + (2 * ring + kWeightRing + stage) * 8;
  }
  __device__ std::uint32_t resident() const { return base + (2 * ring + 2 * kWeightRing) * 8; }
};

/// A place in a ring, and how often it was used.
struct Place {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance(int ring) {
    if (++stage < ring) return;
    stage = 0;
    parity ^= 1;
  }
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
};

/// Which of the gates' weights, behind those in registers, every task reads anew: they are spread
/// evenly, so that the ring is filled while others are multiplied.
class Streaming {
 public:
  __device__ explicit Streaming(const Layer& layer)
      : step_(layer.streamed), all_(layer.resident + layer.streamed) {}
  __device__ int count() const { return all_; }
  /// Whether those of the next depth of 32 are.
  __device__ bool next() {
    sum_ += step_;
    if (sum_ < all_) return false;
    sum_ -= all_;
    return true;
  }

 private:
  const int step_, all_;
  int sum_ = 0;
};

__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_in_cluster(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
template <int kCount>
__device__ void meet(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kCount) : "memory");
}
/// Of all warps that multiply.
__device__ inline void meet_workers() { meet<kWorkers>(1); }

__device__ inline void store_sums(std::byte* to, const float (&v)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ inline void add_sums(float (&v)[4], const std::byte* from) {
  const float4 sums = *reinterpret_cast<const float4*>(from);
  v[0] += sums.x;
  v[1] += sums.y;
  v[2] += sums.z;
  v[3] += sums.w;
}
/// A lane's part of a factor [16, 16].
struct Factor {
  std::uint32_t values[4];
  __device__ explicit Factor(const std::byte* from) {
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    values[0] = v.x;
    values[1] = v.y;
    values[2] = v.z;
    values[3] = v.w;
  }
};

/// Two values as a word, the first in the lower half.
template <typename T>
__device__ std::uint32_t pair_of(float first, float second) {
  T values[2];
  store(&values[0], first);
  store(&values[1], second);
  return *reinterpret_cast<const std::uint16_t*>(&values[0]) |
         static_cast<std::uint32_t>(*reinterpret_cast<const std::uint16_t*>(&values[1])) << 16;
}

/// A thread has values of feature g = lane / 4 for rows 2q and 2q + 1 (q = lane % 4); returns the
/// word of features g & ~1, g | 1 of row 2q + g % 2.
template <typename T>
__device__ std::uint32_t paired(float first, float second) {
  const bool odd = (threadIdx.x / 4) % 2 == 1;
  const float other = __shfl_xor_sync(~0u, odd ? first : second, 4);
  return odd ? pair_of<T>(other, second) : pair_of<T>(first, other);
}

/// Tells other blocks that what the workers wrote is there; they have met before.
__device__ inline void announce(std::uint32_t* counter) {
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  }
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

  /// The next chunk, once it is there.
  __device__ const std::byte* wait() const {
    wait_for_phase(block_.barriers.full(place_.stage), place_.parity);
    return block_.shared + block_.places.values + place_.stage * kChunkBytes;
  }
  /// This warp has read the chunk.
  __device__ void release() {
    __syncwarp();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < kCluster) {
      arrive_in_cluster(address_in(lane, block_.barriers.empty(place_.stage)));
    }
    place_.advance(block_.stack.ring);
  }

 private:
  const Block& block_;
  Place place_;
};

}  // namespace sluice::kernels::recurrent::cuda::projected
