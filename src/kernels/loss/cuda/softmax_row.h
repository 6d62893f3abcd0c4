#pragma once

#include <cstdint>

#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

/// One row of logits, by a warp or by a block. Which of them, and so the order of every sum,
/// depends on the length of the row alone: all users of this header get the same bits.
namespace sluice::kernels::loss::cuda {

using runtime::cuda::kWarp;
using runtime::cuda::Team;

/// Up to this length a warp takes a row, a block of many warps many rows.
inline constexpr std::int64_t kWarpVocabulary = 1024;
inline constexpr int kRowThreads = 1024;
/// Shared memory that a kernel of rows takes for itself, beside a copy of its row.
inline constexpr std::size_t kOwnShared = 16 << 10;

/// Four neighbouring elements.
template <typename T>
struct alignas(16) Group {
  T at[4];
};

/// A row in memory of any kind.
template <typename T>
struct Row {
  const T* data;
  int count;
  bool aligned;  ///< to groups, of which all are whole

  __device__ int groups() const { return (count + 3) / 4; }
  __device__ Group<T> whole(int g) const { return reinterpret_cast<const Group<T>*>(data)[g]; }
  /// Minus infinity beyond the end.
  __device__ Group<T> any(int g) const {
    Group<T> values;
    for (int i = 0; i < 4; ++i) {
      values.at[i] = 4 * g + i < count ? data[4 * g + i] : -static_cast<T>(INFINITY);
    }
    return values;
  }
};

/// Whether all rows of a matrix, so many elements apart, are aligned to groups.
template <typename T>
bool rows_are_aligned(const T* data, std::int64_t stride) {
  return stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(data) % alignof(Group<T>) == 0;
}

/// Calls body(g, load(g)) for this thread's groups, in rising order; several are on their way at
/// once, so loads must stand apart from branches.
template <int kSize, typename Load, typename Body>
__device__ void for_each_loaded(const Team<kSize>& team, int groups, const Load& load,
                                const Body& body) {
  constexpr int kBatch = 4;
  int g = team.rank;
  for (; g + (kBatch - 1) * kSize < groups; g += kBatch * kSize) {
    decltype(load(0)) values[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) values[k] = load(g + k * kSize);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) body(g + k * kSize, values[k]);
  }
  for (; g < groups; g += kSize) body(g, load(g));
}

template <int kSize, typename T, typename Body>
__device__ void for_each_group(const Team<kSize>& team, const Row<T>& row, const Body& body) {
  if (row.aligned) {
    for_each_loaded(
        team, row.groups(), [&](int g) { return row.whole(g); }, body);
  } else {
    for_each_loaded(
        team, row.groups(), [&](int g) { return row.any(g); }, body);
  }
}

/// The largest element, NaN passed over. If `cache` isn't null (row.groups() groups), the row is
/// copied there, and what to read from then on is returned in `row`: each thread its own groups.
template <int kSize, typename T>
__device__ T maximum(const Team<kSize>& team, Row<T>& row, Group<T>* cache) {
  T largest = -static_cast<T>(INFINITY);
  for_each_group(team, row, [&](int g, const Group<T>& values) {
    for (const T value : values.at) largest = value > largest ? value : largest;
    if (cache != nullptr) cache[g] = values;
  });
  if (cache != nullptr) row = {cache->at, 4 * row.groups(), true};
  return team.reduce(largest, runtime::cuda::Larger{});
}

template <typename T>
__device__ Group<T> exponentials(const Group<T>& values, T largest) {
  Group<T> powers;
  for (int i = 0; i < 4; ++i) powers.at[i] = ::exp(values.at[i] - largest);
  return powers;
}

/// The sum of exp(x - largest): four neighbours in T, all else in float64. Calls
/// visit(g, values, powers) for this thread's groups.
template <int kSize, typename T, typename Visit>
__device__ double sum_of_exponentials(const Team<kSize>& team, const Row<T>& row, T largest,
                                      const Visit& visit) {
  double sum = 0;
  for_each_group(team, row, [&](int g, const Group<T>& values) {
    const Group<T> powers = exponentials(values, largest);
    sum += static_cast<double>((powers.at[0] + powers.at[1]) + (powers.at[2] + powers.at[3]));
    visit(g, values, powers);
  });
  return team.reduce(sum, runtime::cuda::Add{});
}

/// log(sum of exp(x)) = largest + log_sum.
template <typename T>
struct Normaliser {
  T largest;
  double log_sum;  ///< NaN if the row has no softmax: a NaN, plus infinity, or no finite logit
};

template <int kSize, typename T>
__device__ Normaliser<T> normaliser(const Team<kSize>& team, Row<T>& row, Group<T>* cache) {
  const T largest = maximum(team, row, cache);
  const double sum =
      sum_of_exponentials(team, row, largest, [](int, const Group<T>&, const Group<T>&) {});
  return {largest, ::log(sum)};
}

/// That of a short row by a warp, whose lanes have every 32nd of its numbers, minus infinity beyond
/// its end: the same sums in the same order.
template <int kCount, typename T>
__device__ Normaliser<T> normaliser_of_lanes(const T (&values)[kCount]) {
  static_assert(kCount <= 2, "more would be added up in another order");
  T largest = -static_cast<T>(INFINITY);
  for (const T value : values) largest = value > largest ? value : largest;
  largest = runtime::cuda::combine_warp(largest, runtime::cuda::Larger{});
  double sum = 0;
  for (const T value : values) {
    const T power = ::exp(value - largest);
    sum += static_cast<double>(runtime::cuda::combine_lanes<1, 2>(power, runtime::cuda::Add{}));
  }
  return {largest, ::log(runtime::cuda::combine_lanes<16, 8, 4>(sum, runtime::cuda::Add{}))};
}

/// How rows are dealt out to blocks. A block keeps its row in shared memory, if the GPU has enough,
/// rather than read it again; that changes no sum.
struct RowLaunch {
  bool by_warp;
  dim3 grid, block;
  std::size_t cache_bytes;  ///< of dynamic shared memory; 0: no cache
};

template <typename T>
RowLaunch row_launch(const runtime::cuda::GpuProperties& gpu, std::int64_t rows,
                     std::int64_t vocabulary) {
  constexpr int kRowsPerBlock = 8;
  if (vocabulary <= kWarpVocabulary) {
    const auto blocks = static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock);
    return {true, blocks, kRowsPerBlock * kWarp, 0};
  }
  const std::size_t bytes = static_cast<std::size_t>((vocabulary + 3) / 4) * sizeof(Group<T>);
  const bool fits = bytes + kOwnShared <= gpu.shared_bytes;
  return {false, static_cast<unsigned>(rows), kRowThreads, fits ? bytes : 0};
}

/// The row of this thread's team, and its team: kSize as RowLaunch says. `scratch` is shared.
template <int kSize>
__device__ std::int64_t row_of_team() {
  return kSize == kWarp ? std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp
                        : std::int64_t{blockIdx.x};
}
template <int kSize>
__device__ Team<kSize> team_of_row(void* scratch) {
  return {static_cast<int>(threadIdx.x % kSize), scratch};
}

}  // namespace sluice::kernels::loss::cuda
