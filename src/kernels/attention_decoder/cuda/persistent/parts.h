#pragma once

#include "kernels/attention_decoder/cuda/persistent/backward_block.h"

/// Sums of products that have a part from each slice of the depth. Parts tell by themselves that
/// they have come: the last bit of each number is that of its set's turn, for which readers look,
/// so that a part needs neither a fence nor a counter.
///
/// Two sets in turn suffice: what a block writes at a step follows from gradients of gates of all
/// blocks of the step before, for which they have read their sums of the one before that.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// The last bit of the n-th step's parts; parts begin with zeros. (An infinity that has it set is
/// NaN, which is as good a sign that numbers have grown too large.)
__device__ inline std::uint32_t mark_of(int n) { return static_cast<std::uint32_t>(n / 2 & 1 ^ 1); }
template <typename S>
__device__ float* parts_of(const BackwardArguments<S>& args, Summed kind, int n) {
  return args.parts + (static_cast<int>(kind) * 2 + (n & 1)) * kPartsEach;
}

/// Parts are [kSlices, kRows, kWidth], those of the output that was fed in as they stand. Others
/// lie as their readers' warps have them, and as multiply() leaves them: for each cluster's 16
/// columns and each eight rows a line of 512 bytes, lane l's the columns l / 4 and, behind, + 8 of
/// the rows 2 (l % 4) and + 1.
constexpr bool is_in_rows(Summed kind) { return kind == Summed::kFed; }

/// Where four numbers are of which a thread of a role wants the sums.
__device__ inline int place_of_sums(const BackwardBlock& block, bool in_rows, int thread) {
  return in_rows ? block.cluster * kWidth + block.rank * (kWidth / 2) + thread * 4
                 : (block.cluster * 8 + block.rank * 4) * 128 + thread * 4;
}

/// From a lane's numbers as they lie in such a line to four neighbouring columns of a row: lane l's
/// is the row l / 4, the first column 4 (l % 4).
__device__ inline float4 turned_to_rows(const float4& v) {
  const int lane = thread_of_role() % 32, row = lane / 4, quad = lane % 4;
  const auto from = [&](int k) {
    const int source = (quad % 2 * 4 + k) * 4 + row / 2;
    const float x = __shfl_sync(~0u, v.x, source), y = __shfl_sync(~0u, v.y, source);
    const float z = __shfl_sync(~0u, v.z, source), w = __shfl_sync(~0u, v.w, source);
    const float low = row % 2 == 0 ? x : y, high = row % 2 == 0 ? z : w;
    return quad < 2 ? low : high;
  };
  return make_float4(from(0), from(1), from(2), from(3));
}

/// Clears what the block will read, before any block publishes anything.
template <typename S>
__device__ void clear_parts(const BackwardArguments<S>& args, const BackwardBlock& block) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kSummedKinds * 2 * kSlices * 128; i += kThreads) {
    const int thread = i % 128, part = i / 128;
    const bool in_rows = is_in_rows(static_cast<Summed>(part / (2 * kSlices)));
    float* to =
        args.parts + std::int64_t{part} * kRows * kWidth + place_of_sums(block, in_rows, thread);
    *reinterpret_cast<float4*>(to) = make_float4(0, 0, 0, 0);
  }
}

/// Writes a warpgroup's sums of the block's columns and all rows, as multiply() leaves them.
template <Summed kKind, typename S>
__device__ void store_parts(const BackwardArguments<S>& args, const BackwardBlock& block, int n,
                            const float (&sums)[32]) {
  const int thread = thread_of_role(), warp = thread / 32, lane = thread % 32;
  const std::uint32_t mark = mark_of(n);
  const auto marked = [&](float x) { return (__float_as_uint(x) & ~1u) | mark; };
  float* to = parts_of(args, kKind, n) + block.slice * kRows * kWidth;
  if constexpr (is_in_rows(kKind)) {
    to += lane % 4 * 2 * kWidth + block.group * kGroupColumns + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(to + (i / 4 * 8 + i % 2) * kWidth +
                                                               i / 2 % 2 * 8),
                   "r"(marked(sums[i]))
                   : "memory");
    }
  } else {
    to += (block.group * (kGroupColumns / kUnits) + warp) * 8 * 128 + lane * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + i * 128),
                   "r"(marked(sums[4 * i])), "r"(marked(sums[4 * i + 1])),
                   "r"(marked(sums[4 * i + 2])), "r"(marked(sums[4 * i + 3]))
                   : "memory");
    }
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

/// The sums of four columns of a row, once all parts are there: of the thread's columns in the
/// cluster's row, or of its units in one of the block's rows, one after another. kAtOnce: of parts
/// that a thread has on their way.
template <int kAtOnce, typename S>
__device__ float4 await_sums(const BackwardArguments<S>& args, const BackwardBlock& block,
                             Summed kind, int n) {
  const float* from =
      parts_of(args, kind, n) + place_of_sums(block, is_in_rows(kind), thread_of_role());
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
  return is_in_rows(kind) ? sum : turned_to_rows(sum);
}

/// Between the roles of a block, in the order in which a step's products follow each other: who
/// looks for parts begins when its own block's are written, as the others' will be soon. Parts of
/// the state, for which there is time, are written and read while attention is at work, so that
/// they are in nobody's way.
enum class Turn { kUpper = 4, kLower = 5, kAttention = 6, kStates = 7 };
__device__ inline void give_turn(Turn turn) {
  if (turn == Turn::kStates) {
    asm volatile("bar.arrive 7, 384;" ::: "memory");
  } else {
    asm volatile("bar.arrive %0, 256;" ::"r"(static_cast<int>(turn)) : "memory");
  }
}
__device__ inline void await_turn(Turn turn) {
  if (turn == Turn::kStates) {
    asm volatile("bar.sync 7, 384;" ::: "memory");
  } else {
    asm volatile("bar.sync %0, 256;" ::"r"(static_cast<int>(turn)) : "memory");
  }
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
