#pragma once

#include <cuda_bf16.h>

/// float32 numbers as sums of three bfloat16, which together have all of its 24 bits: the first cut
/// off, the second rounded, the third what is left then. Of the nine products of two such sums the
/// six largest leave out at most 2^-22 of the product, of either sign, 2^-25 in the mean. Of an
/// infinity the second part is NaN. Parts are exact down to 2^-110; smaller numbers keep what
/// 2^-133 divides.
namespace sluice::kernels::matmul::cuda::by_parts {

/// Of two numbers that lie next to each other in the depth, the first one below.
struct PairParts {
  unsigned high, middle, low;
};

/// The upper halves of two words, those of `a` below.
__device__ inline unsigned upper_halves(float a, float b) {
  constexpr unsigned kUpper = 0x7632;
  return __byte_perm(__float_as_uint(a), __float_as_uint(b), kUpper);
}
__device__ inline float upper_half(unsigned word) { return __uint_as_float(word & 0xffff0000u); }

__device__ inline PairParts split_pair(float a, float b) {
  PairParts parts;
  parts.high = upper_halves(a, b);
  a -= upper_half(__float_as_uint(a));
  b -= upper_half(__float_as_uint(b));
  const __nv_bfloat162 middle = __floats2bfloat162_rn(a, b);
  parts.middle = reinterpret_cast<const unsigned&>(middle);
  // These have eight bits at most: nothing is lost below the upper halves.
  parts.low = upper_halves(a - __uint_as_float(parts.middle << 16), b - upper_half(parts.middle));
  return parts;
}

}  // namespace sluice::kernels::matmul::cuda::by_parts
