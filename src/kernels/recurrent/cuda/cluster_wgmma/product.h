#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/arguments.h"
#include "kernels/recurrent/cuda/warpgroup_product.h"

/// Products of a warpgroup's weights, in registers, with a tile's h in shared memory.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// How the tensor cores find a tile's [rows, 16 of the depth]: core matrices of eight rows by 16
/// bytes next to each other, and those of the next eight of the depth behind all rows.
__device__ inline std::uint64_t rows_at(std::uint32_t address, int columns) {
  constexpr std::uint64_t kRowsBytes = 128;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<std::uint64_t>(columns) << 16 | kRowsBytes >> 4 << 32;
}

/// sums [64, kColumns] += a [64, 16] * the transpose of b [kColumns, 16]: a in registers as
/// mma.sync has it, warp by warp; sums as multiply_lines has them.
template <typename T, int kColumns>
__device__ void multiply_rows(float* d, const std::uint32_t (&a)[4], std::uint64_t b) {
#define SLUICE_D4(I) "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3])
#define SLUICE_WGMMA(KIND, N, SUMS, A, B, ...)                                                  \
  asm volatile(                                                                                 \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                \
      "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." KIND "." KIND " {" SUMS "}, {" A "}, " B \
      ", p, 1, 1, 0;\n}"                                                                        \
      : __VA_ARGS__                                                                             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define SLUICE_WGMMA_OF(KIND)                                                                   \
  if constexpr (kColumns == 16) {                                                               \
    SLUICE_WGMMA(KIND, "16", "%0,%1,%2,%3,%4,%5,%6,%7", "%8,%9,%10,%11", "%12", SLUICE_D4(0),   \
                 SLUICE_D4(4));                                                                 \
  } else {                                                                                      \
    static_assert(kColumns == 24);                                                              \
    SLUICE_WGMMA(KIND, "24", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11", "%12,%13,%14,%15", "%16", \
                 SLUICE_D4(0), SLUICE_D4(4), SLUICE_D4(8));                                     \
  }
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    SLUICE_WGMMA_OF("bf16")
  } else {
    SLUICE_WGMMA_OF("f16")
  }
#undef SLUICE_WGMMA_OF
#undef SLUICE_WGMMA
#undef SLUICE_D4
}

/// The compiler moves no sums across this: what tensor cores work on stays where it is.
template <int kCount>
__device__ void hold(float* sums) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

/// Warpgroups take turns at the tensor cores: all three at once would end at the same time, and
/// then evaluate their cells at the same time, while the tensor cores have nothing to do.
template <int kGroups>
class Turns {
 public:
  __device__ explicit Turns(int group) : group_(group) {
    if (group == kGroups - 1) pass();
  }
  __device__ void wait() const {
    if constexpr (kGroups > 1) asm volatile("bar.sync %0, 256;" ::"r"(1 + group_) : "memory");
  }
  /// To the next warpgroup.
  __device__ void pass() const {
    const int next = group_ + 1 == kGroups ? 0 : group_ + 1;
    if constexpr (kGroups > 1) asm volatile("bar.arrive %0, 256;" ::"r"(1 + next) : "memory");
  }
  /// Behind the last product.
  __device__ void end() const {
    if (group_ == 0) wait();
  }

 private:
  const int group_;
};

/// A warpgroup's weights for all of the depth: 64 rows, as pack_forward leaves them.
template <typename T, int kGroups>
class ResidentWeights {
 public:
  static constexpr int kSteps = kBlocks * kGroups * kGroupUnits / 16;  ///< of depth 16

  __device__ ResidentWeights(const void* weights, int rank, int group) {
    const uint4* from = static_cast<const uint4*>(weights) +
                        (rank * kGroups + group) * kSteps * 128 + threadIdx.x % 128;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) reinterpret_cast<uint4&>(weights_[k]) = from[k * 128];
  }

  /// Adds the products with h of a tile to the sums, when it is the warpgroup's turn.
  __device__ void multiply(float (&sums)[kMostTileRows / 2], std::uint32_t state, int columns,
                           const Turns<kGroups>& turns) {
    // The compiler knows that all lanes have what comes from one: addresses of wgmma are the same
    // in a warp.
    state = __shfl_sync(~0u, state, 0);
    if (columns == kMostTileRows) {
      multiply_tile<kMostTileRows>(sums, state, turns);
    } else {
      multiply_tile<kFewestTileRows>(sums, state, turns);
    }
  }

 private:
  template <int kColumns>
  __device__ void multiply_tile(float (&sums)[kMostTileRows / 2], std::uint32_t state,
                                const Turns<kGroups>& turns) {
    const std::uint64_t rows = rows_at(state, kColumns);
    turns.wait();
    hold<kColumns / 2>(sums);
    begin_products();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      multiply_rows<T, kColumns>(sums, weights_[k], rows + k * 2 * kColumns);
    }
    end_products();
    turns.pass();
    wait_for_products<0>();
    hold<kColumns / 2>(sums);
  }

  std::uint32_t weights_[kSteps][4];
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
