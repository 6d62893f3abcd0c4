#pragma once

#include "kernels/recurrent/cuda/cluster_backward/memory.h"
#include "kernels/recurrent/cuda/warpgroup_product.h"

/// Products of a block's weights with the gradients of its gates.
namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// sums [64, 24] (+)= a [64, 16] * the transpose of b [24, 16]: a in registers as mma.sync has it,
/// warp by warp, or in shared memory; b lines of 64 bytes of shared memory; sums as multiply_lines
/// has them.
#define SLUICE_SUMS                                                                               \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
template <typename T>
__device__ void multiply_24(float (&d)[12], const std::uint32_t (&a)[4], std::uint64_t b, int add) {
#define SLUICE_WGMMA(KIND)                                                               \
  asm volatile(                                                                          \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %17, 0;\n"                                       \
      "wgmma.mma_async.sync.aligned.m64n24k16.f32." KIND "." KIND                        \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, %16, p, 1, 1, 0;\n}" \
      : SLUICE_SUMS                                                                      \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    SLUICE_WGMMA("bf16");
  } else {
    SLUICE_WGMMA("f16");
  }
#undef SLUICE_WGMMA
}
template <typename T>
__device__ void multiply_24(float (&d)[12], std::uint64_t a, std::uint64_t b, int add) {
#define SLUICE_WGMMA(KIND)                                                    \
  asm volatile(                                                               \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %14, 0;\n"                            \
      "wgmma.mma_async.sync.aligned.m64n24k16.f32." KIND "." KIND             \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, %12, %13, p, 1, 1, 0, 0;\n}" \
      : SLUICE_SUMS                                                           \
      : "l"(a), "l"(b), "r"(add))
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    SLUICE_WGMMA("bf16");
  } else {
    SLUICE_WGMMA("f16");
  }
#undef SLUICE_WGMMA
}
#undef SLUICE_SUMS

/// How the tensor cores find something in shared memory: `at` is the address in pieces of 16 bytes
/// and, in the upper half, what is between both halves of the depth; `rest` the other word.
__device__ inline std::uint64_t descriptor(std::uint32_t at, std::uint32_t rest) {
  std::uint64_t both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(at), "r"(rest));
  return both;
}
/// A [64, 16], [half of the depth][eight rows][row][8].
struct FactorsAt {
  static constexpr std::uint32_t kHalfBytes = 1024, kRest = 128 / 16;
  __device__ static std::uint32_t of(std::uint32_t address) {
    return (address & 0x3ffff) >> 4 | kHalfBytes / 16 << 16;
  }
};
/// A gate's gradients of a chunk: lines of 64 bytes with swizzle.
struct GatesAt {
  static constexpr std::uint32_t kSwizzle64 = 2, kRest = 512 / 16 | kSwizzle64 << 30;
  __device__ static std::uint32_t of(std::uint32_t address) {
    return (address & 0x3ffff) >> 4 | 1 << 16;
  }
};

/// A warpgroup's weights, as pack_weights leaves them.
template <typename T, typename Shape, typename Memory>
class GateProduct {
 public:
  __device__ GateProduct(const void* weights, int block, int group, std::byte* shared,
                         std::uint32_t shared_at)
      : gates_(GatesAt::of(shared_at + Memory::kGates)),
        factors_(FactorsAt::of(shared_at + Memory::kFactorsAt +
                               group * Memory::kGroupFactors * kFactorBytes)) {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const uint4* from =
        static_cast<const uint4*>(weights) + (block * 2 + group) * Shape::kFactors * 128 + thread;
    auto* to = reinterpret_cast<std::uint32_t*>(shared + Memory::kFactorsAt +
                                                group * Memory::kGroupFactors * kFactorBytes) +
               thread / 32 * 64 + thread % 32;
#pragma unroll
    for (int i = 0; i < Shape::kFactors; ++i) {
      if (Shape::is_loaded(i)) {
        reinterpret_cast<uint4&>(weights_[Shape::loaded_before(i)]) = from[i * 128];
      }
    }
#pragma unroll 1
    for (int i = 0; i < Shape::kFactors; ++i) {
      if (Shape::is_loaded(i)) continue;
      const uint4 factor = from[i * 128];
      to[0] = factor.x;
      to[32] = factor.y;
      to[256] = factor.z;
      to[288] = factor.w;
      to += kFactorBytes / 4;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
  }

  /// Queues the products of a round with a chunk; with the first one sums begin.
  template <int kRound, int kChunk>
  __device__ void multiply(float (&sums)[12]) {
    // From another lane, so that the compiler knows them to be the same in a warp and reckons all
    // addresses anew, in uniform registers: kept from turn to turn, they would be spilled.
    const std::uint32_t all_gates = __shfl_sync(~0u, gates_, 0);
    const std::uint32_t factors = __shfl_sync(~0u, factors_, 0);
#pragma unroll
    for (int i = 0; i < Shape::kChunkSteps; ++i) {
      const int factor = kRound * Shape::kSteps + kChunk * Shape::kChunkSteps + i;
      const int before = Shape::loaded_before(factor);
      constexpr int kFirst = kChunk * Memory::kChunkBytes;
      const std::uint64_t gates = descriptor(
          all_gates + (kFirst + i / 2 * Memory::kGateBytes + i % 2 * 32) / 16, GatesAt::kRest);
      const int add = kChunk > 0 || i > 0;
      if (Shape::is_loaded(factor)) {
        multiply_24<T>(sums, weights_[before], gates, add);
      } else {
        multiply_24<T>(
            sums, descriptor(factors + (factor - before) * (kFactorBytes / 16), FactorsAt::kRest),
            gates, add);
      }
    }
  }

 private:
  const std::uint32_t gates_, factors_;
  std::uint32_t weights_[Shape::kLoaded][4];
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
