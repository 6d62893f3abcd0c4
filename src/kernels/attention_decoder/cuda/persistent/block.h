#pragma once

#include "kernels/attention_decoder/cuda/persistent/arguments.h"
#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/tensor_copy.h"
#include "kernels/recurrent/cuda/warpgroup_product.h"

/// What a block is, and where things lie in its shared memory.
namespace sluice::kernels::attention_decoder::cuda::persistent {

using recurrent::cuda::address_in;
using recurrent::cuda::arrive_and_expect;
using recurrent::cuda::begin_barrier;
using recurrent::cuda::wait_for_phase;

/// Columns of query and output that a cluster multiplies, and their weights for a tile.
inline constexpr int kColumns = 2 * kUnits, kColumnBytes = kColumns * 128;
inline constexpr int kProductWarps = 4;  ///< of a role

/// Of forward's blocks; offsets in bytes.
struct BlockMemory {
  static constexpr int kStages = 6;        ///< tiles of the ring
  static constexpr bool kShares = false;   ///< whether both blocks of a cluster want the same tiles
  static constexpr int kStateWeights = 0;  ///< of both layers' h: a tile of gates for each of depth
  static constexpr int kColumnWeights = kStateWeights + kLayers * kOwnTiles * kTileBytes;
  static constexpr int kRing = kColumnWeights + kOwnTiles * kColumnBytes;
  /// What the other block has multiplied of each layer's gates.
  static constexpr int kGateParts = kRing + kStages * kTileBytes;
  static constexpr int kGatePartBytes = 16 * 4 * 128;
  /// Sums of scores by warp, of this block and of the other.
  static constexpr int kScores = kGateParts + kLayers * kGatePartBytes;
  static constexpr int kScoreBytes = 4 * kMostSource * 4;
  static constexpr int kBarriers = kScores + 2 * kScoreBytes;
  static constexpr int kFull = 0, kEmpty = kExchanges * kStages, kGates = kEmpty + kStages,
                       kScoreSums = kGates + kLayers, kCount = kScoreSums + 1;
  static constexpr int kBytes = kBarriers + kCount * 8;
};
static_assert(BlockMemory::kBytes <= 227 * 1024);

/// kMemory: where things lie in its shared memory.
template <typename Memory>
struct BlockOf {
  using Offsets = Memory;
  static constexpr int kStages = Memory::kStages;
  static constexpr bool kShares = Memory::kShares;

  std::byte* shared;
  std::uint32_t base;  ///< of shared memory
  int rank, cluster;

  __device__ explicit BlockOf(std::byte* memory)
      : shared(memory),
        base(recurrent::cuda::shared_address(memory)),
        rank(static_cast<int>(recurrent::cuda::cluster_rank())),
        cluster(static_cast<int>(blockIdx.x) / kCluster) {}

  __device__ std::uint32_t barrier(int index) const { return base + Memory::kBarriers + index * 8; }
  __device__ std::uint32_t full(int kind, int stage) const {
    return barrier(Memory::kFull + kind * kStages + stage);
  }
  __device__ std::uint32_t empty(int stage) const { return barrier(Memory::kEmpty + stage); }
  __device__ std::uint32_t ring(int stage) const {
    return base + Memory::kRing + stage * kTileBytes;
  }
  /// In the other block of the cluster.
  __device__ std::uint32_t there(std::uint32_t address) const {
    return address_in(static_cast<std::uint32_t>(1 - rank), address);
  }
};
using Block = BlockOf<BlockMemory>;

/// A thread's number in its role, which the compiler takes for another each time: what it reckons
/// from it would else stay in registers, of which there are none left.
__device__ inline int thread_of_role() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread % 128;
}

/// Of 128 threads: 1, 2 and 3 are free.
template <int kBarrier>
__device__ void sync_warpgroup() {
  asm volatile("bar.sync %0, 128;" ::"n"(kBarrier) : "memory");
}
__device__ inline void sync_warpgroup(int barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

/// Stores in the other block, which its barrier counts.
__device__ inline void send(std::uint32_t to, const float4& v, std::uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, "
      "[%5];" ::"r"(to),
      "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)), "r"(__float_as_uint(v.z)),
      "r"(__float_as_uint(v.w)), "r"(barrier)
      : "memory");
}
__device__ inline void send(std::uint32_t to, float v, std::uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
      "r"(__float_as_uint(v)), "r"(barrier)
      : "memory");
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
