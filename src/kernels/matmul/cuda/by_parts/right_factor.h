#pragma once

#include "kernels/matmul/cuda/by_parts/split.h"
#include "kernels/matmul/cuda/by_parts/stages.h"

namespace sluice::kernels::matmul::cuda::by_parts {

/// Numbers of a column that follow each other in the depth: 16 bytes of each part.
inline constexpr int kPiece = 8, kPieceBytes = 16;

/// Of a number at a multiple of 16 bytes and those behind it.
__device__ inline void load_piece(float (&x)[kPiece], const float* from) {
  const auto* fours = reinterpret_cast<const float4*>(from);
  const float4 first = __ldg(fours), second = __ldg(fours + 1);
  x[0] = first.x, x[1] = first.y, x[2] = first.z, x[3] = first.w;
  x[4] = second.x, x[5] = second.y, x[6] = second.z, x[7] = second.w;
}

/// Where the columns of a product's right factor come from.
template <bool kInRows>
class RightColumns {
 public:
  using Work = by_parts::Work;
  /// Whether columns lie next to each other in memory, else the depth.
  static constexpr bool kDepthInRows = kInRows;

  __device__ explicit RightColumns(const Arguments& args) : args_(args) {}

  /// A piece of a column of the tile, from `depth` in the stage on; zeros beyond the factor.
  __device__ void load(float (&x)[kPiece], const Steps<Work>& at, int column, int depth) const {
    const Factor& factor = args_.right;
    column += at.work().column;
    depth += at.depth();
    load(x,
         kDepthInRows ? factor.data + depth * factor.stride + column
                      : factor.data + column * factor.stride + depth,
         at.ended() || column >= args_.n ? 0 : args_.k - depth);
  }

 private:
  /// `there`: how many there are.
  __device__ void load(float (&x)[kPiece], const float* from, int there) const {
    const std::int64_t step = kDepthInRows ? args_.right.stride : 1;
    if (!kDepthInRows && there >= kPiece && args_.right.aligned) return load_piece(x, from);
#pragma unroll
    for (int q = 0; q < kPiece; ++q, from += step) x[q] = q < there ? __ldg(from) : 0;
  }

  const Arguments& args_;
};

/// The warpgroup that splits the right factor into stages. Lanes take columns next to each other if
/// those lie next to each other in memory, else pieces of a column; neither meets another one's
/// bank in shared memory.
template <typename Columns>
class RightFactor {
 public:
  using Work = typename Columns::Work;
  using Arguments = typename Work::Arguments;

  __device__ RightFactor(const Arguments& args, const Stages& stages)
      : args_(args), stages_(stages), columns_(args) {
    const int warp = threadIdx.x % kWarpgroup / kWarpSize, lane = threadIdx.x % kWarpSize;
    column_ = kDepthInRows ? warp * kWarpSize + lane : warp * kColumns + lane / kLanes;
    piece_ = kDepthInRows ? 0 : lane % kLanes;
  }

  __device__ void run() {
    Steps<Work> ahead(args_);
    float x[kAtOnce][kPiece];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) load(x[j], ahead, j);
    while (!ahead.ended()) {
      wait_for_phase(stages_.emptied(place_.stage), place_.parity ^ 1);
#pragma unroll 1
      for (int i = 0; i < kPieces; i += kAtOnce) {
        const bool last = i + kAtOnce == kPieces;
        if (last) ahead.advance();
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          store(x[j], i + j);
          load(x[j], ahead, last ? j : i + kAtOnce + j);
        }
      }
      publish_to_tensor_cores();
      arrive(stages_.filled(place_.stage));
      place_.advance();
    }
  }

 private:
  static constexpr bool kDepthInRows = Columns::kDepthInRows;
  /// That a thread has of a stage, and that are on their way to it at a time.
  static constexpr int kPieces = kTile * kStageDepth / kPiece / kWarpgroup, kAtOnce = 4;
  /// Lanes that share a column, and columns of a warp then.
  static constexpr int kLanes = kStageDepth / kPiece, kColumns = kWarpSize / kLanes;
  /// From a piece of a thread to its next one: in columns or in depth.
  static constexpr int kColumnStep = kDepthInRows ? 0 : kColumns * (kWarpgroup / kWarpSize);
  static constexpr int kDepthStep = kDepthInRows ? kPiece : 0;

  /// A thread's i-th piece of a stage.
  __device__ void load(float (&x)[kPiece], const Steps<Work>& at, int i) const {
    columns_.load(x, at, column_ + i * kColumnStep, piece_ * kPiece + i * kDepthStep);
  }

  __device__ void store(const float (&x)[kPiece], int i) const {
    PairParts parts[kPiece / 2];
#pragma unroll
    for (int q = 0; q < kPiece / 2; ++q) parts[q] = split_pair(x[2 * q], x[2 * q + 1]);
    const int column = column_ + i * kColumnStep, piece = kDepthInRows ? i : piece_;
    const std::uint32_t to =
        stages_.at(place_.stage) + column * kLineBytes + (piece ^ column_ % 8) * kPieceBytes;
    write(to, parts[0].high, parts[1].high, parts[2].high, parts[3].high);
    write(to + Stages::kPartBytes, parts[0].middle, parts[1].middle, parts[2].middle,
          parts[3].middle);
    write(to + 2 * Stages::kPartBytes, parts[0].low, parts[1].low, parts[2].low, parts[3].low);
  }
  __device__ static void write(std::uint32_t to, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
  }

  const Arguments& args_;
  const Stages& stages_;
  const Columns columns_;
  int column_, piece_;  ///< of the thread's first piece, in the stage
  StagePlace place_;
};

}  // namespace sluice::kernels::matmul::cuda::by_parts
