#include "kernels/recurrent/onednn/layout.h"

#include <algorithm>

#include "base/shape.h"

namespace sluice::kernels::recurrent::onednn {
namespace {

/// Hands out consecutive pieces of a memory, each aligned to a cache line.
struct Booking {
  std::size_t total = 0;
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = total;
    total = base::checked_add(total, base::align_up(bytes, 64));
    return offset;
  }
};

void book_group(const LayerStack& stack, LayerGroup& group, Booking& packed, Booking& kept,
                Scratch& most) {
  const bool training = stack.descriptor.training;
  for (PackedMatrix* weights : {&group.weight_ih, &group.weight_hh}) {
    weights->forward_offset = packed.take(weights->forward.get_size());
    if (training) weights->backward_offset = packed.take(weights->backward.get_size());
    most.weights = std::max(most.weights, weights->canonical.get_size());
    if (training) most.gradient += weights->gradient.get_size() + 64;
  }
  group.bias = packed.take(group.forward_argument(DNNL_ARG_BIAS).get_size());
  most.bias = std::max(most.bias, group.forward_argument(DNNL_ARG_BIAS).get_size());
  group.h = kept.take(group.forward_argument(DNNL_ARG_DST_ITER).get_size());
  if (stack.is_lstm()) group.c = kept.take(group.forward_argument(DNNL_ARG_DST_ITER_C).get_size());
  if (training) {
    group.workspace = kept.take(group.forward_argument(DNNL_ARG_WORKSPACE).get_size());
    if (&group != &stack.groups.back()) {
      group.y = kept.take(group.forward_argument(DNNL_ARG_DST_LAYER).get_size());
    }
  }
  most.scratchpad = std::max(most.scratchpad, group.forward_desc.scratchpad_desc().get_size());
  if (training) {
    most.scratchpad = std::max(most.scratchpad, group.backward_desc.scratchpad_desc().get_size());
  }
}

}  // namespace

LayerStack::LayerStack(const Descriptor& d) : descriptor(d), groups(groups_of(d, engine)) {
  Booking packed, reserve, workspace;
  Scratch most;
  for (LayerGroup& group : groups) {
    book_group(*this, group, packed, d.training ? reserve : workspace, most);
  }
  const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count) * 4; };
  const std::int64_t places = d.time * d.rows, width = d.directions * d.hidden;
  const std::int64_t all = states(d.layers);
  scratch.scratchpad = workspace.take(most.scratchpad);
  scratch.zeros = workspace.take(floats(std::max(all, d.training ? places * width : 0)));
  scratch.weights = workspace.take(most.weights);
  if (d.training) {
    scratch.gradient = workspace.take(most.gradient);
    scratch.bias = workspace.take(most.bias);
    for (auto* piece : {&scratch.dhn, &scratch.dh0, &scratch.dc0}) {
      *piece = workspace.take(floats(all));
    }
    for (auto& piece : scratch.d_layer) {
      piece = workspace.take(floats(places * std::max(width, d.input)));
    }
  } else {
    for (auto& piece : scratch.y) piece = workspace.take(floats(places * width));
  }
  packed_bytes = packed.total;
  workspace_bytes = workspace.total;
  reserve_bytes = reserve.total;
}

}  // namespace sluice::kernels::recurrent::onednn
