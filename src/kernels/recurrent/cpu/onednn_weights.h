#pragma once

#include "kernels/recurrent/cpu/onednn_group.h"

/// Canonical weights to a group's own layouts, and its gradients back.
namespace sluice::kernels::recurrent::cpu {

struct OnednnTransfer {
  const Descriptor& descriptor;
  const dnnl::engine& engine;
  const dnnl::stream& stream;
  const OnednnGroup& group;
  float* staged;  ///< room for the larger of the group's matrices, canonical
};

/// `packed` is the start of the plan's packed memory.
void onednn_pack(const OnednnTransfer& transfer, const std::vector<LayerWeights>& weights,
                 void* packed);

/// Stores those gradients that are not absent, or adds them (BackwardArgs::accumulate).
void onednn_store_gradients(const OnednnTransfer& transfer, dnnl::memory weight_ih,
                            dnnl::memory weight_hh, const float* bias, const BackwardArgs& args);

}  // namespace sluice::kernels::recurrent::cpu
