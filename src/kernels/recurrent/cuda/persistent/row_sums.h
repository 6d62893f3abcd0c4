#pragma once

#include "kernels/recurrent/cuda/persistent/row_exchange.h"

/// Eight sums of each row over all units of a layer.
namespace sluice::kernels::recurrent::cuda::persistent {

/// All tiles go side by side, whether a warp has rows of the last or not.
template <int kBlocks, int kTiles>
class RowSums : RowExchange<kBlocks, kTiles, 8> {
  using Base = RowExchange<kBlocks, kTiles, 8>;
  using Base::kRowBytes, Base::kTargets, Base::lane_;
  static constexpr int kQuadBytes = 4 * kRowBytes;  ///< of the half's rows of a tile

 public:
  using Base::kBytes;

  __device__ RowSums(std::uint32_t memory, int rank, const Owner& owner, int rows)
      : Base(memory, rank, owner, rows),
        value_(static_cast<std::uint32_t>(owner.lane % 4 * kRowBytes + owner.lane / 4 * 4)),
        // Eight lanes send the rows of a tile to one block.
        target_(owner.lane / 8),
        first_row_(owner.half * 4 + owner.lane % 8 / 2),
        rows_(rows) {}

  /// Adds up what owners have in their row of each tile. Called by a half of the block.
  __device__ void find(const float (&values)[kTiles][8], float (&found)[kTiles][8]) {
    put_octet(values);
    Base::meet_half();
    send_block();
    Base::wait();
    add_blocks(found);
  }

 private:
  static_assert(kOctets == 4);

  /// Puts down the sums of an octet of units: lane 4k + q has the k-th one of the q-th row.
  __device__ void put_octet(const float (&values)[kTiles][8]) const {
    float four[kTiles][4], two[kTiles][2], one[kTiles][1];
    add_halves(values, four, 16);
    add_halves(four, two, 8);
    add_halves(two, one, 4);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      store_shared(Base::octet(Base::octet_) + n * kQuadBytes + value_, one[n][0]);
    }
  }

  /// Of two lanes that are `distance` apart the lower one adds up the first half of the values.
  template <int kCount>
  __device__ void add_halves(const float (&values)[kTiles][2 * kCount],
                             float (&sums)[kTiles][kCount], int distance) const {
    const bool upper = (lane_ & distance) != 0;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float other = upper ? values[n][i] : values[n][kCount + i];
        sums[n][i] =
            (upper ? values[n][kCount + i] : values[n][i]) + __shfl_xor_sync(~0u, other, distance);
      }
    }
  }

  /// Adds up those of the block's octets and sends them.
  __device__ void send_block() const {
    const std::uint32_t place = static_cast<std::uint32_t>(lane_ % 8 * 16);
    const std::uint32_t to = Base::received_by(target_) + place;
    const std::uint32_t barrier = Base::barrier_of(target_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float4 octets[kOctets];
#pragma unroll
      for (int i = 0; i < kOctets; ++i) {
        octets[i] = load_four(Base::octet(i) + n * kQuadBytes + place);
      }
      const auto sum = [&](float float4::*part) {
        return __float_as_uint((octets[0].*part + octets[1].*part) +
                               (octets[2].*part + octets[3].*part));
      };
      send(to + n * kQuadBytes,
           make_uint4(sum(&float4::x), sum(&float4::y), sum(&float4::z), sum(&float4::w)), barrier,
           target_ < kTargets && first_row_ + n * 8 < rows_);
    }
  }

  __device__ void add_blocks(float (&found)[kTiles][8]) const {
    float sums[kTiles][4] = {};
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        sums[n][i % 4] += load_shared(Base::received(i) + n * kQuadBytes + value_);
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float mine = (sums[n][0] + sums[n][1]) + (sums[n][2] + sums[n][3]);
#pragma unroll
      for (int k = 0; k < 8; ++k) found[n][k] = __shfl_sync(~0u, mine, k * 4 + lane_ % 4);
    }
  }

  const std::uint32_t value_;
  const int target_, first_row_, rows_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
