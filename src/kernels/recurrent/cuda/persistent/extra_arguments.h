#pragma once

#include "kernels/recurrent/cuda/cell_extras.h"
#include "kernels/recurrent/cuda/persistent/arguments.h"

/// What launches take where cells have more than their equations: resets, peepholes, zoneout,
/// recurrent dropout (docs/equations.md). Kernels of their own, so that plain cells pay nothing.
namespace sluice::kernels::recurrent::cuda::persistent {

/// What happens to states between the steps of a layer.
struct LayerRules {
  const std::int32_t* resets;  ///< [time, rows]; null: none
  bool training;               ///< else zoneout is its expectation
  runtime::DropoutSource source;
  const std::int32_t* row_ids;  ///< null: the row index
  Rate zoneout_h, zoneout_c, recurrent_dropout;
};

struct LayerForwardWithExtras : LayerForward {
  LayerRules rules;
  const float* peepholes[2];  ///< [3, H]; null: none
  float* c_fresh[2];          ///< out [time, rows, H]: c as steps make it; null: unwanted
  void* h_dropped[2];  ///< out, as h_states: what products read of them; null without dropout
};

struct LayerBackwardWithExtras : LayerBackward {
  LayerRules rules;
  const float* peepholes[2];
  const float* c_fresh[2];  ///< as forward left it; null: the states themselves
};

/// Layer norm beside resets, zoneout and recurrent dropout. The input's products come normalised,
/// times their gains (norm_kernels.h). What forward leaves of rows past their length is zero.
struct LayerForwardWithNorm : LayerForwardWithExtras {
  const float* gain_hh[2];  ///< [4*H]
  const float* gain_c[2];   ///< [H]
  const float* shift_c[2];
  void* norm_hh[2];    ///< out [time, rows, H, 4]: products, normalised; null in inference
  void* norm_c[2];     ///< out [time, rows, H]: c as steps make it, likewise
  float* inverses[2];  ///< out [time, rows, 3]: of the input's, of these two, 1 / their deviation
};

struct LayerBackwardWithNorm : LayerBackwardWithExtras {
  const float* gain_hh[2];
  const float* gain_c[2];
  const float* shift_c[2];
  const void* norm_hh[2];  ///< as forward left them
  const void* norm_c[2];
  const float* inverses[2];
  /// Out: the gradients of the gates' sums, [time, rows, H, 4], and of what tanh takes, [time,
  /// rows, H]. The input's gradients are left to be made of them; d_recurrent is written.
  void* d_sums[2];
  void* d_norm_c[2];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
