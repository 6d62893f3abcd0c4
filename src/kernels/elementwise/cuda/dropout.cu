#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/elementwise/cuda/dropout.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"
#include "runtime/cuda/dropped_piece.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

using runtime::cuda::Wide;

/// Groups of four elements that a thread has on their way at once.
constexpr int kTogether = 4;

/// Elements of 16 bits that are moved at once.
constexpr int kPiece = 8;
template <typename T>
using Piece = runtime::cuda::Neighbours<T, kPiece>;

template <typename T>
bool is_whole(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Piece<T>) == 0;
}

/// Where the bits of a piece's elements are in its byte (runtime/cuda/dropped_piece.h).
__device__ constexpr unsigned bit_of(int element) { return 1u << (element / 2 + element % 2 * 4); }

/// What is drawn.
struct Drawn {
  std::int64_t count;  ///< time * rows, below 2^32: each has a time and a row of 32 bits
  std::int64_t rows, features;
  std::uint32_t first_time;
  const std::int32_t* row_ids;  ///< or null
  runtime::DropoutSource source;
  std::uint32_t threshold;
  std::uint8_t* mask;  ///< or null
};

template <typename T>
struct Masked : Drawn {
  const T* x;
  T* y;  ///< may be x
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

/// The same where rows are whole, aligned pieces, of which a thread has kEach at a time: without a
/// branch their draws overlap. Leaves the mask where it is wanted.
template <typename T, int kEach>
__global__ void __launch_bounds__(kBlock) dropout_whole_kernel(Masked<T> m) {
  const int team = 1 << m.team_bits, rank = static_cast<int>(threadIdx.x) & (team - 1);
  const int pieces = static_cast<int>(m.features / kPiece);
  const runtime::DropoutKey key = m.source.key();
  for (std::int64_t i = first_of_grid() >> m.team_bits; i < m.count;
       i += grid_stride() >> m.team_bits) {
    const auto place = static_cast<std::uint32_t>(i), rows = static_cast<std::uint32_t>(m.rows);
    const std::uint32_t time = m.first_time + place / rows, row = place % rows;
    const auto id = static_cast<std::uint32_t>(m.row_ids != nullptr ? m.row_ids[row] : row);
    for (int first = rank; first < pieces; first += kEach * team) {
      const std::int64_t at = i * pieces + first;
      Piece<T> values[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        values[k] = reinterpret_cast<const Piece<T>*>(m.x)[at + k * team];
      }
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        std::uint32_t mask = 0;
#pragma unroll
        for (int g = 0; g < kPiece; g += 4) {
          const int piece = first + k * team;
          const auto words =
              key.words(id, time, static_cast<std::uint32_t>((piece * kPiece + g) / 4));
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            values[k].at[g + j] = masked(m, words[j], values[k].at[g + j]);
            if (words[j] >= m.threshold) mask |= bit_of(g + j);
          }
        }
        runtime::cuda::store_neighbours(m.y + kPiece * (at + k * team), values[k]);
        if (m.mask != nullptr) m.mask[at + k * team] = static_cast<std::uint8_t>(mask);
      }
    }
  }
}

/// The mask alone. A thread draws that of four pieces.
__global__ void __launch_bounds__(kBlock) draw_mask_kernel(Drawn m) {
  const auto words = static_cast<std::uint32_t>(m.features / (4 * kPiece));
  const auto rows = static_cast<std::uint32_t>(m.rows);
  const runtime::DropoutKey key = m.source.key();
  for (std::int64_t i = first_of_grid(); i < m.count * words; i += grid_stride()) {
    const std::uint32_t place = static_cast<std::uint32_t>(i) / words;
    const std::uint32_t word = static_cast<std::uint32_t>(i) % words;
    const std::uint32_t time = m.first_time + place / rows, row = place % rows;
    const auto id = static_cast<std::uint32_t>(m.row_ids != nullptr ? m.row_ids[row] : row);
    std::uint32_t mask = 0;
#pragma unroll
    for (int g = 0; g < 8; ++g) {
      const auto drawn = key.words(id, time, 8 * word + static_cast<std::uint32_t>(g));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (drawn[j] >= m.threshold) mask |= bit_of(g % 2 * 4 + j) << (g / 2 * kPiece);
      }
    }
    reinterpret_cast<std::uint32_t*>(m.mask)[i] = mask;
  }
}

/// Pieces by their masks. Threads have kTogether on their way at once.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    dropout_by_mask_kernel(const uint4* x, uint4* y, const std::uint8_t* mask, std::int64_t pieces,
                           float factor) {
  for (std::int64_t first = first_of_grid(); first < pieces; first += kTogether * grid_stride()) {
    uint4 values[kTogether];
    std::uint32_t masks[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      // Beyond the end the last one again: loads without branches are on their way together.
      const std::int64_t at = std::min(first + k * grid_stride(), pieces - 1);
      values[k] = x[at];
      masks[k] = mask[at];
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const std::int64_t at = first + k * grid_stride();
      const std::uint32_t spread = masks[k] | masks[k] << 12;
      if (at < pieces) y[at] = runtime::cuda::dropped_piece<T>(values[k], spread, factor);
    }
  }
}

template <typename T>
void queue_dropout_by_mask(cudaStream_t stream, const DroppedByMask& args) {
  const std::int64_t pieces = args.count / kPiece;
  dropout_by_mask_kernel<T>
      <<<runtime::cuda::blocks_for(pieces, kTogether * kBlock), kBlock, 0, stream>>>(
          static_cast<const uint4*>(args.x), static_cast<uint4*>(args.y),
          static_cast<const std::uint8_t*>(args.mask), pieces,
          static_cast<float>(1 / (1 - args.rate)));
  runtime::cuda::check(cudaGetLastError(), "drop elements out by a mask");
}

/// The kernel for such rows and the bits of its team, if there is one for them. Rows of four bytes
/// an element wait for memory either way.
template <typename T>
auto kernel_for(Masked<T>& m) {
  if constexpr (sizeof(T) < sizeof(float)) {
    const std::int64_t pieces = m.features / kPiece;
    const bool whole = m.features % kPiece == 0 && is_whole(m.x) && is_whole(m.y);
    const auto takes = [&](std::int64_t each) {
      constexpr std::int64_t kFewest = 8;
      if (!whole || pieces % (each * kFewest) != 0) return false;
      m.team_bits = std::min(5, std::countr_zero(static_cast<std::uint64_t>(pieces / each)));
      return true;
    };
    if (takes(3)) return dropout_whole_kernel<T, 3>;
    if (takes(2)) return dropout_whole_kernel<T, 2>;
  }
  SLUICE_ASSERT(m.mask == nullptr);
  return dropout_kernel<T>;
}

/// The least power of two of threads that covers a row, up to a warp.
int team_bits_for(std::int64_t groups) {
  int bits = 0;
  while (bits < 5 && (std::int64_t{1} << bits) < groups) ++bits;
  return bits;
}

Drawn drawn_of(const Dropped& args) {
  SLUICE_ASSERT(args.time * args.rows <= std::numeric_limits<std::uint32_t>::max());
  return {args.time * args.rows,
          args.rows,
          args.features,
          static_cast<std::uint32_t>(args.first_time),
          args.row_ids,
          args.source,
          runtime::dropout_threshold(args.rate),
          static_cast<std::uint8_t*>(args.mask)};
}

}  // namespace

bool leaves_mask(base::DType dtype, std::int64_t features) {
  // Rows that teams of dropout_whole_kernel share.
  return base::size_of(dtype) == 2 && features % 128 == 0;
}

void drop_out(cudaStream_t stream, base::DType dtype, const Dropped& args) {
  if (args.time * args.rows * args.features == 0) return;
  base::dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Masked<T> m{};
    static_cast<Drawn&>(m) = drawn_of(args);
    m.x = static_cast<const T*>(args.x);
    m.y = static_cast<T*>(args.y);
    m.factor = static_cast<Wide<T>>(1 / (1 - args.rate));
    m.aligned = m.features % 4 == 0 && is_aligned(m.x) && is_aligned(m.y);
    m.team_bits = team_bits_for((m.features + 3) / 4);
    // Where there are many rows, teams take several: what comes before the first takes as long.
    constexpr unsigned kMostBlocks = 2048;
    const auto kernel = kernel_for(m);
    const unsigned blocks =
        std::min(kMostBlocks, runtime::cuda::blocks_for(m.count << m.team_bits, kBlock));
    kernel<<<blocks, kBlock, 0, stream>>>(m);
    runtime::cuda::check(cudaGetLastError(), "drop elements out");
  });
}

void draw_mask(cudaStream_t stream, const Dropped& args) {
  const std::int64_t words = args.time * args.rows * args.features / (4 * kPiece);
  if (words == 0) return;
  SLUICE_ASSERT(words <= std::numeric_limits<std::uint32_t>::max());
  draw_mask_kernel<<<runtime::cuda::blocks_for(words, kBlock), kBlock, 0, stream>>>(drawn_of(args));
  runtime::cuda::check(cudaGetLastError(), "draw what dropout keeps");
}

void drop_out_by_mask(cudaStream_t stream, base::DType dtype, const DroppedByMask& args) {
  if (args.count == 0) return;
  SLUICE_ASSERT(base::size_of(dtype) == 2 && args.count % kPiece == 0);
  if (dtype == base::DType::kBFloat16) return queue_dropout_by_mask<__nv_bfloat16>(stream, args);
  queue_dropout_by_mask<__half>(stream, args);
}

void dropout(Stream& stream, const DropoutArgs& args) {
  const runtime::cuda::CurrentDevice current(runtime::cuda::gpu_of(stream).ordinal);
  drop_out(runtime::cuda::handle_of(stream), args.x.dtype(),
           {args.x.data(), args.y.data(), 0, args.x.size(0), args.x.size(1), args.x.size(2),
            args.row_ids.data_as<const std::int32_t>(), args.rate, args.source});
}

}  // namespace sluice::kernels::elementwise::cuda
