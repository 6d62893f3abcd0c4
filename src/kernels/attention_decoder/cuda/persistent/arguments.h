#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_decoder/cuda/cell_kernels.h"

/// All forward steps of a decoder in one launch: two layers of LSTM with additive attention, 16-bit
/// storage, widths up to kWidth and up to kRows rows.
///
/// Clusters of two blocks have 16 units of each layer with their gates, 16 columns of the query and
/// 16 of the output; each block of a cluster multiplies its half of the depth, and evaluates the
/// cells of its half of the rows. A cluster attends for one row, each block with half of the
/// columns.
namespace sluice::kernels::attention_decoder::cuda::persistent {

inline constexpr int kThreads = 512, kCluster = 2;
inline constexpr int kRows = 64, kWidth = 1024, kLayers = 2;
inline constexpr int kClusters = 64, kBlocks = kClusters * kCluster;
inline constexpr int kUnits = kWidth / kClusters;  ///< of a cluster
inline constexpr int kMostSource = 64;             ///< source positions
static_assert(kRows == kClusters);

/// What blocks publish is in tiles of 64 of the depth: a line of 128 bytes a row, its pieces of 16
/// bytes where a swizzle of 128 bytes puts them.
inline constexpr int kTileDepth = 64, kTileBytes = kRows * kTileDepth * 2;
inline constexpr int kTiles = kWidth / kTileDepth, kOwnTiles = kTiles / kCluster;
/// The fed output, the input of the upper layer, both layers' h: two buffers of each, which take
/// turns.
inline constexpr int kExchanges = 4;
inline constexpr int kBufferBytes = kTiles * kTileBytes;
inline constexpr std::int64_t kExchangeBytes = std::int64_t{kExchanges} * 2 * kBufferBytes;
/// Of the fed output, of the layers and of the query, 16 counters each in lines of their own.
inline constexpr int kCounterKinds = 4, kCounterBytes = 128;
inline constexpr std::int64_t kCountersBytes = kCounterKinds * kTiles * kCounterBytes;
inline constexpr std::int64_t kPartsCount = std::int64_t{kCluster} * kRows * 2 * kWidth;

/// Elements between what belongs to successive steps, which come again after so many slots.
struct Slots {
  std::int64_t each = 0;
  std::int32_t count = 1;
  __device__ std::int64_t at(int t) const { return t % count * each; }
};

/// Widths are padded ones. Of what is not there `each` or the pointer is 0.
template <typename S>
struct Layer {
  const S* weights = nullptr;   ///< [4*H, x ; H]
  const float* bias = nullptr;  ///< [4*H]
  S* joint = nullptr;           ///< inputs of step 0: [B, x ; H]
  Slots joints;
  float* c = nullptr;  ///< before step 0: [B, H]
  Slots cells;
  S* saved = nullptr;  ///< [B, 4*H]
  std::int32_t x = 0;
};

template <typename S>
struct Arguments {
  std::int32_t time = 0, source_time = 0, rows = 0;
  std::int32_t units = 0, hidden = 0;  ///< H and padded
  std::int32_t memory = 0, key = 0;
  std::int32_t output = 0, padded_output = 0;  ///< A and padded
  const std::int32_t* target_lengths = nullptr;
  const std::int32_t* source_lengths = nullptr;
  Layer<S> layers[kLayers];
  const float* pre = nullptr;           ///< [T, B, 4*H]: products of emb
  const S* query_weight = nullptr;      ///< [K, H]
  const S* output_weight = nullptr;     ///< [A, M ; H]
  const float* output_bias = nullptr;   ///< [A]
  const float* score_vector = nullptr;  ///< [K]
  const S* keys = nullptr;              ///< [B, S, K]
  const S* values = nullptr;            ///< [B, S, M]
  const S* projected = nullptr;         ///< [B, S, A]: values times the output's weights of context
  S* combined = nullptr;                ///< [B, M ; H]
  Slots combineds;
  float* query = nullptr;  ///< [B, K]
  Slots queries;
  float* alpha = nullptr;  ///< [B, S]
  Slots alphas;
  S* a = nullptr;           ///< [T, B, A], not padded
  bool a_in_fours = false;  ///< whether a's rows can be written four at a time
  S* alpha_out = nullptr;   ///< [T, B, S]
  Dropout dropout;
  std::byte* exchange = nullptr;      ///< kExchangeBytes
  std::uint32_t* counters = nullptr;  ///< kCountersBytes
  /// Products of q by half of the depth, row, and query or output.
  float* parts = nullptr;  ///< [kCluster, kRows, 2, kWidth]
};

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
