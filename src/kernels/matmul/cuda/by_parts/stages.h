#pragma once

#include <cuda_runtime.h>

#include "kernels/matmul/cuda/by_parts/arguments.h"
#include "kernels/matmul/cuda/by_parts/warpgroup.h"

/// What the warps of a block agree about: which tile comes when, and where the right factor's parts
/// are in shared memory.
namespace sluice::kernels::matmul::cuda::by_parts {

inline constexpr int kMultipliers = 2 * kWarpgroup, kThreads = kMultipliers + kWarpgroup;
inline constexpr int kWarpSize = 32;
// Of the multiprocessor's 512 a warp's lane, what three warpgroups have at the launch.
inline constexpr int kMultiplierRegisters = 208, kSplitterRegisters = 88;

/// A block's work: a tile of c, and the depth that it adds up. Other problems have works of their
/// own, which say the same of what they have.
struct Work {
  using Arguments = by_parts::Arguments;

  int row, column;  ///< the first of the tile
  int split, depth_begin, depth_end;

  __device__ Work(const Arguments& args, int index) {
    // Tiles at work at the same time form squares, so that each factor is read from memory seldom.
    constexpr int kSquare = 12;
    const int rows = (args.m + kTile - 1) / kTile, columns = (args.n + kTile - 1) / kTile;
    split = index / (rows * columns);
    index -= split * rows * columns;
    const int band = index / (kSquare * columns);
    const int height = min(kSquare, rows - band * kSquare);
    index -= band * kSquare * columns;
    row = (band * kSquare + index % height) * kTile;
    column = index / height * kTile;
    depth_begin = split * args.split_depth;
    depth_end = min(args.k, depth_begin + args.split_depth);
  }

  __host__ __device__ static int count(const Arguments& args) {
    return (args.m + kTile - 1) / kTile * ((args.n + kTile - 1) / kTile) * args.splits;
  }
  /// The block's work after that.
  __device__ static int behind(int index) { return index + static_cast<int>(gridDim.x); }
};

/// The stages of a block's work, one tile after the other.
template <typename Work>
class Steps {
 public:
  using Arguments = typename Work::Arguments;

  __device__ explicit Steps(const Arguments& args)
      : args_(args), index_(static_cast<int>(blockIdx.x)), work_(args, index_) {
    depth_ = work_.depth_begin;
  }

  __device__ bool ended() const { return index_ >= Work::count(args_); }
  __device__ const Work& work() const { return work_; }
  __device__ int depth() const { return depth_; }

  __device__ void advance() {
    depth_ += kStageDepth;
    if (depth_ < work_.depth_end) return;
    index_ = Work::behind(index_);
    if (ended()) return;
    work_ = Work(args_, index_);
    depth_ = work_.depth_begin;
  }

 private:
  const Arguments& args_;
  int index_;
  Work work_;
  int depth_;
};

/// A ring of stages, each with the three parts [3, columns, depth] of what a tile's product takes
/// of the right factor. Pieces of 16 bytes of a column's depth change places by the last bits of
/// the column, as lines_at says.
class Stages {
 public:
  static constexpr int kCount = 4;
  static constexpr int kPartBytes = kTile * kLineBytes, kBytes = 3 * kPartBytes;
  static constexpr int kAlignment = 1024, kBarrierBytes = 8;
  static constexpr int kSharedBytes = kAlignment + kCount * (kBytes + 2 * kBarrierBytes);

  __device__ explicit Stages(const void* memory)
      : begin_((shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment) {}

  /// One thread, before all others go on.
  __device__ void begin() const {
    for (int i = 0; i < kCount; ++i) {
      begin_barrier(filled(i), kWarpgroup);
      begin_barrier(emptied(i), kMultipliers / kWarpSize);
    }
    publish_to_tensor_cores();
  }

  __device__ std::uint32_t at(int stage) const { return begin_ + stage * kBytes; }
  /// Each thread that has written to the stage arrives, or a warp for all its threads when their
  /// products have read it.
  __device__ std::uint32_t filled(int stage) const {
    return begin_ + kCount * kBytes + stage * kBarrierBytes;
  }
  __device__ std::uint32_t emptied(int stage) const {
    return filled(stage) + kCount * kBarrierBytes;
  }

 private:
  std::uint32_t begin_;
};

/// The stage that a warp has come to, and how often the ring has come round.
struct StagePlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance() {
    if (++stage == Stages::kCount) stage = 0, parity ^= 1;
  }
};

}  // namespace sluice::kernels::matmul::cuda::by_parts
