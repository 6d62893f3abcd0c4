#pragma once

#include "kernels/attention_decoder/cuda/persistent/arguments.h"

/// All backward steps of a decoder in one launch, under the conditions of forward's.
///
/// Gradients of gates are the depth of a layer's products, whose columns are the gradients of its
/// input and of its state. So a layer's weights are shared out to blocks by eight slices of the
/// depth, of 128 units with their gates, and 16 groups of 64 columns. Whoever wants the sums of a
/// column adds up eight parts.
///
/// A cluster evaluates the cells of 16 units of both layers, each block those of half of the rows,
/// and has a row of attention, each block half of the columns, as in forward.
namespace sluice::kernels::attention_decoder::cuda::persistent {

inline constexpr int kSlices = 8, kSliceTiles = kClusters / kSlices;
inline constexpr int kGroupColumns = 64;
static_assert(kSlices * kWidth / kGroupColumns == kBlocks);

/// Gradients that blocks publish: of the output before its tanh and of the query, of both layers'
/// gates. A tile of gates is a cluster's; of the others a slice has two tiles of either.
enum class Published { kAsked, kUpperGates, kLowerGates };
inline constexpr int kAskedTiles = 4, kGateTiles = kSliceTiles;
inline constexpr int kPublishedKinds = 3, kStepTiles = kAskedTiles + 2 * kGateTiles;
/// A buffer of the largest of them, two of each kind.
inline constexpr int kPublishedBytes = kClusters * kTileBytes;
inline constexpr std::int64_t kPublishedBytesAll =
    std::int64_t{kPublishedKinds} * 2 * kPublishedBytes;
inline constexpr std::int64_t kPublishedCountersBytes = kPublishedKinds * kClusters * kCounterBytes;

/// Sums that have a part from each slice: gradients of the output that was fed in, of what
/// attention is asked with (the upper layer's output), of the upper layer's input, of both layers'
/// states.
enum class Summed { kFed, kTop, kInput, kUpperState, kLowerState };
inline constexpr int kSummedKinds = 5;
/// float32 of the parts of one kind, of which there are two sets that take turns.
inline constexpr std::int64_t kPartsEach = std::int64_t{kSlices} * kRows * kWidth;
inline constexpr std::int64_t kPartsAll = kSummedKinds * 2 * kPartsEach;

template <typename S>
struct LayerBackward {
  const S* weights = nullptr;  ///< [4*H, x ; H]
  const float* c = nullptr;    ///< [T + 1, B, H]: before each step
  const S* saved = nullptr;    ///< [T, B, 4*H]
  S* d_gates = nullptr;        ///< out [T, B, 4*H]
  float* d_hidden = nullptr;   ///< [B, H]: of the last state; out: of the first past the products
  float* d_cell = nullptr;     ///< likewise
  float* d_joint = nullptr;    ///< out [B, x ; H]: of step 0's inputs; of the upper layer's h alone
  std::int32_t x = 0;
};

/// Widths are padded ones.
template <typename S>
struct BackwardArguments {
  std::int32_t time = 0, source_time = 0, rows = 0;
  std::int32_t units = 0, hidden = 0;  ///< H and padded
  std::int32_t memory = 0, key = 0;
  std::int32_t output = 0, padded_output = 0;  ///< A and padded
  const std::int32_t* target_lengths = nullptr;
  const std::int32_t* source_lengths = nullptr;
  LayerBackward<S> layers[kLayers];
  const S* query_weight = nullptr;      ///< [K, H]
  const S* output_weight = nullptr;     ///< [A, M ; H]
  const float* score_vector = nullptr;  ///< [K]
  const S* keys = nullptr;              ///< [B, S, K]
  const S* projected = nullptr;         ///< [B, S, A]: values times the output's weights of context
  const float* query = nullptr;         ///< [T, B, K]
  const float* alpha = nullptr;         ///< [T, B, S]
  const S* a = nullptr;                 ///< [T, B, A], not padded
  const S* da = nullptr;                ///< likewise
  bool a_in_fours = false;              ///< whether rows of both can be read four at a time
  S* d_output = nullptr;                ///< out [T, B, A]
  S* d_query = nullptr;                 ///< out [T, B, K]
  float* d_scores = nullptr;            ///< out [T, B, S]
  Dropout dropout;
  float limit = INFINITY;             ///< of the magnitude of what is published
  std::byte* exchange = nullptr;      ///< kPublishedBytesAll
  std::uint32_t* counters = nullptr;  ///< kPublishedCountersBytes, zero
  float* parts = nullptr;             ///< [kSummedKinds, 2, kSlices, kRows, kWidth]
};

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
