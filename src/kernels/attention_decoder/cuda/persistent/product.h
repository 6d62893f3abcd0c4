#pragma once

#include "kernels/attention_decoder/cuda/persistent/ring.h"

/// Products of a warpgroup with what comes through the ring.
namespace sluice::kernels::attention_decoder::cuda::persistent {

inline constexpr int kTileSteps = kTileDepth / 16;  ///< of depth 16 in a tile

/// The compiler moves no sums across this: what tensor cores work on stays where it is.
template <int kCount>
__device__ void hold(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define SLUICE_D4(I) "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3])
#define SLUICE_D32                                                                       \
  SLUICE_D4(0), SLUICE_D4(4), SLUICE_D4(8), SLUICE_D4(12), SLUICE_D4(16), SLUICE_D4(20), \
      SLUICE_D4(24), SLUICE_D4(28)
#define SLUICE_WGMMA(KIND, A, B, ADD, TAIL, ...)                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                                           \
               ", 0;\n"                                                                          \
               "wgmma.mma_async.sync.aligned.m64n64k16.f32." KIND "." KIND                       \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,"    \
               "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, " A ", " B ", p, 1, 1" TAIL ";\n}" \
               : SLUICE_D32                                                                      \
               : __VA_ARGS__)

/// d [64, 64] (+)= a [64, 16] * the transpose of b [64, 16], added if `add`: a in registers as
/// mma.sync has it, warp by warp, or as b lines of shared memory; d as
/// recurrent::cuda::multiply_lines has them.
template <typename S>
__device__ void multiply(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b,
                         bool add = true) {
  if constexpr (std::is_same_v<S, __nv_bfloat16>) {
    SLUICE_WGMMA("bf16", "{%32,%33,%34,%35}", "%36", "%37", ", 0", "r"(a[0]), "r"(a[1]), "r"(a[2]),
                 "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
  } else {
    SLUICE_WGMMA("f16", "{%32,%33,%34,%35}", "%36", "%37", ", 0", "r"(a[0]), "r"(a[1]), "r"(a[2]),
                 "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
  }
}
template <typename S>
__device__ void multiply(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<S, __nv_bfloat16>) {
    SLUICE_WGMMA("bf16", "%32", "%33", "1", ", 0, 0", "l"(a), "l"(b));
  } else {
    SLUICE_WGMMA("f16", "%32", "%33", "1", ", 0, 0", "l"(a), "l"(b));
  }
}
/// The same with the transpose of a [16, 64].
template <typename S>
__device__ void multiply_transposed(float (&d)[32], std::uint64_t a, std::uint64_t b, bool add) {
  if constexpr (std::is_same_v<S, __nv_bfloat16>) {
    SLUICE_WGMMA("bf16", "%32", "%33", "%34", ", 1, 0", "l"(a), "l"(b), "r"(static_cast<int>(add)));
  } else {
    SLUICE_WGMMA("f16", "%32", "%33", "%34", ", 1, 0", "l"(a), "l"(b), "r"(static_cast<int>(add)));
  }
}
#undef SLUICE_WGMMA
#undef SLUICE_D32
#undef SLUICE_D4

/// A number that all lanes have, as one that the compiler knows to be the same in a warp: what
/// depends on it, as addresses of wgmma, it reckons in uniform registers, and anew each time.
__device__ inline std::uint32_t of_warp(std::uint32_t number) {
  std::uint32_t same;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, -1;" : "=r"(same) : "r"(number));
  return same;
}

/// Lines of a [.., 64] tile, from the `step`-th 16 of the depth on.
__device__ inline std::uint64_t lines_of(std::uint32_t tile, int step) {
  return recurrent::cuda::lines_at(tile, recurrent::cuda::kGroupBytes) +
         static_cast<std::uint64_t>(step * (recurrent::cuda::kDepthBytes / 16));
}
/// Of a [64, ..] tile whose lines are the depth: 16 of them, as multiply_transposed wants them.
__device__ inline std::uint64_t depth_of(std::uint32_t tile, int step) {
  return recurrent::cuda::lines_at(tile, recurrent::cuda::kGroupBytes) +
         static_cast<std::uint64_t>(step * (16 * recurrent::cuda::kLineBytes / 16));
}

/// Of products with the same tiles: the first waits for them, the last frees their places.
enum class Pass { kOnly, kFirst, kLast };

/// Calls product(tile, step, lines) for all of an item; `first` and `kind` as of copy_tiles.
template <int kTiles, Pass kPass = Pass::kOnly, typename Block, int kCount, typename Product>
__device__ void multiply_item(const Block& block, int first, int kind, Phases& phases, int readers,
                              float (&sums)[kCount], const Product& product) {
  constexpr bool kWaits = kPass != Pass::kLast, kReleases = kPass != Pass::kFirst;
  hold(sums);
  const auto same = static_cast<int>(of_warp(static_cast<std::uint32_t>(first)));
  int before = 0;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int stage = (same + tile) % Block::kStages;
    if constexpr (kWaits) wait_for_phase(block.full(kind, stage), phases.next(stage));
    recurrent::cuda::begin_products();
#pragma unroll
    for (int step = 0; step < kTileSteps; ++step) {
      product(tile, step, lines_of(block.ring(stage), step));
    }
    recurrent::cuda::end_products();
    if (kReleases && tile > 0) {
      recurrent::cuda::wait_for_products<1>();
      release(block, before, readers);
    }
    before = stage;
  }
  recurrent::cuda::wait_for_products<0>();
  hold(sums);
  if (kReleases) release(block, before, readers);
}

/// Of an item that others want.
template <int kTiles, typename Block>
__device__ void skip_item(const Block& block, int first, int kind, Phases& phases, int readers) {
#pragma unroll 1
  for (int tile = 0; tile < kTiles; ++tile) {
    const int stage = (first + tile) % Block::kStages;
    wait_for_phase(block.full(kind, stage), phases.next(stage));
    release(block, stage, readers);
  }
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
