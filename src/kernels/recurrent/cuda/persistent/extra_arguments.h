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

}  // namespace sluice::kernels::recurrent::cuda::persistent
