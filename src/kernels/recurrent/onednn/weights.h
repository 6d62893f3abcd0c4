#pragma once

#include "kernels/recurrent/onednn/group.h"

/// Canonical weights to a group's own layouts, and its gradients back.
namespace sluice::kernels::recurrent::onednn {

struct Transfer {
  const Descriptor& descriptor;
  const dnnl::engine& engine;
  const dnnl::stream& stream;
  const LayerGroup& group;
  float* staged;  ///< room for the larger of the group's matrices, canonical
};

/// `packed` is the start of the plan's packed memory.
void pack_group(const Transfer& transfer, const std::vector<LayerWeights>& weights, void* packed);

/// Stores those gradients that are not absent, or adds them (BackwardArgs::accumulate).
void store_gradients(const Transfer& transfer, dnnl::memory weight_ih, dnnl::memory weight_hh,
                     const float* bias, const BackwardArgs& args);

}  // namespace sluice::kernels::recurrent::onednn
