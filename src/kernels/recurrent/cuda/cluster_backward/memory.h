#pragma once

#include "kernels/recurrent/cuda/cluster_backward/arguments.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// What of a chunk's inputs lies where, in bytes from its first one: [row] lines of 128 or 64
/// bytes, whose pieces of 16 are swapped as tensor copies do it.
struct ChunkInputs {
  static constexpr int kSavedBytes = kRows * 128;  ///< of 16 units
  static constexpr int kC = 2 * kSavedBytes, kDy = kC + kRows * 128;
  static constexpr int kBytes = kDy + kRows * 64;
};

/// Shared memory of a block, in bytes.
template <typename Shape>
struct BlockMemory {
  /// Gate gradients of a chunk, [gate][row][unit], and sums on their way, [block][slice] of
  /// kSliceBytes: [eight rows][two units][row], then the last two rows likewise.
  static constexpr int kGateBytes = kColumns * kChunkUnits * 2;
  static constexpr int kChunkBytes = 4 * kGateBytes;
  static constexpr int kEightBytes = 8 * kSliceUnits * 4;
  static constexpr int kSliceBytes = kRows * kSliceUnits * 4;
  static constexpr int kPartBytes = kChunkUnits / kSliceUnits * kSliceBytes;
  static constexpr int kGroupFactors = Shape::kFactors - Shape::kLoaded;

  static constexpr int kGates = 0;
  static constexpr int kFactorsAt = kGates + Shape::kChunks * kChunkBytes;
  static constexpr int kInputs = kFactorsAt + 2 * kGroupFactors * kFactorBytes;
  static constexpr int kParts = kInputs + Shape::kChunks * ChunkInputs::kBytes;
  static constexpr int kLengths = kParts + kPartSlots * Shape::kBlocks * kPartBytes;
  static constexpr int kBarriers = kLengths + (kRows + 2) / 2 * 2 * 4;
  static constexpr int kBarrierCount = 3 * Shape::kChunks + 2 * kPartSlots;
  static constexpr int kBytes = kBarriers + kBarrierCount * 8;
  static_assert(kBytes <= 232448);
};

/// Where sums of a chunk are on their way: chunks take turns.
struct PartSlot {
  int index;
  std::uint32_t parity;

  template <typename Shape>
  __device__ static PartSlot of(int turn, int chunk) {
    const int number = turn * Shape::kChunks + chunk;
    static_assert(kPartSlots == 2);
    return {number % 2, static_cast<std::uint32_t>(number / 2 % 2)};
  }
};

/// Addresses of a block's barriers, of a chunk or a slot.
template <typename Shape>
struct Barriers {
  std::uint32_t base;
  /// Gate gradients are written, and have been multiplied.
  __device__ std::uint32_t gates_full(int chunk) const { return base + chunk * 8; }
  __device__ std::uint32_t gates_empty(int chunk) const {
    return base + (Shape::kChunks + chunk) * 8;
  }
  __device__ std::uint32_t inputs_full(int chunk) const {
    return base + (2 * Shape::kChunks + chunk) * 8;
  }
  /// Sums have come from all blocks; those sent have been read.
  __device__ std::uint32_t parts_full(int slot) const {
    return base + (3 * Shape::kChunks + slot) * 8;
  }
  __device__ std::uint32_t parts_empty(int slot) const {
    return base + (3 * Shape::kChunks + kPartSlots + slot) * 8;
  }
};

/// Where tensor copies with swizzle put what would be at `address`: lines of 128 bytes, or of 64.
__device__ inline std::uint32_t in_lines_of_128(std::uint32_t address) {
  return address ^ (address >> 3 & 0x70);
}
__device__ inline std::uint32_t in_lines_of_64(std::uint32_t address) {
  return address ^ (address >> 3 & 0x30);
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
