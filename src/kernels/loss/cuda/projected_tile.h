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
inline constexpr int kTileTokens = 64, kPairTokens = 16;
inline constexpr int kPairs = kTileTokens / kPairTokens;
inline constexpr int kProjectedThreads = 2 * kPairs * runtime::cuda::kWarp;
/// Classes of a tile: those that a layer lacks have logits of minus infinity.
inline constexpr int kTileClasses = 48;
/// Fragments of eight classes, of 16 classes, and of eight classes a warp of a pair multiplies.
inline constexpr int kEights = kTileClasses / 8, kSixteens = kTileClasses / 16;
inline constexpr int kOwnEights = kEights / 2;
/// Elements of 16 bits that a thread copies at once.
inline constexpr int kPiece = 8;

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
  std::uint32_t kept[kIn / 128][kProjectedThreads];  ///< of each thread's pieces (OwnPieces)
};

template <typename T>
struct ProjectedProblem {
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
  runtime::DropoutSource source;
  std::uint32_t threshold;  ///< 0: nothing is dropped
  float factor;
  const std::int32_t* row_ids;  ///< or null

  // Of a token, by 32 bits, which there are enough of: 64 would take as long as a draw.
  __device__ std::uint32_t row_of(std::int64_t n) const {
    return static_cast<std::uint32_t>(n) % static_cast<std::uint32_t>(tokens.rows);
  }
  __device__ std::uint32_t time_of(std::int64_t n) const {
    return static_cast<std::uint32_t>(n) / static_cast<std::uint32_t>(tokens.rows);
  }
  __device__ bool counts(std::int64_t n) const {
    if (n >= tokens.count()) return false;
    return tokens.lengths == nullptr ||
           static_cast<std::int64_t>(time_of(n)) < tokens.lengths[row_of(n)];
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

  /// Asks for those of the tile from token `first` on; zeros beyond the end.
  __device__ void fetch(const ProjectedProblem<T>& p, ProjectedTile<T, kIn>& tile,
                        std::int64_t first) const {
    for_each([&](int i, int c) {
      const std::int64_t n = first + row(i);
      const bool is_there = n < p.tokens.count();
      __pipeline_memcpy_async(&tile.x[row(i)][column(c)],
                              p.x + (is_there ? n : 0) * kIn + column(c), sizeof(uint4),
                              is_there ? 0 : sizeof(uint4));
    });
    __pipeline_commit();
  }

  /// Which elements are kept, in the tile: a word has those of four tokens' pieces.
  __device__ void draw(const ProjectedProblem<T>& p, ProjectedTile<T, kIn>& tile,
                       std::uint64_t philox_key, std::int64_t first) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) tile.kept[c][thread] = p.threshold == 0 ? ~0u : 0;
    if (p.threshold == 0) return;
#pragma unroll 1
    for (int i = 0; i < kTokens; ++i) {
      // Beyond the end the numbers of the last token, for nothing.
      const std::int64_t n = std::min(first + row(i), p.tokens.count() - 1);
      const std::uint32_t row = p.row_of(n), time = p.time_of(n);
      const auto id = static_cast<std::uint32_t>(p.row_ids != nullptr ? p.row_ids[row] : row);
#pragma unroll 1
      for (int c = 0; c < kColumns; ++c) {
        tile.kept[c][thread] |=
            runtime::cuda::kept_of_piece(philox_key, p.source.stream, p.threshold, id, time,
                                         static_cast<std::uint32_t>(column(c) / 4))
            << (4 * i);
      }
    }
  }

  /// The piece as dropout leaves it.
  __device__ uint4 masked(const ProjectedProblem<T>& p, const ProjectedTile<T, kIn>& tile, int i,
                          int c) const {
    return runtime::cuda::dropped_piece<T>(
        *reinterpret_cast<const uint4*>(&tile.x[row(i)][column(c)]),
        tile.kept[c][threadIdx.x] >> (4 * i), p.factor);
  }

  /// Drops x out where it lies, once it is there.
  __device__ void drop(const ProjectedProblem<T>& p, ProjectedTile<T, kIn>& tile) const {
    __pipeline_wait_prior(0);
    if (p.threshold == 0) return;
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
