#pragma once

#include "kernels/recurrent/cuda/warpgroup_product.h"
#include "kernels/recurrent/cuda/wide/ring.h"

/// Products of weights that stay in registers, and in shared memory, with tiles that come through
/// the ring.
namespace sluice::kernels::recurrent::cuda::wide {

/// Steps of depth 16 of a chunk, and chunks of a stage that a warpgroup takes.
inline constexpr int kChunkSteps = kChunkUnits / 16, kOwnChunks = kStageChunks / 2;
static_assert(kStageSteps == kOwnChunks * kChunkSteps);

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

/// Of four sums of a thread those of two units (or gates) of one row, then those of the next.
__device__ inline float4 row_by_row(const float* sums) {
  return make_float4(sums[0], sums[2], sums[1], sums[3]);
}

/// A warpgroup's number, as one that the compiler knows to be the same in a warp: it then reckons
/// what depends on it in uniform registers, from which wgmma takes its addresses. Brought there one
/// by one, those took longer than the products. Kernels with whole stages in shared memory would
/// spill for it.
template <int kStages>
__device__ int warpgroup_of_products(int role) {
  return kStages > kRegisterStages ? role : __shfl_sync(~0u, role, 0);
}

/// How the tensor cores find a [64, 16] in shared memory, [half of the depth][eight rows][row][8].
__device__ inline std::uint64_t step_at(std::uint32_t address) {
  constexpr std::uint64_t kHalfBytes = 1024, kRowsBytes = 128;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | kHalfBytes >> 4 << 16 |
         kRowsBytes >> 4 << 32;
}

/// A warpgroup's weights, as pack_* leave them. kStages: of a kernel.
template <typename T, int kStages>
class ResidentProduct {
 public:
  static constexpr bool kShares = kStages > kRegisterStages;
  /// Not those whose weights are all in shared memory.
  static constexpr int kLoadedStages = kShares ? kRegisterStages : kStages;
  static constexpr int kSteps = kLoadedStages * kStageSteps;

  __device__ ResidentProduct(const void* weights, const Geometry& geometry, const Part& part,
                             int group, std::byte* shared, const BlockMemory& memory,
                             const Barriers& barriers, const Sharers& sharers)
      : geometry_(geometry),
        ring_(shared_address(shared) + group * kOwnChunks * geometry.chunk_bytes()),
        last_steps_(shared_address(shared + memory.last_steps) + group * kLastBytes),
        shared_weights_(shared_address(shared + memory.weights) +
                        group * kOwnChunks * kChunkWeightBytes),
        barriers_(barriers) {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const uint4* from = static_cast<const uint4*>(weights) +
                        part.block() * geometry.stages * (kStageWeightBytes / 16) +
                        group * kSteps * 128 + thread;
#pragma unroll
    for (int i = 0; i < kResident; ++i) {
      reinterpret_cast<uint4&>(weights_[i]) = from[i * 128];
    }
    if constexpr (kLast > 0) {
      auto* to = reinterpret_cast<std::uint32_t*>(shared + memory.last_steps + group * kLastBytes) +
                 thread / 32 * 64 + thread % 32;
#pragma unroll 1
      for (int i = kResident; i < kSteps; ++i) {
        const uint4 step = from[i * 128];
        to[0] = step.x;
        to[32] = step.y;
        to[256] = step.z;
        to[288] = step.w;
        to += BlockMemory::kStepBytes / 4;
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync %0, 128;" ::"r"(5 + group) : "memory");
    }
    // The one of the sharers that this lane tells of stages that were read.
    const int lane = thread % 32;
    sharer_ = lane < sharers.count ? sharers.rank(lane) : -1;
    if (kShares) wait_for_phase(barriers.weights(), 0);
  }

  /// Multiplies the next tile.
  __device__ void run(float (&sums)[16]) {
    int before = 0;
#pragma unroll
    for (int stage = 0; stage < kLoadedStages; ++stage) {
      multiply_stage(stage == 0, before, [&](int i, std::uint64_t lines) {
        const int step = stage * kStageSteps + i;
        if (step < kResident) {
          multiply_resident<T>(sums, weights_[step], lines, step > 0);
        } else {
          const int behind = (step - kResident) * BlockMemory::kStepBytes;
          multiply_lines<T, kTileRows>(sums, step_at(last_steps_ + behind), lines, 1);
        }
      });
    }
    if constexpr (kShares) {
#pragma unroll 1
      for (int stage = 0; stage < geometry_.shared_stages(); ++stage) {
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
  static constexpr int kLast = last_steps(kStages), kResident = kSteps - kLast;
  static constexpr int kLastBytes = kLast * BlockMemory::kStepBytes;

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
    const Lines lines(ring_ + place_.stage * geometry_.stage_bytes(), geometry_.chunk_bytes());
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
    place_.next(geometry_.ring);
  }
  __device__ void release(int stage) const {
    __syncwarp();
    if (sharer_ >= 0) {
      arrive_in_cluster(address_in(static_cast<std::uint32_t>(sharer_), barriers_.empty(stage)));
    }
  }

  const Geometry& geometry_;
  const std::uint32_t ring_, last_steps_, shared_weights_;
  const Barriers& barriers_;
  RingPlace place_;
  int sharer_;
  std::uint32_t weights_[kResident][4];
};

}  // namespace sluice::kernels::recurrent::cuda::wide
