#pragma once

#include <cstddef>
#include <cstdint>

/// A whole stack of projected LSTM layers in one launch, for inference. Each layer has a group of
/// blocks to itself, each of which has the gates of 48 units and 16 features of the projection; the
/// groups follow each other through time. What a step hands on goes through global memory, in the
/// order in which the tensor cores take it, and is announced by counters.
namespace sluice::kernels::recurrent::cuda::projected {

inline constexpr int kMostLayers = 8;
/// A warp evaluates the cells of eight units; two warps share the depth of their products.
inline constexpr int kUnitWarps = 6, kDepthParts = 2, kUnits = 8 * kUnitWarps;
inline constexpr int kWorkers = 32 * kUnitWarps * kDepthParts;
/// Beside those a warp that copies what steps hand on and one that copies weights. Registers are
/// given to whole groups of four warps.
inline constexpr int kThreads = kWorkers + 128;
inline constexpr int kWorkerRegisters = 160, kCopyRegisters = 32;
/// Blocks that share what they read of their layer.
inline constexpr int kCluster = 2;

/// Rows of a tile are `octets` of eight, at most kMostOctets.
inline constexpr int kMostOctets = 8;
/// A matrix of values is in pieces of 16 features and eight rows, 256 bytes each: lane 4n + q of a
/// warp takes features 2q, 2q + 1, 2q + 8, 2q + 9 of row n. [depth / 16][octets][256 bytes].
inline constexpr int kPieceBytes = 256;
/// Depth pieces that are copied together: 8 KB of them.
constexpr int chunk_pieces(int octets) { return 32 / octets; }
inline constexpr int kChunkBytes = 32 * kPieceBytes;
/// Weights of the gates of a block for a depth of 32: [2][kUnitWarps][2][32 lanes][16 bytes].
inline constexpr int kGatesBytes = kDepthParts * kUnitWarps * 2 * 512;
/// Stages of the ring of weights that find no place on chip.
inline constexpr int kWeightRing = 4;
inline constexpr int kCounterBytes = 128;

struct Layer {
  const std::byte* gates;                   ///< [blocks][depth / 32][kGatesBytes]
  const std::byte* projection;              ///< [state pieces][unit pieces][512 bytes]
  const float* bias;                        ///< [blocks][kUnits][4]
  const std::byte* input;                   ///< [time][tiles] of values
  std::byte* state;                         ///< the same [time + 1][tiles]: h before each step
  std::byte* units;                         ///< [tiles] of values: h before the projection
  float* cells;                             ///< [blocks][tiles][octets][kUnitWarps][32][2]
  std::uint32_t *units_done, *state_done;   ///< [tiles][kCounterBytes]: announcements by blocks
  const std::uint32_t* input_done;          ///< of the layer below; null for the first
  std::int32_t input_pieces, state_pieces;  ///< even numbers
  std::int32_t output;                      ///< P
  std::int32_t resident,
      streamed;            ///< of the gates' weights, in depths of 32 behind those in registers
  const float* c0;         ///< [rows, H]
  const void* h0;          ///< [rows, P]
  void *y, *hn;            ///< y of the last layer: [time, rows, P]; [rows, P]
  float *cn, *c_sequence;  ///< [rows, H], [time, rows, H]

  constexpr int depths() const { return (input_pieces + state_pieces) / 2; }
};

struct Stack {
  Layer layers[kMostLayers];
  std::int32_t blocks;  ///< of a layer
  std::int32_t time, rows, hidden, tiles;
  std::int32_t ring;            ///< stages of values
  std::int32_t resident;        ///< most of any layer
  const std::int32_t* lengths;  ///< [rows] or null

  constexpr int unit_pieces() const { return blocks * (kUnits / 16); }
};

}  // namespace sluice::kernels::recurrent::cuda::projected
