#pragma once

#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/cluster_ring.h"
#include "kernels/recurrent/cuda/persistent/fragments.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/packed_weights.h"
#include "kernels/recurrent/cuda/persistent/tensor_core.h"

/// The recurrent product of a forward step. Gates are the rows, batch rows the columns: a warp
/// multiplies the 4 x 8 gate rows of an octet of units with its split's sixteens of the depth, or
/// with all of it where there are as many octets as warps. The GRU has its fourth gate empty; of a
/// plain RNN, the rows of a tile are four units of eight threads.
namespace sluice::kernels::recurrent::cuda::persistent {

/// State in shared memory, as factors: for each of their parts slots of kUnits units, the first
/// from the block itself, the next from the block behind it and so on; within a slot an octet of
/// units of all rows, 16 bytes a row.
template <typename Arithmetic, int kSlots, int kTiles>
struct StateBuffer {
  static constexpr int kOctetBytes = 8 * kTiles * 16;
  static constexpr int kSlotBytes = kOctets * kOctetBytes;
  static constexpr int kPartBytes = kSlots * kSlotBytes;
  static constexpr int kBytes = Arithmetic::kParts * kPartBytes;
};

/// Batch row `row` of a tile is its column 2 * (row % 4) + row / 4, so that a thread's two columns
/// are rows of the two halves and a half's rows lie next to each other.
__device__ inline int row_of_column(int column) { return column % 2 * 4 + column / 2; }

template <typename Arithmetic, int kBlocks, int kTiles, int kBlockUnits = kUnits,
          int kThreadUnits = 1>
class ForwardProduct {
 public:
  using Ring = ClusterRing<kBlocks, kThreadUnits>;
  static constexpr int kSlots = kBlocks * kBlockUnits / kUnits;
  /// Of the depth, over warps.
  static constexpr int kSplits = 2 * kUnits * kThreadUnits / kBlockUnits;
  static_assert(kSlots % 4 == 0 && (kSplits == 2 || (Arithmetic::kParts == 1 && kTiles == 1)));
  /// Slots that are multiplied together: of a cluster whose blocks vary in number a block's.
  static constexpr int kGroup = kThreadUnits == 1 && kSlots % 8 == 0 ? 8 : 4;
  static constexpr int kGroups = kSlots / kGroup;
  /// Barriers that they are waited for at: one each, or for all.
  static constexpr int kBarriers = kThreadUnits == 1 ? kGroups : 1;
  /// Rows of an owner, in which products come out.
  static constexpr int kOwned = kTiles * 2 / kSplits;

 private:
  static constexpr int kParts = Arithmetic::kParts;
  /// A warp multiplies every kSplits-th slot.
  static constexpr int kWarpSlots = kSlots / kSplits;
  static constexpr int kPartFragments = kWarpSlots * 4;
  static constexpr int kBlockOctets = kBlockUnits / 8 / kThreadUnits;
  /// What else a thread needs leaves so many. One more, and what the compiler spills is read behind
  /// what has just been sent, which takes longer than all fragments that were moved.
  static constexpr int kInRegisters = kSplits == 1                    ? 44
                                      : kParts * kPartFragments <= 32 ? 32
                                      : kTiles == 1                   ? 42
                                      : kThreadUnits == 1             ? 32
                                                                      : 34;
  using Buffer = StateBuffer<Arithmetic, kSlots, kTiles>;

 public:
  using Weights = Fragments<kParts * kPartFragments, kInRegisters>;

  /// `weights` as pack_forward leaves them; `shared` is for those that aren't in registers.
  /// Products come out multiplied by `unscale`.
  __device__ ForwardProduct(const void* weights, const Ring& ring, const Owner& owner,
                            std::byte* shared, float unscale)
      : owner_(owner), weights_(shared), unscale_(unscale) {
    const int slots = ring.part_of(kSlots);
    const int packed_part = forward_fragments({ring.blocks, kBlockUnits}, kThreadUnits) * 32;
    const uint4* from = static_cast<const uint4*>(weights) +
                        (ring.rank * kBlockOctets + owner.octet) * slots * 4 * 32 + owner.lane;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kPartFragments; ++i) {
        if (i / 4 * kSplits >= slots) continue;
        const int slot = i / 4 * kSplits + split();
        weights_.put(number(part, i / 4, i % 4),
                     from[(slot * 4 + i % 4) * 32 + part * packed_part]);
      }
    }
    const int row = row_of_column(owner.lane % 8);
    lane_offset_ = static_cast<std::uint32_t>(owner.lane / 8 * Buffer::kOctetBytes + row * 16);
  }

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kChains * kTiles * 8; ++i) (&sums_[0][0][0][0])[i] = 0;
  }

  /// Adds the products of this warp's slots of group g.
  __device__ void add(int g, std::uint32_t state) {
    // Of a group alone: the tensor cores cut off where they add, float32's sums are to be rounded.
    float whole[kTiles][2][4] = {}, cross[kTiles][2][4] = {};
#pragma unroll
    for (int i = 0; i < kGroup / kSplits; ++i) {
      std::uint32_t b[kParts][kTiles][4];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const std::uint32_t from = state + part * Buffer::kPartBytes +
                                   (kGroup * g + kSplits * i + split()) * Buffer::kSlotBytes +
                                   lane_offset_;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) load_blocks(b[part][n], from + n * 128);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int tile = k / 2, pair = k % 2;
        std::uint32_t a[kParts][4];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          weights_.get(number(part, kGroup / kSplits * g + i, k), a[part]);
        }
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          if constexpr (kParts == 1) {
            multiply(sums_[tile % kChains][n][pair], a[0], b[0][n], tile);
          } else {
            multiply(whole[n][pair], a[0], b[0][n], tile);
            multiply(cross[n][pair], a[0], b[1][n], tile);
            multiply(cross[n][pair], a[1], b[0][n], tile);
          }
        }
      }
    }
    if constexpr (kParts == 2) {
#pragma unroll
      for (int i = 0; i < kTiles * 8; ++i) {
        (&sums_[0][0][0][0])[i] += (&whole[0][0][0])[i] + (&cross[0][0][0])[i];
      }
    }
  }

  /// products[n][gate] of the owner's unit and its n-th row. If the depth is split, exchanges sums
  /// with the warp that has the other half.
  __device__ void finish(float4* exchange, float (&products)[kOwned][4]) {
    if constexpr (kChains == 2) {
#pragma unroll
      for (int i = 0; i < kTiles * 8; ++i) (&sums_[0][0][0][0])[i] += (&sums_[1][0][0][0])[i];
    }
    if constexpr (kSplits == 2) {
      exchange_halves(exchange, products);
    } else {
#pragma unroll
      for (int n = 0; n < kOwned; ++n) {
#pragma unroll
        for (int g = 0; g < 4; ++g) {
          products[n][g] = sums_[0][n / 2][g / 2][g % 2 * 2 + n % 2];
        }
      }
    }
    if constexpr (Arithmetic::kScaled) {
#pragma unroll
      for (int i = 0; i < kOwned * 4; ++i) (&products[0][0])[i] *= unscale_;
    }
  }

  /// float4s that `finish` needs.
  static constexpr int kExchange = kSplits == 2 ? kOctets * 2 * kTiles * 32 : 0;

 private:
  /// Sums that don't wait for each other: a product's latency is that of four or five.
  static constexpr int kChains = kTiles == 1 && kParts == 1 ? 2 : 1;

  __device__ int split() const { return kSplits == 2 ? owner_.half : 0; }
  /// Of a fragment of the warp's i-th slot. Where not all stay in registers, every slot has some
  /// that do.
  __device__ static constexpr int number(int part, int i, int k) {
    return kSplits == 2 ? part * kPartFragments + i * 4 + k : k * kWarpSlots + i;
  }

  __device__ void exchange_halves(float4* exchange, float (&products)[kTiles][4]) const {
    float4* mine = exchange + (owner_.octet * 2 + owner_.half) * kTiles * 32 + owner_.lane;
    const float4* theirs =
        exchange + (owner_.octet * 2 + 1 - owner_.half) * kTiles * 32 + owner_.lane;
    const bool second = owner_.half == 1;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto& sums = sums_[0][n];
      mine[n * 32] = second ? make_float4(sums[0][0], sums[0][2], sums[1][0], sums[1][2])
                            : make_float4(sums[0][1], sums[0][3], sums[1][1], sums[1][3]);
    }
    meet(1 + owner_.octet, 64);
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

  __device__ static void multiply(float (&sums)[4], const std::uint32_t (&a)[4],
                                  const std::uint32_t (&b)[4], int tile) {
    multiply_add<typename Arithmetic::Factor>(sums, a, b[2 * tile], b[2 * tile + 1]);
  }

  const Owner& owner_;
  Weights weights_;
  float sums_[kChains][kTiles][2][4];
  float unscale_;
  std::uint32_t lane_offset_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
