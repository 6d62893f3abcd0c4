#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/recurrent/cuda/persistent_grid/geometry.h"
#include "kernels/recurrent/cuda/storage.h"

/// How the blocks of a group tell each other values: through the second-level cache, in words of
/// one float32 or two of 16 bits that are their own flags. A word that has not come is kAbsent,
/// which no values make: what is rounded to storage becomes 0x7FFF where it is no number, and a
/// float32 that is kAbsent is sent as another NaN.
///
/// Whoever has received all of turn t knows that everybody has read turn t - 1, and clears its own
/// words of that. A fence of the writer, then one of the reader behind something that was sent
/// later, order the clearing before the reader looks there again: both have one every kFenceSteps
/// turns, so a buffer comes again after twice as many and one.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

inline constexpr std::uint32_t kAbsent = 0xFFFFFFFF;

/// The buffers of a group, of values T.
template <typename T>
class Exchange {
 public:
  using Layout = BufferLayout<sizeof(T)>;

  __device__ Exchange(const Grid& grid, const Share& share, int group, int octets)
      : layout_{share.rows, octets},
        bytes_(layout_.bytes()),
        base_(grid.buffers + static_cast<std::int64_t>(group) * kBuffers * bytes_) {}

  __device__ const Layout& layout() const { return layout_; }
  __device__ std::byte* buffer(int turn) const { return base_ + turn % kBuffers * bytes_; }

  /// At the end of a turn in which words were cleared.
  __device__ static void order(int turn) {
    if (turn % kFenceSteps == 0) __threadfence();
  }

 private:
  const Layout layout_;
  const int bytes_;
  std::byte* const base_;
};

__device__ inline uint4 look(const std::byte* from) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ inline bool lacks(const uint4& v) {
  return max(max(v.x, v.y), max(v.z, v.w)) == kAbsent;
}
__device__ inline void tell(std::byte* to, std::uint32_t word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}

template <typename T>
__device__ std::uint32_t bits_of(T value) {
  std::uint16_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
__device__ inline std::uint32_t word_of(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return bits == kAbsent ? kAbsent >> 1 : bits;
}
/// What the owner of the other unit of a pair has.
__device__ inline std::uint32_t neighbours(std::uint32_t bits) {
  return __shfl_xor_sync(0xFFFFFFFF, bits, 4);
}

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
