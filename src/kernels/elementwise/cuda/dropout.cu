#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/elementwise/cuda/dropout.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

using runtime::cuda::Wide;

/// Groups of four elements that a thread has on their way at once.
constexpr int kTogether = 4;

template <typename T>
struct Masked {
  const T* x;
  T* y;                ///< may be x
  std::int64_t count;  ///< time * rows, below 2^32: each has a time and a row of 32 bits
  std::int64_t rows, features;
  std::uint32_t first_time;
  const std::int32_t* row_ids;  ///< or null
  runtime::DropoutSource source;
  std::uint32_t threshold;
  Wide<T> factor;
  bool aligned;   ///< every group of four elements of a row may be moved at once
  int team_bits;  ///< 2^team_bits threads share a row at a time
};

/// An element, if its word keeps it.
template <typename T>
__device__ T masked(const Masked<T>& m, std::uint32_t word, T x) {
  const Wide<T> kept = runtime::cuda::widened(x) * m.factor;
  return runtime::cuda::narrowed<T>(word >= m.threshold ? kept : Wide<T>{0});
}

/// Some groups of a row at a time, `step` apart from `first` on.
template <typename T>
struct SomeGroups {
  const Masked<T>& m;
  std::int64_t at;  ///< the row's first element
  int first, step;

  template <typename Use>
  __device__ void for_each(const Use& use) const {
    const int groups = static_cast<int>((m.features + 3) / 4);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int group = first + k * step;
      if (group < groups) use(k, group, at + 4 * group);
    }
  }
  __device__ void load(Group<T> (&values)[kTogether]) const {
    for_each([&](int k, int group, std::int64_t place) {
      if (m.aligned) {
        values[k] = *reinterpret_cast<const Group<T>*>(m.x + place);
        return;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (4 * group + j < m.features) values[k].at[j] = m.x[place + j];
      }
    });
  }
  __device__ void store(const Group<T> (&values)[kTogether]) const {
    for_each([&](int k, int group, std::int64_t place) {
      if (m.aligned) {
        runtime::cuda::store_neighbours(m.y + place, values[k]);
        return;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (4 * group + j < m.features) m.y[place + j] = values[k].at[j];
      }
    });
  }
};

/// A team of threads takes rows, so that their places are reckoned once for many elements; a thread
/// has groups of four neighbouring elements, which share a draw.
template <typename T>
__global__ void __launch_bounds__(kBlock) dropout_kernel(Masked<T> m) {
  const int team = 1 << m.team_bits, rank = static_cast<int>(threadIdx.x) & (team - 1);
  const int groups = static_cast<int>((m.features + 3) / 4);
  const runtime::DropoutKey key = m.source.key();
  for (std::int64_t i = first_of_grid() >> m.team_bits; i < m.count;
       i += grid_stride() >> m.team_bits) {
    // 64 bits would take as long as two draws.
    const auto place = static_cast<std::uint32_t>(i), rows = static_cast<std::uint32_t>(m.rows);
    const std::uint32_t time = m.first_time + place / rows, row = place % rows;
    const auto id = static_cast<std::uint32_t>(m.row_ids != nullptr ? m.row_ids[row] : row);
    for (int first = rank; first < groups; first += kTogether * team) {
      const SomeGroups<T> some{m, i * m.features, first, team};
      Group<T> values[kTogether];
      some.load(values);
      some.for_each([&](int k, int group, std::int64_t) {
        const auto words = key.words(id, time, static_cast<std::uint32_t>(group));
#pragma unroll
        for (int j = 0; j < 4; ++j) values[k].at[j] = masked(m, words[j], values[k].at[j]);
      });
      some.store(values);
    }
  }
}

/// The same where all rows are whole, aligned groups, of which a thread has kEach at a time:
/// without a branch their draws overlap.
template <typename T, int kEach>
__global__ void __launch_bounds__(kBlock) dropout_whole_kernel(Masked<T> m) {
  const int team = 1 << m.team_bits, rank = static_cast<int>(threadIdx.x) & (team - 1);
  const int groups = static_cast<int>(m.features / 4);
  const runtime::DropoutKey key = m.source.key();
  for (std::int64_t i = first_of_grid() >> m.team_bits; i < m.count;
       i += grid_stride() >> m.team_bits) {
    const auto place = static_cast<std::uint32_t>(i), rows = static_cast<std::uint32_t>(m.rows);
    const std::uint32_t time = m.first_time + place / rows, row = place % rows;
    const auto id = static_cast<std::uint32_t>(m.row_ids != nullptr ? m.row_ids[row] : row);
    for (int first = rank; first < groups; first += kEach * team) {
      const std::int64_t at = i * m.features + 4 * first;
      Group<T> values[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        values[k] = *reinterpret_cast<const Group<T>*>(m.x + at + 4 * k * team);
      }
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const auto words = key.words(id, time, static_cast<std::uint32_t>(first + k * team));
#pragma unroll
        for (int j = 0; j < 4; ++j) values[k].at[j] = masked(m, words[j], values[k].at[j]);
      }
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        runtime::cuda::store_neighbours(m.y + at + 4 * k * team, values[k]);
      }
    }
  }
}

/// The kernel for such rows: one without branches where there is one. Rows of four bytes an element
/// wait for memory either way.
template <typename T>
auto kernel_for(const Masked<T>& m) {
  if constexpr (sizeof(T) < sizeof(float)) {
    const std::int64_t team = std::int64_t{1} << m.team_bits;
    if (m.aligned && m.features % (12 * team) == 0) return dropout_whole_kernel<T, 3>;
    if (m.aligned && m.features % (8 * team) == 0) return dropout_whole_kernel<T, 2>;
  }
  return dropout_kernel<T>;
}

/// The least power of two of threads that covers a row, up to a warp.
int team_bits_for(std::int64_t groups) {
  int bits = 0;
  while (bits < 5 && (std::int64_t{1} << bits) < groups) ++bits;
  return bits;
}

}  // namespace

void drop_out(cudaStream_t stream, base::DType dtype, const Dropped& args) {
  if (args.time * args.rows * args.features == 0) return;
  SLUICE_ASSERT(args.time * args.rows <= std::numeric_limits<std::uint32_t>::max());
  base::dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Masked<T> m{};
    m.x = static_cast<const T*>(args.x);
    m.y = static_cast<T*>(args.y);
    m.rows = args.rows;
    m.count = args.time * args.rows;
    m.features = args.features;
    m.first_time = static_cast<std::uint32_t>(args.first_time);
    m.row_ids = args.row_ids;
    m.source = args.source;
    m.threshold = runtime::dropout_threshold(args.rate);
    m.factor = static_cast<Wide<T>>(1 / (1 - args.rate));
    m.aligned = m.features % 4 == 0 && is_aligned(m.x) && is_aligned(m.y);
    m.team_bits = team_bits_for((m.features + 3) / 4);
    // Where there are many rows, teams take several: what comes before the first takes as long.
    constexpr unsigned kMostBlocks = 2048;
    const unsigned blocks =
        std::min(kMostBlocks, runtime::cuda::blocks_for(m.count << m.team_bits, kBlock));
    kernel_for(m)<<<blocks, kBlock, 0, stream>>>(m);
    runtime::cuda::check(cudaGetLastError(), "drop elements out");
  });
}

void dropout(Stream& stream, const DropoutArgs& args) {
  const runtime::cuda::CurrentDevice current(runtime::cuda::gpu_of(stream).ordinal);
  drop_out(runtime::cuda::handle_of(stream), args.x.dtype(),
           {args.x.data(), args.y.data(), 0, args.x.size(0), args.x.size(1), args.x.size(2),
            args.row_ids.data_as<const std::int32_t>(), args.rate, args.source});
}

}  // namespace sluice::kernels::elementwise::cuda
