#pragma once

#include "kernels/recurrent/cuda/wide/block.h"

/// Gate gradients of TF32 are multiplied as scaled float16, each row by the largest of all its
/// units in the step. Blocks exchange the exponents of theirs through L2, in words that are their
/// own flags: the step in one byte, the exponent in the other.
///
/// Two buffers alternate. That is safe: a block that publishes a step's exponents has received all
/// values of the step before, and every block published those after it had read that step's words.
namespace sluice::kernels::recurrent::cuda::wide {

/// The row of a tile whose values have that place (CellPlace::tile_place()), among which those of a
/// warp's threads lie together.
__device__ inline int row_at(int place) { return place / 8 * 8 + place % 4 * 2 + place % 8 / 4; }

class RowExponents {
 public:
  __device__ RowExponents(const Geometry& geometry, int directions, const Part& part)
      : geometry_(geometry), part_(part), directions_(directions) {}

  /// The largest of the block's units for a row of a tile; by one thread.
  __device__ void tell(int number, int tile, int place, float largest) const {
    const std::uint32_t exponent = __float_as_uint(largest) >> kExponentShift & 0xff;
    std::uint16_t* to = words(number, tile) + part_.block() * kTileRows + place;
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(to),
                 "h"(static_cast<std::uint16_t>(tag(number) << 8 | exponent))
                 : "memory");
  }

  /// Waits for the words of all blocks for the rows that a tile has, and returns a number with the
  /// exponent of the largest for the row whose place is the lane. Called by a warp.
  __device__ float largest(int number, int tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto* from = reinterpret_cast<const uint4*>(words(number, tile)) + lane;
    const std::uint32_t tags = tag(number) * 0x01000100;
    const bool there = lane % kRowGroups * 8 < geometry_.lines;
    uint4 most{0, 0, 0, 0};
    // A lane has eight rows of every eighth block.
    for (int left = geometry_.chunks * kBlocksOfChunk - lane / kRowGroups;
         __any_sync(~0u, left > 0); left -= kAtOnce * kBlocksAtOnce) {
      uint4 words[kAtOnce];
      bool waits;
      do {
        waits = false;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          words[i] = make_uint4(tags, tags, tags, tags);
          if (there && left > i * kBlocksAtOnce) words[i] = look(from + i * 32);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const uint4& word = words[i];
          const std::uint32_t others =
              (word.x ^ tags) | (word.y ^ tags) | (word.z ^ tags) | (word.w ^ tags);
          waits = waits || (others & kTags) != 0;
        }
      } while (__any_sync(~0u, waits));
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) add(most, words[i]);
      from += kAtOnce * 32;
    }
#pragma unroll
    for (int distance = kRowGroups; distance < 32; distance *= 2) {
      add(most,
          make_uint4(__shfl_xor_sync(~0u, most.x, distance), __shfl_xor_sync(~0u, most.y, distance),
                     __shfl_xor_sync(~0u, most.z, distance),
                     __shfl_xor_sync(~0u, most.w, distance)));
    }
    const std::uint32_t pairs[]{
        __shfl_sync(~0u, most.x, lane / 8), __shfl_sync(~0u, most.y, lane / 8),
        __shfl_sync(~0u, most.z, lane / 8), __shfl_sync(~0u, most.w, lane / 8)};
    const std::uint32_t low = lane & 2 ? pairs[1] : pairs[0], high = lane & 2 ? pairs[3] : pairs[2];
    const std::uint32_t pair = lane & 4 ? high : low;
    return __uint_as_float((lane & 1 ? pair >> 16 : pair & 0xff) << kExponentShift);
  }

 private:
  static constexpr int kExponentShift = 23;
  static constexpr int kRowGroups = kTileRows / 8;  ///< of a block, a lane each
  static constexpr int kBlocksAtOnce = 32 / kRowGroups, kAtOnce = 4;
  static constexpr std::uint32_t kTags = 0xff00ff00;

  /// Never that of the step two before, nor zero in the first ones.
  __device__ static std::uint32_t tag(int number) {
    return static_cast<std::uint32_t>(number + 1) & 0xff;
  }
  __device__ static void add(uint4& most, const uint4& word) {
    most.x = __vmaxu2(most.x, word.x & ~kTags);
    most.y = __vmaxu2(most.y, word.y & ~kTags);
    most.z = __vmaxu2(most.z, word.z & ~kTags);
    most.w = __vmaxu2(most.w, word.w & ~kTags);
  }
  __device__ std::uint16_t* words(int number, int tile) const {
    const int index =
        (number % 2 * directions_ + part_.direction) * geometry_.tiles + part_.first_tile + tile;
    return geometry_.exponents + index * (geometry_.chunks * kBlocksOfChunk * kTileRows);
  }
  __device__ static uint4 look(const uint4* from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
  }

  const Geometry& geometry_;
  const Part& part_;
  const int directions_;
};

}  // namespace sluice::kernels::recurrent::cuda::wide
