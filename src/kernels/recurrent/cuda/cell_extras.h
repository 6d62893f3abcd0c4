#pragma once

#include <cuda_runtime_api.h>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

/// The pointwise part of a step of cells with more than their equations: resets, peepholes,
/// zoneout, recurrent dropout (docs/equations.md). Kernels of their own, so that plain cells pay
/// nothing.
namespace sluice::kernels::recurrent::cuda {

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
