#pragma once

#include "kernels/recurrent/cuda/cluster_backward/arguments.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// What of a chunk's inputs, of so many bytes, lies where, in bytes from its first one: [row] lines
/// of 128 or 64 bytes, whose pieces of 16 are swapped as tensor copies do it.
template <int kElement>
struct ChunkInputs {
  static constexpr int kSavedUnits = 128 / (4 * kElement);  ///< whose gates a line has
  static constexpr int kSavedBytes = kRows * 128, kSavedBoxes = kChunkUnits / kSavedUnits;
  static constexpr int kDyLine = kChunkUnits * kElement;
  static constexpr int kC = kSavedBoxes * kSavedBytes, kDy = kC + kRows * 128;
  static constexpr int kBytes = kDy + kRows * kDyLine;
};

/// Shared memory of a block, in bytes; of float32 inputs for TF32.
template <typename Shape, int kElement>
struct BlockMemory {
  static constexpr bool kScaled = kElement == 4;
  using Inputs = ChunkInputs<kElement>;
  /// Chunks whose inputs are there or on their way.
  static constexpr int kInputSlots = kScaled ? 2 : Shape::kChunks;
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
  static constexpr int kParts = kInputs + kInputSlots * Inputs::kBytes;
  static constexpr int kLengths = kParts + kPartSlots * Shape::kBlocks * kPartBytes;
  /// Of TF32: bounds [turn's parity][block][row] that blocks tell each other, and what the block's
  /// cells make of theirs, [turn's parity][row].
  static constexpr int kBoundBytes = kRows * 4, kTurnBoundBytes = Shape::kBlocks * kBoundBytes;
  static constexpr int kBounds = kLengths + (kRows + 2) / 2 * 2 * 4;
  static constexpr int kReaches = kBounds + (kScaled ? 2 * kTurnBoundBytes : 0);
  static constexpr int kBarriers = kReaches + (kScaled ? 2 * kBoundBytes : 0);
  static constexpr int kBarrierCount = 3 * Shape::kChunks + 2 * kPartSlots + 2;
  static constexpr int kBytes = kBarriers + kBarrierCount * 8;
  static_assert(kBytes <= 232448);
};

/// Where sums or inputs of a chunk are on their way: chunks take turns.
struct Slot {
  int index;
  std::uint32_t parity;

  template <typename Shape, int kSlots>
  __device__ static Slot of(int turn, int chunk) {
    if constexpr (kSlots == Shape::kChunks) {
      return {chunk, static_cast<std::uint32_t>(turn % 2)};
    } else {
      const int number = turn * Shape::kChunks + chunk;
      return {number % kSlots, static_cast<std::uint32_t>(number / kSlots % 2)};
    }
  }
};
template <typename Shape>
__device__ Slot part_slot(int turn, int chunk) {
  return Slot::of<Shape, kPartSlots>(turn, chunk);
}

/// Addresses of a block's barriers, of a chunk, a slot or a turn.
template <typename Shape>
struct Barriers {
  std::uint32_t base;
  /// Gate gradients are written, and have been multiplied.
  __device__ std::uint32_t gates_full(int chunk) const { return base + chunk * 8; }
  __device__ std::uint32_t gates_empty(int chunk) const {
    return base + (Shape::kChunks + chunk) * 8;
  }
  __device__ std::uint32_t inputs_full(int slot) const {
    return base + (2 * Shape::kChunks + slot) * 8;
  }
  /// Sums have come from all blocks; those sent have been read.
  __device__ std::uint32_t parts_full(int slot) const {
    return base + (3 * Shape::kChunks + slot) * 8;
  }
  __device__ std::uint32_t parts_empty(int slot) const {
    return base + (3 * Shape::kChunks + kPartSlots + slot) * 8;
  }
  /// Bounds of a turn have come from all blocks.
  __device__ std::uint32_t bounds_full(int turn) const {
    return base + (3 * Shape::kChunks + 2 * kPartSlots + turn % 2) * 8;
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
