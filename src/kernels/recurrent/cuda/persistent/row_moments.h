#pragma once

#include "kernels/recurrent/cuda/cell_extras.h"
#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/row_exchange.h"

/// Mean and deviation of each row's numbers over all units of a layer.
namespace sluice::kernels::recurrent::cuda::persistent {

/// Of some numbers: their mean, and the sum of their squared differences from it.
struct Moments {
  float mean, squares;
};

/// Adds up numbers, or the moments of parts, about a pivot that is one of them, so that nothing is
/// lost of what differs little from a large mean.
class MomentSum {
 public:
  MomentSum() = default;
  __device__ explicit MomentSum(float pivot) : pivot_(pivot) {}

  __device__ void add(float number, bool exists) {
    const float difference = exists ? number - pivot_ : 0.0f;
    first_ += difference;
    second_ = fmaf(difference, difference, second_);
  }
  /// The moments of `count` numbers.
  __device__ void add(const Moments& part, float count) {
    const float difference = part.mean - pivot_, weighted = count * difference;
    first_ += weighted;
    second_ += fmaf(weighted, difference, part.squares);
  }
  /// What another lane has, about the same pivot.
  __device__ void add_lane(int distance) {
    first_ += __shfl_xor_sync(~0u, first_, distance);
    second_ += __shfl_xor_sync(~0u, second_, distance);
  }
  __device__ Moments moments(float inverse_count) const {
    const float shift = first_ * inverse_count;
    return {pivot_ + shift, fmaxf(fmaf(-first_, shift, second_), 0.0f)};
  }

 private:
  float pivot_ = 0, first_ = 0, second_ = 0;
};

/// Of kEach numbers a unit. All tiles go side by side, whether a warp has rows of the last or not:
/// what a step waits for is how long it takes, not how much it is.
template <int kBlocks, int kTiles, int kEach>
class RowMoments : RowExchange<kBlocks, kTiles, 2> {
  using Base = RowExchange<kBlocks, kTiles, 2>;
  using Base::kRowBytes, Base::kRows, Base::kTargets, Base::lane_;

 public:
  using Base::kBytes;

  __device__ RowMoments(std::uint32_t memory, int rank, const Owner& owner, int rows, int hidden)
      : Base(memory, rank, owner, (rows + 1) / 2 * 2),
        units_(static_cast<float>(hidden)),
        first_unit_(static_cast<float>(rank * kUnits)),
        exists_(rank * kUnits + owner.unit < hidden),
        inverse_(1 / units_) {
    // A lane sends two neighbouring rows to one block.
    const int target = lane_ / 4, first = lane_ % 4 * 2, row = first % kRows;
    sends_ = target < kTargets && first < kRows && owner.half * 4 + row / 4 * 8 + row % 4 < rows;
    sent_ = static_cast<std::uint32_t>(row * kRowBytes);
  }

  /// The mean and 1 / sqrt(variance + epsilon) of the numbers that owners have in their row of each
  /// tile. Called by a half of the block.
  __device__ void find(const float (&values)[kTiles][kEach], float2 (&found)[kTiles]) {
    put_octet(values);
    Base::meet_half();
    send_block();
    Base::wait();
    const float2 mine = add_blocks();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int lane = n * 4 + lane_ % 4;
      found[n].x = __shfl_sync(~0u, mine.x, lane);
      found[n].y = __shfl_sync(~0u, mine.y, lane);
    }
  }

 private:
  /// Puts down the moments of an octet of units.
  __device__ void put_octet(const float (&values)[kTiles][kEach]) const {
    MomentSum sums[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      sums[n] = MomentSum(__shfl_sync(~0u, values[n][0], lane_ % 4));
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) sums[n].add(values[n][i], exists_);
    }
    add_lanes(sums, 4);
    const float of_octet = inverse_of(count(first_unit_ + 8.0f * Base::octet_, 8));
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const Moments octet = sums[n].moments(of_octet);
      if (lane_ < 4) {
        store_pair(Base::octet(Base::octet_) + (n * 4 + lane_) * kRowBytes,
                   make_float2(octet.mean, octet.squares));
      }
    }
  }

  /// Adds up those of the block's octets and sends them.
  __device__ void send_block() const {
    float4 octets[kOctets];
#pragma unroll
    for (int i = 0; i < kOctets; ++i) octets[i] = load_four(Base::octet(i) + sent_);
    MomentSum sums[2] = {MomentSum(octets[0].x), MomentSum(octets[0].z)};
#pragma unroll
    for (int i = 0; i < kOctets; ++i) {
      const float of_octet = count(first_unit_ + 8.0f * i, 8);
      sums[0].add({octets[i].x, octets[i].y}, of_octet);
      sums[1].add({octets[i].z, octets[i].w}, of_octet);
    }
    const float of_block = inverse_of(count(first_unit_, kUnits));
    const Moments first = sums[0].moments(of_block), second = sums[1].moments(of_block);
    send(Base::received_by(lane_ / 4) + sent_,
         make_uint4(__float_as_uint(first.mean), __float_as_uint(first.squares),
                    __float_as_uint(second.mean), __float_as_uint(second.squares)),
         Base::barrier_of(lane_ / 4), sends_);
  }

  /// Mean and inverse deviation of all blocks' numbers in row lane % kRows of the half.
  __device__ float2 add_blocks() const {
    constexpr int kGroups = 32 / kRows;
    const std::uint32_t row = static_cast<std::uint32_t>(lane_ % kRows * kRowBytes);
    const int group = lane_ / kRows;
    MomentSum sum[1] = {MomentSum(load_pair(Base::received(0) + row).x)};
#pragma unroll
    for (int i = 0; i < kBlocks; i += kGroups) {
      const int block = i + group;
      if (kBlocks % kGroups != 0 && block >= kBlocks) continue;
      const float2 part = load_pair(Base::received(block) + row);
      sum[0].add({part.x, part.y}, count(static_cast<float>(block * kUnits), kUnits));
    }
    add_lanes(sum, kRows);
    const Moments all = sum[0].moments(inverse_ / kEach);
    return make_float2(all.mean, rsqrtf(fmaf(all.squares, inverse_ / kEach, kNormEpsilon)));
  }

  /// Adds what lanes have that are multiples of `nearest` apart.
  template <int kSums>
  __device__ static void add_lanes(MomentSum (&sums)[kSums], int nearest) {
#pragma unroll
    for (int distance = nearest; distance < 32; distance *= 2) {
#pragma unroll
      for (int n = 0; n < kSums; ++n) sums[n].add_lane(distance);
    }
  }

  /// Numbers of the units from `first` on, of up to `most`, that exist.
  __device__ float count(float first, float most) const { return kEach * units(first, most); }
  __device__ float units(float first, float most) const {
    return fminf(fmaxf(units_ - first, 0.0f), most);
  }
  /// Of numbers that may all not exist: then their sums are zero.
  __device__ static float inverse_of(float count) { return fast_reciprocal(fmaxf(count, 1.0f)); }

  const float units_, first_unit_;
  const bool exists_;
  const float inverse_;
  bool sends_;
  std::uint32_t sent_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
