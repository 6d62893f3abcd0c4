#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "runtime/rng.h"

/// Dropout of eight neighbouring elements of 16 bits, a piece of 16 bytes, for kernels that drop
/// out on the way: the same bits as a pass of its own (kernels/elementwise).
namespace sluice::runtime::cuda {

template <typename T>
__device__ std::uint32_t packed_pair(float low, float high);
template <>
__device__ inline std::uint32_t packed_pair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
template <>
__device__ inline std::uint32_t packed_pair<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

template <typename T>
__device__ float2 unpacked_pair(std::uint32_t both);
template <>
__device__ inline float2 unpacked_pair<__nv_bfloat16>(std::uint32_t both) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&both));
}
template <>
__device__ inline float2 unpacked_pair<__half>(std::uint32_t both) {
  return __half22float2(*reinterpret_cast<const __half2*>(&both));
}

/// Which elements of a piece are kept: bit j for element 2 * j, bit 16 + j for 2 * j + 1; so four
/// pieces fit a word. In a byte, where masks are in memory, bit 4 + j for 2 * j + 1. `group` is the
/// piece's first element over four.
__device__ inline std::uint32_t dropout_mask_of_piece(std::uint64_t philox_key,
                                                      std::uint32_t stream, std::uint32_t threshold,
                                                      std::uint32_t row, std::uint32_t time,
                                                      std::uint32_t group) {
  // Not the keys of ten rounds kept in registers from one piece to the next.
  asm volatile("" : "+l"(philox_key));
  std::uint32_t mask = 0;
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    const auto words =
        philox(philox_key, {group + static_cast<std::uint32_t>(g), time, row, stream});
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (words[static_cast<std::size_t>(e)] >= threshold)
        mask |= 1u << (2 * g + e / 2 + e % 2 * 16);
    }
  }
  return mask;
}

/// The piece, its kept elements multiplied by `factor` and rounded, the others zero. Of `mask` the
/// bits above those of this piece mean nothing.
template <typename T>
__device__ uint4 dropped_piece(const uint4& piece, std::uint32_t mask, float factor) {
  std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 values = unpacked_pair<T>(words[j]);
    words[j] =
        packed_pair<T>(values.x * factor, values.y * factor) & (mask >> j & 0x10001u) * 0xffffu;
  }
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace sluice::runtime::cuda
