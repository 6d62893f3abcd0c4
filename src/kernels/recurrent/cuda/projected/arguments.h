#pragma once

#include <cstddef>
#include <cstdint>

/// A whole stack of projected LSTM layers in one launch, for inference. Each layer has its own
/// group of blocks. A block has the gates of 48 units and 16 features of the projection. The groups
/// follow each other through time. Blocks exchange values through global memory, in the order in
/// which the tensor cores read them, and publish them by counters.
namespace sluice::kernels::recurrent::cuda::projected {

inline constexpr int kMostLayers = 8;
/// A warpgroup multiplies the gates of 16 units, a warp those of four.
inline constexpr int kGroups = 3, kWarps = 4 * kGroups, kUnits = 16 * kGroups;
inline constexpr int kWorkers = 32 * kWarps;
/// Further warps: one copies values, one copies weights, one publishes. Registers are given to
/// whole groups of four warps.
inline constexpr int kThreads = kWorkers + 128;
inline constexpr int kWorkerRegisters = 160, kCopyRegisters = 32;
/// Blocks of a cluster, which share the copies of their layer's values. Each owns 16 features of
/// the projection, and multiplies half of the depth for the features of both.
inline constexpr int kCluster = 2, kFeatures = 16, kClusterFeatures = kCluster * kFeatures;

/// Rows of a tile are `octets` of eight, at most kMostOctets.
inline constexpr int kMostOctets = 8;
/// Factors are in matrices of eight rows of eight values, as wgmma reads them.
inline constexpr int kMatrixBytes = 128;
/// A piece of values has 16 features of eight rows: [depth / 16][2][octets][8 rows][8 features].
inline constexpr int kPieceBytes = 2 * kMatrixBytes;
/// Pieces of a depth that are copied together: 8 KB of them.
constexpr int chunk_pieces(int octets) { return 32 / octets; }
inline constexpr int kChunkBytes = 32 * kPieceBytes;
/// Weights of a warpgroup's gates for a depth of 16: [2][8][8 rows][8]. Each warp's 16 rows are of
/// four units: rows 2u and 2u + 8 are gates i and f of unit u, those behind them g and o.
inline constexpr int kGroupGatesBytes = 2 * 8 * kMatrixBytes;
/// Weights of the gates of a block for a depth of 32: [2][kGroups] of those.
inline constexpr int kGatesBytes = 2 * kGroups * kGroupGatesBytes;
/// Weights of a cluster's features for a depth of 16: [2][4][8 features][8].
inline constexpr int kProjectionBytes = 2 * (kClusterFeatures / 8) * kMatrixBytes;
/// Depths of 32 that are multiplied at a time, and whose weights are copied together: with most
/// rows a chunk, for what is done once a group takes as long as a depth's products.
constexpr int group_depths(int octets) { return octets == kMostOctets ? 2 : 1; }
constexpr int group_bytes(int octets) { return group_depths(octets) * kGatesBytes; }
inline constexpr int kCounterBytes = 128;

struct Layer {
  const std::byte* gates;                   ///< [blocks][depth / 32][kGatesBytes]
  const std::byte* projection;              ///< [state pieces][unit pieces / 2][kProjectionBytes]
  const float* bias;                        ///< [blocks][kUnits][4]
  const std::byte* input;                   ///< [time][tiles] of values
  std::byte* state;                         ///< the same [time + 1][tiles]: h before each step
  std::byte* units;                         ///< [tiles] of values: h before the projection
  float* cells;                             ///< [blocks][tiles][octets][kWorkers]
  std::uint32_t *units_done, *state_done;   ///< [tiles][kCounterBytes]: counts of blocks
  const std::uint32_t* input_done;          ///< of the layer below; null for the first
  std::int32_t input_pieces, state_pieces;  ///< multiples of four: whole groups of depths
  std::int32_t output;                      ///< P
  /// Of the gates' weights, in groups of depths: those in registers, in shared memory, and those
  /// that are read anew in each task. Of those as many as the ring has stages come before all
  /// others, so that the next ones travel while others are multiplied.
  std::int32_t kept, resident, streamed, ring;
  /// Depths of the input, if the layer waits for the one below so long that its tasks begin with
  /// the state; else 0.
  std::int32_t put_off;
  bool late;               ///< its weights come when the first layer has its own
  bool one_by_one;         ///< a tile goes all the way through a step before the next one begins
  const float* c0;         ///< [rows, H]
  const void* h0;          ///< [rows, P]
  void *y, *hn;            ///< y of the last layer: [time, rows, P]; [rows, P]
  float *cn, *c_sequence;  ///< [rows, H], [time, rows, H]

  constexpr int first() const { return streamed < ring ? streamed : ring; }
  constexpr int depths() const { return (input_pieces + state_pieces) / 2; }
  constexpr bool waits() const { return put_off > 0; }
  /// Where the weights of the i-th depth that a task multiplies are.
  constexpr int depth_at(int i) const {
    return i + put_off < depths() ? i + put_off : i + put_off - depths();
  }
};

struct Stack {
  Layer layers[kMostLayers];
  std::int32_t blocks;  ///< of a layer
  std::int32_t time, rows, hidden, tiles;
  std::int32_t ring;            ///< stages of values
  std::int32_t weight_ring;     ///< stages of weights that find no place on chip
  std::int32_t resident;        ///< most groups of any layer
  const std::int32_t* lengths;  ///< [rows] or null

  constexpr int unit_pieces() const { return blocks * (kUnits / 16); }
  /// Those that a block projects.
  constexpr int own_pieces() const { return unit_pieces() / kCluster; }
};

}  // namespace sluice::kernels::recurrent::cuda::projected
