#pragma once

#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <cstdint>

#include "kernels/loss/cuda/sums.h"
#include "kernels/loss/cuda/tokens.h"
#include "kernels/recurrent/cuda/persistent/tensor_core.h"
#include "runtime/cuda/dropped_piece.h"
#include "runtime/cuda/reduce.h"

/// What a block of projected.cu has of its tile of tokens, and who does what with it.
namespace sluice::kernels::loss::cuda {

using recurrent::cuda::persistent::load_blocks;
using recurrent::cuda::persistent::multiply_add;
using runtime::cuda::packed_pair;
using runtime::cuda::unpacked_pair;

/// A tile's tokens. A pair of warps has 16 of them and each warp one half of their columns.
inline constexpr int kTileTokens = kProjectedTile, kPairTokens = 16;
inline constexpr int kPairs = kTileTokens / kPairTokens;
inline constexpr int kProjectedThreads = 2 * kPairs * runtime::cuda::kWarp;
/// Classes of a tile: those that a layer lacks have logits of minus infinity.
inline constexpr int kTileClasses = 48;
/// Fragments of eight classes, of 16 classes, and of eight classes a warp of a pair multiplies.
inline constexpr int kEights = kTileClasses / 8, kSixteens = kTileClasses / 16;
inline constexpr int kOwnEights = kEights / 2;
/// Elements of 16 bits that a thread copies at once.
inline constexpr int kPiece = 8;

/// What a token's loss takes beside its logits.
struct TokenTarget {
  std::int32_t target;
  std::int32_t counts;  ///< or 0
};

/// Shared memory of a block. Rows have a piece more than they need, so that the eight rows of a
/// fragment lie in different banks.
template <typename T, int kIn>
struct ProjectedTile {
  T x[kTileTokens][kIn + kPiece];
  T weight[kTileClasses][kIn + kPiece];
  T gradient[kTileTokens][kTileClasses + kPiece];  ///< of the logits
  /// Logits that a warp of a pair hands to the other, which takes the losses of their tokens.
  float2 handed[kPairs][2][kOwnEights][runtime::cuda::kWarp];
  double sums[kTileTokens][kSums];
  float bias[kTileClasses];
  float d_bias[kPairs][kTileClasses];
  std::uint32_t mask[kIn / 128][kProjectedThreads];  ///< of each thread's pieces (OwnPieces)
  TokenTarget targets[kTileTokens];
};

// Of a token, by 32 bits, which there are enough of: 64 would take as long as a draw.
__device__ inline std::uint32_t row_of(std::int64_t n, std::int64_t rows) {
  return static_cast<std::uint32_t>(n) % static_cast<std::uint32_t>(rows);
}
__device__ inline std::uint32_t time_of(std::int64_t n, std::int64_t rows) {
  return static_cast<std::uint32_t>(n) / static_cast<std::uint32_t>(rows);
}

/// What dropout keeps of x.
struct ProjectedMask {
  std::int64_t tokens, rows;
  runtime::DropoutSource source;
  std::uint32_t threshold;      ///< 0: nothing is dropped
  const std::int32_t* row_ids;  ///< or null
  /// [tiles, columns of OwnPieces, kProjectedThreads]: a word has a thread's pieces of four tokens.
  std::uint32_t* bits;
};

template <typename T>
struct ProjectedProblem {
  ProjectedMask mask;
  Tokens tokens;
  int classes;
  const T* x;
  const T* weight;
  const float* bias;
  T* dx;
  float* parts;  ///< of each block: d_weight [classes, in], then d_bias, then sums
  std::int64_t part_bytes;
  double smoothing, uniform;  ///< label smoothing, and what it gives each class
  Scale scale;
  float factor;

  __device__ bool counts(std::int64_t n) const {
    if (n >= tokens.count()) return false;
    return tokens.lengths == nullptr || static_cast<std::int64_t>(time_of(n, tokens.rows)) <
                                            tokens.lengths[row_of(n, tokens.rows)];
  }
  __device__ TokenTarget target(std::int64_t n) const {
    const bool is_counted = counts(n);
    return {is_counted ? tokens.targets[n] : 0, is_counted};
  }
};

/// A thread's place among the warps of a block.
struct ProjectedPlace {
  int lane, pair, half;

  __device__ ProjectedPlace()
      : lane(static_cast<int>(threadIdx.x) % runtime::cuda::kWarp),
        pair(static_cast<int>(threadIdx.x) / runtime::cuda::kWarp % kPairs),
        half(static_cast<int>(threadIdx.x) / runtime::cuda::kWarp / kPairs) {}
  /// Both warps of a pair wait for each other, and see what the other has written to shared memory.
  __device__ void meet() const {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + pair), "n"(2 * runtime::cuda::kWarp) : "memory");
  }
  __device__ int warp() const { return half * kPairs + pair; }
  /// Of fragments of mma.sync: the row (and the one eight further), and the first of two columns.
  __device__ int row() const { return lane / 4; }
  __device__ int column() const { return lane % 4 * 2; }
};

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

/// As load_blocks, each block transposed.
__device__ inline void load_transposed(std::uint32_t (&b)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(address)
               : "memory");
}

/// Where this lane's row of load_blocks is: blocks one and three lie eight rows (kDown) or eight
/// columns further than blocks zero and two, and blocks two and three the other way.
template <bool kDown, typename T, int kPitch>
__device__ std::uint32_t block_row(const T (*matrix)[kPitch], int row, int column, int lane) {
  const int odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
  return shared_address(
      &matrix[row + lane % 8 + (kDown ? odd : upper)][column + (kDown ? upper : odd)]);
}

/// The pieces that a thread copies of a tile: of four tokens, every fourth of its pair's, and of
/// every eighth piece of its warp's half of columns.
template <typename T, int kIn>
struct OwnPieces {
  static constexpr int kTokens = kPairTokens / 4, kColumns = kIn / 2 / (8 * kPiece);
  static_assert(kTokens == 4 && kPiece == 8 && kIn % (16 * kPiece) == 0);

  const ProjectedPlace place;

  __device__ int row(int i) const { return place.pair * kPairTokens + 4 * i + place.lane / 8; }
  __device__ int column(int c) const {
    return place.half * (kIn / 2) + (place.lane % 8 + 8 * c) * kPiece;
  }
  template <typename Use>
  __device__ void for_each(const Use& use) const {
#pragma unroll 2
    for (int i = 0; i < kTokens; ++i) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) use(i, c);
    }
  }

  /// Where the tile's words of this thread are: the first, and the others kProjectedThreads
  /// further.
  __device__ std::uint32_t* words(const ProjectedMask& mask, std::int64_t first) const {
    return mask.bits + first / kTileTokens * (kColumns * kProjectedThreads) + threadIdx.x;
  }
  /// Draws those of the tile from token `first` on.
  __device__ void draw(const ProjectedMask& mask, std::uint64_t philox_key,
                       std::int64_t first) const {
    std::uint32_t bits[kColumns]{};
#pragma unroll 1
    for (int i = 0; i < kTokens; ++i) {
      // Beyond the end the numbers of the last token, for nothing.
      const std::int64_t n = std::min(first + row(i), mask.tokens - 1);
      const std::uint32_t row = row_of(n, mask.rows), time = time_of(n, mask.rows);
      const auto id = static_cast<std::uint32_t>(mask.row_ids != nullptr ? mask.row_ids[row] : row);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        bits[c] |=
            runtime::cuda::dropout_mask_of_piece(philox_key, mask.source.stream, mask.threshold, id,
                                                 time, static_cast<std::uint32_t>(column(c) / 4))
            << (4 * i);
      }
    }
    for (int c = 0; c < kColumns; ++c) words(mask, first)[c * kProjectedThreads] = bits[c];
  }

  /// Asks for those of the tile from token `first` on, and their mask; zeros beyond the end.
  __device__ void fetch(const ProjectedProblem<T>& p, ProjectedTile<T, kIn>& tile,
                        std::int64_t first) const {
    for_each([&](int i, int c) {
      const std::int64_t n = first + row(i);
      const bool is_there = n < p.tokens.count();
      __pipeline_memcpy_async(&tile.x[row(i)][column(c)],
                              p.x + (is_there ? n : 0) * kIn + column(c), sizeof(uint4),
                              is_there ? 0 : sizeof(uint4));
    });
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (p.mask.threshold == 0) {
        tile.mask[c][threadIdx.x] = ~0u;
      } else if (first < p.tokens.count()) {
        __pipeline_memcpy_async(&tile.mask[c][threadIdx.x],
                                words(p.mask, first) + c * kProjectedThreads,
                                sizeof(std::uint32_t));
      }
    }
    __pipeline_commit();
  }

  /// The piece as dropout leaves it.
  __device__ uint4 masked(const ProjectedProblem<T>& p, const ProjectedTile<T, kIn>& tile, int i,
                          int c) const {
    return runtime::cuda::dropped_piece<T>(
        *reinterpret_cast<const uint4*>(&tile.x[row(i)][column(c)]),
        tile.mask[c][threadIdx.x] >> (4 * i), p.factor);
  }

  /// Has L2 fetch the tile from token `first` on, whose turn is the next.
  __device__ static void fetch_ahead(const ProjectedProblem<T>& p, std::int64_t first) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (threadIdx.x != 0 || first >= p.tokens.count()) return;
    const auto tokens =
        static_cast<int>(std::min(p.tokens.count() - first, std::int64_t{kTileTokens}));
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p.x + first * kIn),
                 "r"(tokens * kIn * static_cast<int>(sizeof(T)))
                 : "memory");
#endif
  }
  /// Drops x out where it lies, once it is there.
  __device__ void drop(const ProjectedProblem<T>& p, ProjectedTile<T, kIn>& tile) const {
    __pipeline_wait_prior(0);
    if (p.mask.threshold == 0) return;
    for_each([&](int i, int c) {
      *reinterpret_cast<uint4*>(&tile.x[row(i)][column(c)]) = masked(p, tile, i, c);
    });
  }
  /// Writes what has taken x's place, dropped out.
  __device__ void write(const ProjectedProblem<T>& p, const ProjectedTile<T, kIn>& tile,
                        std::int64_t first) const {
    for_each([&](int i, int c) {
      const std::int64_t n = first + row(i);
      const uint4 piece = masked(p, tile, i, c);
      if (n < p.tokens.count()) __stwb(reinterpret_cast<uint4*>(p.dx + n * kIn + column(c)), piece);
    });
  }
};

}  // namespace sluice::kernels::loss::cuda
