#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <vector>

#include "kernels/recurrent/recurrent.h"

/// oneDNN's own recurrent primitives for a stack: consecutive layers of one input width go into one
/// primitive. Everything that takes time to make is made here, once.
namespace sluice::kernels::recurrent::onednn {

/// One of a primitive's weights in its own layout, and the way there and back.
struct PackedMatrix {
  dnnl::memory::desc canonical;  ///< [layers, directions, gates, hidden, width] float32
  dnnl::memory::desc forward, backward, gradient;
  dnnl::reorder to_forward, to_backward, from_gradient;
  std::int64_t width = 0;
  std::size_t forward_offset = 0, backward_offset = 0;  ///< in packed
};

/// Layers [first, first + count).
struct LayerGroup {
  LayerGroup(const Descriptor& descriptor, const dnnl::engine& engine, std::int64_t first_layer,
             std::int64_t layer_count);

  std::int64_t first, count, input;
  dnnl::primitive_desc forward_desc, backward_desc;
  dnnl::primitive forward, backward;
  PackedMatrix weight_ih, weight_hh;
  std::size_t bias = 0;                            ///< in packed
  std::size_t workspace = 0, y = 0, h = 0, c = 0;  ///< in reserve; without training in workspace

  /// Type, shape and layout of an argument, by its DNNL_ARG name.
  dnnl::memory::desc forward_argument(int name) const;
  dnnl::memory::desc backward_argument(int name) const;
};

/// Biases of one layer and direction: the GRU's recurrent candidate has one of its own.
inline constexpr std::int64_t kBiases = 4;

/// Where oneDNN puts a gate: its GRU has u (here z), r, o (here n).
constexpr std::int64_t position_of(CellType cell, std::int64_t gate) {
  return cell == CellType::kGru && gate < 2 ? 1 - gate : gate;
}

/// All groups of a stack, first layer first. Throws dnnl::error where oneDNN has no primitive.
std::vector<LayerGroup> groups_of(const Descriptor& descriptor, const dnnl::engine& engine);

}  // namespace sluice::kernels::recurrent::onednn
