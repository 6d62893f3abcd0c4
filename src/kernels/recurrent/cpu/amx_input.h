#pragma once

#include <cstdint>

#include "kernels/recurrent/cpu/leaf_tile.h"

/// How rows of a matrix become tiles of bfloat16, which is all that the tile registers multiply.
namespace sluice::kernels::recurrent::cpu {

inline constexpr int kTileRows = 16;
inline constexpr int kTileDepth = 32;  ///< bfloat16 in a row of a tile
inline constexpr int kTileBytes = 1024;

struct TileSource {
  const void* from;
  std::int64_t stride;  ///< bytes
};

/// One product of parts: part `input` of the rows by part `weights` of the weights.
struct Phase {
  int input, weights;
};

/// bfloat16 rows are tiles as they lie, but for the part of the depth past the last whole tile,
/// which is copied with zeros after it.
template <class Isa>
class StoredInput {
 public:
  using T = typename Isa::T;
  static constexpr int kRows = 128;
  static constexpr std::int64_t kDepth = INT64_MAX;

  static constexpr std::int64_t rows_at_once(std::int64_t) { return kRows; }

  void take(const T* rows, std::int64_t stride, int count, std::int64_t, std::int64_t depth) {
    rows_ = rows;
    stride_ = stride;
    whole_ = depth / kTileDepth * kTileDepth;
    if (whole_ == depth) return;
    for (int r = 0; r < count; ++r) {
      for (std::int64_t k = 0; k < kTileDepth; ++k) {
        tail_[r][k] = whole_ + k < depth ? rows[r * stride + whole_ + k] : T();
      }
    }
  }

  TileSource tile(int row, std::int64_t k, int) const {
    if (k >= whole_) return {tail_[row], sizeof tail_[0]};
    return {rows_ + row * stride_ + k, stride_ * static_cast<std::int64_t>(sizeof(T))};
  }

 private:
  const T* rows_ = nullptr;
  std::int64_t stride_ = 0, whole_ = 0;
  alignas(64) T tail_[kRows][kTileDepth];
};

/// float32 rows as kParts bfloat16 parts that add up to them, in whole tiles. Lives on the stack: a
/// thread's must hold 1 MiB (OMP_STACKSIZE, should somebody lower it).
template <class Isa>
class SplitInput {
 public:
  using T = typename Isa::T;
  static constexpr int kRows = 128;
  static constexpr std::int64_t kDepth = 4096;

  /// Few enough that their tiles stay in L2 beside the weights' that stream by.
  static constexpr std::int64_t rows_at_once(std::int64_t depth) {
    if (depth * kRows <= kElements) return kRows;
    return kElements / padded_depth<Isa>(depth) / kBlockRows * kBlockRows;
  }

  void take(const T* rows, std::int64_t stride, int count, std::int64_t begin, std::int64_t end) {
    begin_ = begin;
    steps_ = padded_depth<Isa>(end - begin) / kTileDepth;
    for (int r = 0; r < count; ++r) {
      std::uint8_t* to = parts_ + offset(r, 0) + r % kTileRows * 64;
      for (std::int64_t k = begin; k < end; k += kTileDepth, to += Isa::kParts * kTileBytes) {
        Isa::split(rows + r * stride + k, static_cast<int>(smaller_of(kTileDepth, end - k)), to);
      }
    }
  }

  TileSource tile(int row, std::int64_t k, int part) const {
    return {parts_ + offset(row, (k - begin_) / kTileDepth) + part * kTileBytes, 64};
  }

 private:
  static constexpr int kBlockRows = 2 * kTileRows;
  static constexpr std::int64_t kElements = kDepth * kBlockRows;

  std::int64_t offset(int row, std::int64_t step) const {
    return (row / kTileRows * steps_ + step) * Isa::kParts * kTileBytes;
  }

  std::int64_t begin_ = 0, steps_ = 0;
  alignas(64) std::uint8_t parts_[kElements * Isa::kParts * 2];
};

}  // namespace sluice::kernels::recurrent::cpu
