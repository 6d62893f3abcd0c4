#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/recurrent/cuda/persistent/arguments.h"
#include "kernels/recurrent/cuda/storage.h"

/// How a layer is distributed over a cluster. A block owns kUnits units: their gates, their state,
/// and their rows of the recurrent weights, which stay on chip. Its eight warps are four octets of
/// units times two halves of whatever is split. A thread owns one unit (lane / 4 of its octet) in
/// one row of eight (lane % 4 of its half's quad). Blocks with twice as many units have eight
/// octets and no split; a thread owns one row in four.
namespace sluice::kernels::recurrent::cuda::persistent {

inline constexpr int kOctets = kUnits / 8;

/// What one thread owns.
struct Owner {
  int lane, octet, half;
  int unit;  ///< of the block
  int row;   ///< of the first tile of 8 rows

  __device__ explicit Owner(int octets = kOctets)
      : lane(static_cast<int>(threadIdx.x) % 32),
        octet(static_cast<int>(threadIdx.x) / 32 % octets),
        half(static_cast<int>(threadIdx.x) / 32 / octets),
        unit(octet * 8 + lane / 4),
        row(half * 4 + lane % 4) {}
};

/// The direction and rows that one cluster works on.
struct Share {
  int direction, first_row, rows;

  __device__ Share(const Extent& extent, const Spread& spread, int cluster)
      : direction(cluster >= spread.clusters ? 1 : 0),
        first_row((cluster - direction * spread.clusters) * spread.rows),
        rows(min(spread.rows, extent.rows - first_row)) {}
};

/// The most steps of the piece that a row of the share has; called by all threads of a block.
__device__ inline int steps_of(const Extent& extent, const Share& share) {
  if (extent.lengths == nullptr) return extent.end - extent.begin;
  int end = extent.begin;
  for (int row = 0; row < share.rows; ++row) {
    end = max(end, extent.lengths[share.first_row + row]);
  }
  return min(end, extent.end) - extent.begin;
}

/// Four neighbouring values in storage, read or written in one access. Code waits for the read only
/// when it unpacks them.
template <typename T>
struct Four {
  using Bits = std::conditional_t<sizeof(T) == 2, uint2, uint4>;
  Bits bits = {};

  Four() = default;
  __device__ explicit Four(const Bits& stored) : bits(stored) {}
  __device__ explicit Four(const float (&values)[4]) {
    T narrow[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) store(narrow + i, values[i]);
    memcpy(&bits, narrow, sizeof(bits));
  }
  __device__ void unpack(float (&values)[4]) const {
    T narrow[4];
    memcpy(narrow, &bits, sizeof(bits));
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = load(narrow + i);
  }
};

/// A value rounded to storage.
template <typename T>
__device__ float as_stored(float value) {
  T stored;
  store(&stored, value);
  return load(&stored);
}
/// bfloat16 is the upper half of a float32. Converting a pair takes a sixth of the time of
/// converting one value.
template <>
__device__ inline float as_stored<__nv_bfloat16>(float value) {
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(value), "f"(0.0f));
  return __uint_as_float(bits);
}

/// The block that is `distance` ahead of this one (or behind it) in the ring.
template <int kBlocks>
__device__ int ahead(int rank, int distance) {
  const int sum = rank + distance;
  return sum < kBlocks ? sum : sum - kBlocks;
}
template <int kBlocks>
__device__ int behind(int rank, int distance) {
  const int difference = rank - distance;
  return difference < 0 ? difference + kBlocks : difference;
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
