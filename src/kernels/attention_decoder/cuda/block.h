#pragma once

#include "kernels/attention_decoder/cuda/vectors.h"

/// What the threads of one block do together. Each sum has one fixed order, which depends on its
/// length and on the block's size only.
namespace sluice::kernels::attention_decoder::cuda {

constexpr int kWarp = 32;
/// Threads of a block that attends for one row.
constexpr int kAttendThreads = 512;
constexpr int kAttendWarps = kAttendThreads / kWarp;

/// The same in every lane.
template <typename W>
__device__ inline W warp_sum(W value) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  }
  return value;
}

template <typename W>
__device__ inline W warp_max(W value) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffffu, value, lane));
  }
  return value;
}

/// Of all threads; the same in each. `parts` is kAttendWarps long and free before and after.
template <typename W, typename Combine>
__device__ inline W block_combine(W value, W* parts, Combine combine) {
  value = combine(value);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  // Lanes repeat the parts, which changes no maximum; sums are of the first kAttendWarps lanes.
  static_assert(kAttendWarps == kWarp / 2);
  value = combine(parts[threadIdx.x % kAttendWarps]);
  __syncthreads();
  return value;
}

template <typename W>
__device__ inline W block_max(W value, W* parts) {
  return block_combine(value, parts, [](W v) { return warp_max(v); });
}

template <typename W>
__device__ inline W block_sum(W value, W* parts) {
  // Every part stands in two lanes.
  return block_combine(value, parts, [](W v) { return warp_sum(v); }) / W(2);
}

/// scores[s] = sum over width of term(s, column), which is of four columns; a warp for each s.
template <typename W, typename Term>
__device__ inline void sum_rows(int count, int width, W* scores, Term term) {
  const int lane = threadIdx.x % kWarp;
  for (int s = threadIdx.x / kWarp; s < count; s += kAttendWarps) {
    W sum = 0;
    for (int column = lane * kVector; column < width; column += kWarp * kVector) {
      sum += term(s, column);
    }
    sum = warp_sum(sum);
    if (lane == 0) scores[s] = sum;
  }
}

/// For every four columns: sink(column, sum over s < count), where add(s, column, sum) adds one
/// term. Threads that the columns don't need share out s. `parts` holds a Four for each thread.
template <typename W, typename Add, typename Sink>
__device__ inline void sum_columns(int count, int width, Four<W>* parts, Add add, Sink sink) {
  const int vectors = width / kVector;
  const int across = min(vectors, kAttendThreads);
  const int groups = kAttendThreads / across;
  const int group = static_cast<int>(threadIdx.x) / across;
  const int lane = static_cast<int>(threadIdx.x) % across;
  for (int base = 0; base < vectors; base += across) {
    const int column = (base + lane) * kVector;
    const bool works = group < groups && column < width;
    Four<W> sum;
    if (works) {
      for (int s = group; s < count; s += groups) add(s, column, sum);
    }
    if (groups > 1) {
      parts[threadIdx.x] = sum;
      __syncthreads();
      if (group == 0) {
        for (int other = 1; other < groups; ++other) {
          const Four<W>& part = parts[other * across + lane];
#pragma unroll
          for (int i = 0; i < kVector; ++i) sum.x[i] += part.x[i];
        }
      }
      __syncthreads();
    }
    if (works && group == 0) sink(column, sum);
  }
}

}  // namespace sluice::kernels::attention_decoder::cuda
