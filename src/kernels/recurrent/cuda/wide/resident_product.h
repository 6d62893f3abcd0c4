#pragma once

#include "kernels/recurrent/cuda/warpgroup_product.h"
#include "kernels/recurrent/cuda/wide/ring.h"

/// Products of weights that stay in registers, and in shared memory, with tiles that come through
/// the ring.
namespace sluice::kernels::recurrent::cuda::wide {

/// Steps of depth 16 that a warpgroup multiplies of a chunk, and chunks of a stage that it takes.
inline constexpr int kChunkSteps = kChunkUnits / 16, kOwnChunks = kStageChunks / 2;

/// sums [64, 32] (+)= a [64, 16] * the transpose of b [32, 16]: a in registers as mma.sync has it,
/// warp by warp; b lines of shared memory; sums as multiply_lines has them.
template <typename T>
__device__ void multiply_resident(float (&d)[16], const std::uint32_t (&a)[4], std::uint64_t b,
                                  int add) {
#define SLUICE_WGMMA(KIND)                                                                      \
  asm volatile(                                                                                 \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"                                              \
      "wgmma.mma_async.sync.aligned.m64n32k16.f32." KIND "." KIND                               \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, p, "   \
      "1, 1, 0;\n}"                                                                             \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), \
        "+f"(d[14]), "+f"(d[15])                                                                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    SLUICE_WGMMA("bf16");
  } else {
    SLUICE_WGMMA("f16");
  }
#undef SLUICE_WGMMA
}

/// A warpgroup's weights, as pack_* leave them. kStages: whose weights are in registers.
template <typename T, int kStages>
class ResidentProduct {
 public:
  static constexpr int kStageSteps = kOwnChunks * kChunkSteps, kSteps = kStages * kStageSteps;
  static constexpr bool kMayShare = kStages == kRegisterStages;

  /// `shared_weights`: where those of the other stages are brought.
  __device__ ResidentProduct(const void* weights, const Geometry& geometry, const Part& part,
                             int group, std::uint32_t ring, std::uint32_t shared_weights,
                             const Barriers& barriers, const Sharers& sharers)
      : chunk_bytes_(geometry.chunk_bytes()),
        ring_(ring + group * kOwnChunks * chunk_bytes_),
        shared_weights_(shared_weights + group * kOwnChunks * kChunkWeightBytes),
        shared_stages_(geometry.shared_stages()),
        barriers_(barriers) {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const uint4* from = static_cast<const uint4*>(weights) +
                        part.block() * geometry.stages * (kStageWeightBytes / 16) +
                        group * kSteps * 128 + thread;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      reinterpret_cast<uint4&>(weights_[i]) = from[i * 128];
    }
    // The one of the sharers that this lane tells of stages that were read.
    const int lane = thread % 32;
    sharer_ = lane < sharers.count ? sharers.rank(lane) : -1;
    if (kMayShare && shared_stages_ > 0) wait_for_phase(barriers.weights(), 0);
  }

  /// Multiplies the next tile.
  __device__ void run(float (&sums)[16]) {
    int before = 0;
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      multiply_stage(stage == 0, before, [&](int i, std::uint64_t lines) {
        multiply_resident<T>(sums, weights_[stage * kStageSteps + i], lines, stage > 0 || i > 0);
      });
    }
    if constexpr (kMayShare) {
#pragma unroll 1
      for (int stage = 0; stage < shared_stages_; ++stage) {
        const Lines weights(shared_weights_ + stage * kStageWeightBytes, kChunkWeightBytes);
        multiply_stage(false, before, [&](int i, std::uint64_t lines) {
          multiply_lines<T, kTileRows>(sums, weights.of(i), lines, 1);
        });
      }
    }
    wait_for_products<0>();
    release(before);
  }

 private:
  static constexpr int kChunkWeightBytes = kStageWeightBytes / kStageChunks;

  /// Lines of a warpgroup's chunks of a stage.
  struct Lines {
    std::uint64_t chunks[kOwnChunks];

    __device__ Lines(std::uint32_t first, int chunk_bytes) {
#pragma unroll
      for (int i = 0; i < kOwnChunks; ++i) {
        chunks[i] = lines_at(first + i * chunk_bytes, kGroupBytes);
      }
    }
    /// Of a step of depth.
    __device__ std::uint64_t of(int step) const {
      return chunks[step / kChunkSteps] + step % kChunkSteps * (kDepthBytes / 16);
    }
  };

  /// The products of the next stage, one a step of depth; then those of the one ahead of it, unless
  /// it is the first, have been made, and its place `before` is free.
  template <typename Multiply>
  __device__ void multiply_stage(bool first, int& before, const Multiply& multiply) {
    wait_for_phase(barriers_.full(place_.stage), place_.parity);
    const Lines lines(ring_ + place_.stage * kStageChunks * chunk_bytes_, chunk_bytes_);
    begin_products();
#pragma unroll
    for (int i = 0; i < kStageSteps; ++i) {
      multiply(i, lines.of(i));
    }
    end_products();
    if (!first) {
      wait_for_products<1>();
      release(before);
    }
    before = place_.stage;
    place_.advance(1, barriers_.ring);
  }
  __device__ void release(int stage) const {
    __syncwarp();
    if (sharer_ >= 0) {
      arrive_in_cluster(address_in(static_cast<std::uint32_t>(sharer_), barriers_.empty(stage)));
    }
  }

  const int chunk_bytes_;
  const std::uint32_t ring_, shared_weights_;
  const int shared_stages_;
  const Barriers& barriers_;
  RingPlace place_;
  int sharer_;
  std::uint32_t weights_[kSteps][4];
};

}  // namespace sluice::kernels::recurrent::cuda::wide
