#pragma once

#include "kernels/recurrent/cuda/wide/block.h"

/// Gate gradients of TF32 are multiplied as scaled float16, each row by the largest of all its
/// units in the step. Blocks tell each other the exponents of theirs through the second cache, in
/// words that are their own flags: the step in one byte, the exponent in the other.
///
/// Whoever hands on a step has received all that blocks handed on in the step before, which they
/// did when they had read the words of that one: so two buffers take turns.
namespace sluice::kernels::recurrent::cuda::wide {

class RowExponents {
 public:
  __device__ RowExponents(const Geometry& geometry, int directions, const Part& part)
      : geometry_(geometry), part_(part), directions_(directions) {}

  /// The largest of the block's units for a row of a tile; once for all lanes of the row.
  __device__ void tell(int number, int tile, int row, float largest) const {
    const std::uint32_t exponent = __float_as_uint(largest) >> kExponentShift & 0xff;
    std::uint16_t* to = words(number, tile, row) + part_.block();
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(to),
                 "h"(static_cast<std::uint16_t>(tag(number) << 8 | exponent))
                 : "memory");
  }

  /// Waits for all blocks' words for a row, and returns a number with the exponent of the largest.
  /// Called by whole warps; lanes that differ by multiples of four have the same row.
  __device__ float largest(int number, int tile, int row) const {
    const int first = static_cast<int>(threadIdx.x) % 32 / 4;
    const auto* from = reinterpret_cast<const uint2*>(words(number, tile, row));
    const std::uint32_t tags = tag(number) * 0x01000100;
    std::uint32_t most;
    bool there;
    do {
      most = 0;
      there = true;
#pragma unroll
      for (int i = 0; i < kMostChunks / kLanes; ++i) {
        const int chunk = first + i * kLanes;
        if (chunk >= geometry_.chunks) continue;
        const uint2 word = look(from + chunk);
        there = there && ((word.x ^ tags) & kTags) == 0 && ((word.y ^ tags) & kTags) == 0;
        most = __vmaxu2(most, __vmaxu2(word.x & ~kTags, word.y & ~kTags));
      }
    } while (!__all_sync(~0u, there));
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) {
      most = __vmaxu2(most, __shfl_xor_sync(~0u, most, distance));
    }
    return __uint_as_float(max(most & 0xff, most >> 16) << kExponentShift);
  }

 private:
  static constexpr int kExponentShift = 23;
  static constexpr int kLanes = 8;  ///< that share a row
  static constexpr int kMostChunks = kMostStages * kStageChunks;
  static constexpr std::uint32_t kTags = 0xff00ff00;

  /// Never that of the step two before, nor zero in the first ones.
  __device__ static std::uint32_t tag(int number) {
    return static_cast<std::uint32_t>(number + 1) & 0xff;
  }
  __device__ std::uint16_t* words(int number, int tile, int row) const {
    const int index =
        (number % 2 * directions_ + part_.direction) * geometry_.tiles + part_.first_tile + tile;
    return geometry_.exponents + (static_cast<std::int64_t>(index) * kTileRows + row) *
                                     (geometry_.chunks * kBlocksOfChunk);
  }
  __device__ static uint2 look(const uint2* from) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(from)
                 : "memory");
    return v;
  }

  const Geometry& geometry_;
  const Part& part_;
  const int directions_;
};

}  // namespace sluice::kernels::recurrent::cuda::wide
