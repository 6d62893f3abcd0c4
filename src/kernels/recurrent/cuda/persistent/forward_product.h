#pragma once

#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/tensor_core.h"

/// The recurrent product of a forward step. Gates are the rows, batch rows the columns: a warp
/// multiplies the 4 x 8 gate rows of an octet of units with half of the depth. The GRU has its
/// fourth gate empty.
namespace sluice::kernels::recurrent::cuda::persistent {

/// State in shared memory: a slot a block of the cluster, slot i from the block i behind; within it
/// an octet of units of all rows, 16 bytes a row.
template <int kBlocks, int kTiles>
struct StateBuffer {
  static constexpr int kRows = 8 * kTiles;
  static constexpr int kOctetBytes = kRows * 16;
  static constexpr int kSlotBytes = kOctets * kOctetBytes;
  static constexpr int kBytes = kBlocks * kSlotBytes;
};

/// Batch row `row` of a tile is its column 2 * (row % 4) + row / 4, so that a thread's two columns
/// are rows of the two halves and a half's rows lie next to each other.
__device__ inline int row_of_column(int column) { return column % 2 * 4 + column / 2; }

template <typename T, int kBlocks, int kTiles>
class ForwardProduct {
 public:
  static_assert(kBlocks % 4 == 0);
  static constexpr int kSlots = kBlocks / 2;  ///< that a warp multiplies: every other one
  static constexpr int kGroup = kBlocks % 8 == 0 ? 8 : 4;  ///< slots that are waited for at once
  static constexpr int kGroups = kBlocks / kGroup;

  /// `weights` as pack_forward leaves them.
  __device__ ForwardProduct(const void* weights, int rank, const Owner& owner) : owner_(owner) {
    const uint4* from = static_cast<const uint4*>(weights) +
                        (rank * kThreads / 32 + threadIdx.x / 32) * kSlots * 4 * 32 + owner.lane;
#pragma unroll
    for (int i = 0; i < kSlots * 4; ++i) {
      reinterpret_cast<uint4&>(weights_[i / 4][i / 2 % 2][i % 2]) = from[i * 32];
    }
    const int row = row_of_column(owner.lane % 8);
    lane_offset_ = static_cast<std::uint32_t>(owner.lane / 8 * Buffer::kOctetBytes + row * 16);
  }

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kChains * kTiles * 8; ++i) (&sums_[0][0][0][0])[i] = 0;
  }

  /// Adds the products of this warp's half of the slots of group g.
  __device__ void add(int g, std::uint32_t state) {
    std::uint32_t b[kGroup / 2][kTiles][4];
#pragma unroll
    for (int i = 0; i < kGroup / 2; ++i) {
      const std::uint32_t from =
          state + (kGroup * g + 2 * i + owner_.half) * Buffer::kSlotBytes + lane_offset_;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) load_blocks(b[i][n], from + n * 128);
    }
#pragma unroll
    for (int i = 0; i < kGroup / 2; ++i) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            multiply_add<T>(sums_[tile % kChains][n][pair],
                            weights_[kGroup / 2 * g + i][tile][pair], b[i][n][2 * tile],
                            b[i][n][2 * tile + 1]);
          }
        }
      }
    }
  }

  /// Exchanges sums with the warp that has the other half of the depth: products[n][gate] of the
  /// owner's unit and its row of tile n.
  __device__ void finish(float4* exchange, float (&products)[kTiles][4]) {
    float4* mine = exchange + (owner_.octet * 2 + owner_.half) * kTiles * 32 + owner_.lane;
    const float4* theirs =
        exchange + (owner_.octet * 2 + 1 - owner_.half) * kTiles * 32 + owner_.lane;
    const bool second = owner_.half == 1;
    if constexpr (kChains == 2) {
#pragma unroll
      for (int i = 0; i < kTiles * 8; ++i) (&sums_[0][0][0][0])[i] += (&sums_[1][0][0][0])[i];
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto& sums = sums_[0][n];
      mine[n * 32] = second ? make_float4(sums[0][0], sums[0][2], sums[1][0], sums[1][2])
                            : make_float4(sums[0][1], sums[0][3], sums[1][1], sums[1][3]);
    }
    asm volatile("bar.sync %0, 64;" ::"r"(1 + owner_.octet) : "memory");
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto& sums = sums_[0][n];
      const float4 other = theirs[n * 32];
      products[n][0] = (second ? sums[0][1] : sums[0][0]) + other.x;
      products[n][1] = (second ? sums[0][3] : sums[0][2]) + other.y;
      products[n][2] = (second ? sums[1][1] : sums[1][0]) + other.z;
      products[n][3] = (second ? sums[1][3] : sums[1][2]) + other.w;
    }
  }

  /// float4s that `finish` needs.
  static constexpr int kExchange = kOctets * 2 * kTiles * 32;

 private:
  using Buffer = StateBuffer<kBlocks, kTiles>;
  /// Sums that don't wait for each other: a product's latency is that of four or five.
  static constexpr int kChains = kTiles == 1 ? 2 : 1;

  const Owner& owner_;
  std::uint32_t weights_[kSlots][2][2][4];
  float sums_[kChains][kTiles][2][4];
  std::uint32_t lane_offset_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
