#pragma once

#include "kernels/attention_decoder/cuda/persistent/backward_block.h"

/// Sums of products that have a part from each slice of the depth. Parts tell by themselves that
/// they have come: the last bit of each number is that of its set's turn, for which readers look,
/// so that a part needs neither a fence nor a counter.
///
/// Two sets in turn suffice: what a block writes at a step follows from gradients of gates of all
/// blocks of the step before, for which they have read their sums of the one before that.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// The last bit of the n-th step's parts; parts begin with zeros.
__device__ inline std::uint32_t mark_of(int n) { return static_cast<std::uint32_t>(n / 2 & 1 ^ 1); }
template <typename S>
__device__ float* parts_of(const BackwardArguments<S>& args, Summed kind, int n) {
  return args.parts + (static_cast<int>(kind) * 2 + (n & 1)) * kPartsEach;
}

/// Where the four columns are of which a thread of a role wants the sums.
__device__ inline int place_of_sums(const BackwardBlock& block, bool of_row, int thread) {
  return of_row ? block.cluster * kWidth + block.rank * (kWidth / 2) + thread * 4
                : (block.rank * (kRows / 2) + thread / 4) * kWidth + block.cluster * kUnits +
                      thread % 4 * 4;
}

/// Clears what the block will read, before any block hands on anything.
template <typename S>
__device__ void clear_parts(const BackwardArguments<S>& args, const BackwardBlock& block) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kSummedKinds * 2 * kSlices * 128; i += kThreads) {
    const int thread = i % 128, part = i / 128;
    const bool of_row = part / (2 * kSlices) == static_cast<int>(Summed::kFed);
    float* to =
        args.parts + std::int64_t{part} * kRows * kWidth + place_of_sums(block, of_row, thread);
    *reinterpret_cast<float4*>(to) = make_float4(0, 0, 0, 0);
  }
}

/// Writes a warpgroup's sums of the block's columns and all rows, as multiply() leaves them.
template <typename S>
__device__ void store_parts(const BackwardArguments<S>& args, const BackwardBlock& block,
                            Summed kind, int n, const float (&sums)[32]) {
  const int thread = thread_of_role(), lane = thread % 32;
  const std::uint32_t mark = mark_of(n);
  float* to = parts_of(args, kind, n) + (block.slice * kRows + lane % 4 * 2) * kWidth +
              block.group * kGroupColumns + thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t bits = (__float_as_uint(sums[i]) & ~1u) | mark;
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(to + (i / 4 * 8 + i % 2) * kWidth +
                                                             i / 2 % 2 * 8),
                 "r"(bits)
                 : "memory");
  }
}

__device__ inline uint4 load_part(const float* from) {
  uint4 bits;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(from)
               : "memory");
  return bits;
}

/// The sums of the thread's four columns, once all parts are there. kAtOnce: of parts that a thread
/// has on their way.
template <int kAtOnce, typename S>
__device__ float4 await_sums(const BackwardArguments<S>& args, const BackwardBlock& block,
                             Summed kind, int n) {
  const float* from =
      parts_of(args, kind, n) + place_of_sums(block, kind == Summed::kFed, thread_of_role());
  const std::uint32_t mark = mark_of(n);
  float4 sum = {0, 0, 0, 0};
#pragma unroll
  for (int first = 0; first < kSlices; first += kAtOnce) {
    uint4 parts[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) parts[k] = load_part(from + (first + k) * kRows * kWidth);
    bool missing = true;
    while (missing) {
      missing = false;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const uint4& p = parts[k];
        if ((((p.x ^ mark) | (p.y ^ mark) | (p.z ^ mark) | (p.w ^ mark)) & 1) == 0) continue;
        parts[k] = load_part(from + (first + k) * kRows * kWidth);
        missing = true;
      }
    }
#pragma unroll
    for (const uint4& p : parts) {
      sum.x += __uint_as_float(p.x);
      sum.y += __uint_as_float(p.y);
      sum.z += __uint_as_float(p.z);
      sum.w += __uint_as_float(p.w);
    }
  }
  __syncwarp();
  return sum;
}

/// Between the roles of a block, in the order in which a step's products follow each other: who
/// looks for parts begins when its own block's are written, as the others' will be soon.
enum class Turn { kUpper = 4, kLower = 5, kAttention = 6 };
__device__ inline void give_turn(Turn turn) {
  asm volatile("bar.arrive %0, 256;" ::"r"(static_cast<int>(turn)) : "memory");
}
__device__ inline void await_turn(Turn turn) {
  asm volatile("bar.sync %0, 256;" ::"r"(static_cast<int>(turn)) : "memory");
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
