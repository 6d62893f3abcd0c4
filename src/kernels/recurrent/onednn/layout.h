#pragma once

#include "kernels/recurrent/onednn/group.h"

/// What a plan of oneDNN's layers has, and where everything lies in its memories.
namespace sluice::kernels::recurrent::onednn {

/// Offsets in the plan's workspace.
struct Scratch {
  std::size_t scratchpad = 0, zeros = 0, weights = 0, gradient = 0, bias = 0;
  std::size_t y[2] = {}, d_layer[2] = {};
  std::size_t dhn = 0, dh0 = 0, dc0 = 0;
};

/// All that runs need; shared with queued work.
struct LayerStack {
  explicit LayerStack(const Descriptor& d);

  Descriptor descriptor;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<LayerGroup> groups;
  Scratch scratch;
  std::size_t packed_bytes = 0, workspace_bytes = 0, reserve_bytes = 0;

  std::int64_t states(std::int64_t layers) const {
    return layers * descriptor.directions * descriptor.rows * descriptor.hidden;
  }
  bool is_lstm() const { return descriptor.cell == CellType::kLstm; }
};

}  // namespace sluice::kernels::recurrent::onednn
