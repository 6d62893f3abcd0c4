#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

/// All directions of one layer over the whole sequence, or a piece of it, in one launch. Arrays of
/// two have one entry per direction; void pointers are in storage; absent arrays are null.
namespace sluice::kernels::recurrent::cuda::persistent {

/// Units that a block owns, or in forward twice as many, and its threads.
inline constexpr int kUnits = 32, kThreads = 256;

/// The blocks of a cluster, and the units each has.
struct Cluster {
  std::int32_t blocks, units;
  bool operator==(const Cluster&) const = default;
};

struct Extent {
  std::int32_t time, rows, hidden, directions;
  /// The piece of time, [begin, end). With two directions it is the whole sequence. Values at times
  /// outside of it are not touched.
  std::int32_t begin, end;
  const std::int32_t* lengths;  ///< [rows]; null: every row has `time` steps
};

struct LayerForward {
  Extent extent;
  const void* weights[2];   ///< as pack_forward leaves them
  const float* largest[2];  ///< of them, as find_largest does; float32 alone
  const float* bias_hn[2];  ///< [H], GRU
  const float* input;       ///< products [end - begin, rows, D*G*H]
  const float* bias;        ///< [D*G*H]
  const void* h0;           ///< before the piece, [D, rows, H]; null: zero
  const float* c0;          ///< likewise
  void* y;                  ///< out [time, rows, D*H]
  void* hn;                 ///< out, after the piece, [D, rows, H]; may be null, or h0
  float* cn;                ///< likewise
  float* c_sequence;        ///< out [D, time, rows, H]; may be null
  void* h_states[2];        ///< out [time + 1, rows, H], state_row's order; null in inference
  float* c_states[2];       ///< likewise, LSTM
  void* saved[2];           ///< out [time, rows, H, 4]; null in inference
};

struct LayerBackward {
  Extent extent;
  const void* weights[2];   ///< as pack_backward leaves them
  const float* largest[2];  ///< of them, as find_largest does; float32 alone
  const void* h_states[2];  ///< as forward left them
  const float* c_states[2];
  const void* saved[2];
  const void* dy;    ///< [time, rows, D*H]; null: zero
  const void* dhn;   ///< of what comes after the piece, [D, rows, H]; null: zero
  const float* dcn;  ///< likewise
  void* dh0;         ///< out [D, rows, H]; may be null
  float* dc0;        ///< likewise, or dcn
  /// dhn and dh0 between pieces; null at the ends. They may be one.
  const float* dh_after;
  float* dh_before;
  void* d_input;         ///< out [time, rows, D*G*H]
  void* d_recurrent[2];  ///< out [time, rows, G*H], GRU
};

/// How rows are spread: `clusters` per direction, each with up to `rows` of them.
struct Spread {
  std::int32_t clusters, rows;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
