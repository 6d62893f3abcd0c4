#pragma once

#include <cuda_runtime_api.h>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

/// The pointwise part of a step of cells with more than their equations: resets, peepholes,
/// zoneout, recurrent dropout (docs/equations.md). Kernels of their own, so that plain cells pay
/// nothing.
namespace sluice::kernels::recurrent::cuda {

/// Added to the variances of layer norm.
inline constexpr float kNormEpsilon = 1e-5f;

/// A probability as kernels need it.
struct Rate {
  Rate() = default;
  explicit Rate(double rate)
      : value(static_cast<float>(rate)),
        multiplier(static_cast<float>(1 / (1 - rate))),
        threshold(runtime::dropout_threshold(rate)) {}

  float value = 0;
  float multiplier = 1;         ///< 1 / (1 - value)
  std::uint32_t threshold = 0;  ///< random words below it are as many
};

/// What happens to the states of one layer and direction after one step, and before the first.
struct StateRules {
  const std::int32_t* lengths;  ///< null: every row has all steps
  std::int64_t t;               ///< of the step
  const std::int32_t* resets;   ///< [rows] at the boundary behind the step; null: no step follows
  std::int64_t boundary;        ///< its time
  bool training;                ///< else masks are their expectation
  runtime::DropoutSource source;
  const std::int32_t* row_ids;  ///< null: the row index
  std::int64_t direction;
  Rate zoneout_h, zoneout_c, recurrent_dropout;
};

/// Makes initial states what the first step starts from.
struct StartStates {
  std::int64_t rows, output, hidden;
  void* h;          ///< [rows, output], in and out
  float* c;         ///< [rows, hidden], in and out; null for the GRU
  void* h_dropped;  ///< out, likewise of h; null without recurrent dropout
};
void start_states(cudaStream_t stream, DType storage, const StateRules& rules,
                  const StartStates& args);

/// Beside CellForwardArgs. With a projection h is left to finish_projection.
struct CellForwardExtras {
  StateRules rules;
  const float* peepholes;  ///< [3, H]; null: none
  float* c_fresh;          ///< out [rows, H]: c as the step makes it; null: unwanted
  void* h_dropped;         ///< out [rows, H], for the next product; null: unwanted
};
void cell_forward_extras(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args,
                         const CellForwardExtras& extras);

/// Beside both: layer norm, of an LSTM's input and recurrent products and of its c on its way to h.
struct CellNormForward {
  const float* gain_ih;  ///< [4*H]
  const float* gain_hh;
  const float* gain_c;  ///< [H]
  const float* shift_c;
  float* products;  ///< the recurrent ones: scratch once they have been read
  /// Out, for backward: what is normalised, [rows, 4*H] and [rows, H] in storage, and what it was
  /// divided by, inverted, [rows, 3]; null in inference.
  void* norm_ih;
  void* norm_hh;
  void* norm_c;
  float* inverses;
};
void cell_forward_norm(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args,
                       const CellForwardExtras& extras, const CellNormForward& norm);
void finish_projection(cudaStream_t stream, DType storage, const FinishProjection& args,
                       const StateRules& rules, void* h_dropped);

/// Beside CellBackwardArgs. The gradient of h is that in `dh` and the masked one in `product`, but
/// with a projection split_gradient has seen to it.
struct CellBackwardExtras {
  StateRules rules;
  const float* peepholes;
  const float* c_fresh;  ///< as forward left it; null: the state itself
  const float* product;  ///< [rows, H] of the step that follows; null: none
};
void cell_backward_extras(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                          const CellBackwardExtras& extras);

/// Beside both: what cell_forward_norm has left, and more that it takes.
struct CellNormBackward {
  const float* gain_ih;
  const float* gain_hh;
  const float* gain_c;
  const float* shift_c;
  const void* norm_ih;
  const void* norm_hh;
  const void* norm_c;
  const float* inverses;
  void* d_sums;    ///< out [rows, 4*H]: of the gates' sums
  void* d_norm_c;  ///< out [rows, H]: of what tanh takes
};
void cell_backward_norm(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                        const CellBackwardExtras& extras, const CellNormBackward& norm);
void split_gradient(cudaStream_t stream, DType storage, const SplitGradient& args,
                    const StateRules& rules, const float* product);

/// The gradients of the initial states, from those of the first step's.
struct FinishGradients {
  std::int64_t rows, output, hidden;
  float* dh;             ///< [rows, output], in and out
  const float* product;  ///< [rows, output]; null: none
  float* dc;             ///< [rows, hidden], in and out; null for the GRU
};
void finish_gradients(cudaStream_t stream, const StateRules& rules, const FinishGradients& args);

}  // namespace sluice::kernels::recurrent::cuda
