#pragma once

#include "kernels/attention_decoder/cuda/vectors.h"
#include "runtime/cuda/reduce.h"

/// What the threads of one block do together. Each sum has one fixed order, which depends on its
/// length and on the block's size only.
namespace sluice::kernels::attention_decoder::cuda {

using runtime::cuda::kWarp;
/// Most threads of a block that attends for one row.
constexpr int kMostAttendThreads = 1024;

__device__ inline int threads() { return static_cast<int>(blockDim.x); }
__device__ inline int warps() { return threads() / kWarp; }

/// The same in every lane.
template <typename W>
__device__ inline W warp_sum(W value) {
  return runtime::cuda::combine_warp(value, runtime::cuda::Add{});
}

template <typename W>
__device__ inline W warp_max(W value) {
  return runtime::cuda::combine_warp(value, [](W a, W b) { return max(a, b); });
}

/// Of all threads; the same in each. `parts` has a place for each warp and is free before and
/// after. `neutral` changes nothing.
template <typename W, typename Combine>
__device__ inline W block_combine(W value, W* parts, W neutral, Combine combine) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  value = combine(value);
  if (lane == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = combine(lane < warps() ? parts[lane] : neutral);
  __syncthreads();
  return value;
}

template <typename W>
__device__ inline W block_max(W value, W* parts) {
  return block_combine(value, parts, -static_cast<W>(INFINITY), [](W v) { return warp_max(v); });
}

template <typename W>
__device__ inline W block_sum(W value, W* parts) {
  return block_combine(value, parts, W(0), [](W v) { return warp_sum(v); });
}

/// Calls use(i, load(i)) for kCount numbers from i on, one every `step`, whose loads are on their
/// way at once.
template <int kCount, typename Load, typename Use>
__device__ inline void use_loaded(int i, int step, const Load& load, const Use& use) {
  decltype(load(0)) values[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) values[k] = load(i + k * step);
  // Or the compiler puts off some of them until the first have been used, to save registers.
  __syncwarp(__activemask());
#pragma unroll
  for (int k = 0; k < kCount; ++k) use(i + k * step, values[k]);
}

/// Calls use(i, load(i)) for i = first, first + step, ... below `end`, in that order. Several loads
/// are on their way at once.
template <typename Load, typename Use>
__device__ inline void for_each_loaded(int first, int end, int step, const Load& load,
                                       const Use& use) {
  int i = first;
  for (; i + 3 * step < end; i += 4 * step) use_loaded<4>(i, step, load, use);
  if (i + step < end) {
    use_loaded<2>(i, step, load, use);
    i += 2 * step;
  }
  if (i < end) use_loaded<1>(i, step, load, use);
}

/// scores[s] = sum over width of term(column, values), with the kWidest values of matrix [count,
/// width] from there; a warp for each s.
template <typename S, typename Term>
__device__ inline void sum_rows(int count, int width, const S* matrix, Wide<S>* scores,
                                const Term& term) {
  constexpr int kCount = kWidest<S>;
  const int lane = threadIdx.x % kWarp;
  for (int s = threadIdx.x / kWarp; s < count; s += warps()) {
    const S* row = matrix + std::int64_t{s} * width;
    Wide<S> sum = 0;
    for_each_loaded(
        lane * kCount, width, kWarp * kCount,
        [&](int column) { return load<kCount>(row + column); },
        [&](int column, const auto& values) { sum += term(column, values); });
    sum = warp_sum(sum);
    if (lane == 0) scores[s] = sum;
  }
}

/// For every kWidest columns of matrix [count, width]: sink(column, sum), where add(s, column,
/// values, sum) has added the terms of all s < count. Threads that the columns don't need share out
/// s. `parts` holds kWidest numbers for each thread.
template <typename S, typename Add, typename Sink>
__device__ inline void sum_columns(int count, int width, const S* matrix,
                                   const PlanarVector<S>& parts, const Add& add, const Sink& sink) {
  constexpr int kCount = kWidest<S>;
  const int vectors = width / kCount;
  const int across = min(vectors, threads());
  const int groups = threads() / across;
  const int group = static_cast<int>(threadIdx.x) / across;
  const int lane = static_cast<int>(threadIdx.x) % across;
  for (int base = 0; base < vectors; base += across) {
    const int column = (base + lane) * kCount;
    const bool works = group < groups && column < width;
    Values<Wide<S>, kCount> sum;
    if (works) {
      for_each_loaded(
          group, count, groups,
          [&](int s) { return load<kCount>(matrix + std::int64_t{s} * width + column); },
          [&](int s, const auto& values) { add(s, column, values, sum); });
    }
    if (groups > 1) {
      parts.store(static_cast<int>(threadIdx.x), sum);
      __syncthreads();
      if (group == 0) {
        for (int other = 1; other < groups; ++other) {
          const Values<Wide<S>, kCount> part = parts.load(other * across + lane);
#pragma unroll
          for (int i = 0; i < kCount; ++i) sum.x[i] += part.x[i];
        }
      }
      __syncthreads();
    }
    if (works && group == 0) sink(column, sum);
  }
}

}  // namespace sluice::kernels::attention_decoder::cuda
