#include "kernels/recurrent/onednn/group.h"

namespace sluice::kernels::recurrent::onednn {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Layout = memory::format_tag;
using Desc = memory::desc;

/// Shapes of a group's arguments; weights in whichever layout the primitive likes best.
struct Shapes {
  Desc x, h, c, weight_ih, weight_hh, bias, y;
  /// Gradients are float32 whatever the storage: oneDNN takes no other.
  Desc dx, dh, dc, d_weight_ih, d_weight_hh, dy;
  dnnl::rnn_direction direction;
  dnnl::primitive_attr attributes;

  Shapes(const Descriptor& d, std::int64_t layers, std::int64_t input) {
    const Type storage = d.dtype == DType::kBFloat16 ? Type::bf16 : Type::f32;
    const std::int64_t width = d.directions * d.hidden;
    const memory::dims states{layers, d.directions, d.rows, d.hidden};
    const memory::dims ih{layers, d.directions, input, d.gates(), d.hidden};
    const memory::dims hh{layers, d.directions, d.hidden, d.gates(), d.hidden};
    x = Desc({d.time, d.rows, input}, storage, Layout::tnc);
    y = Desc({d.time, d.rows, width}, storage, Layout::tnc);
    h = Desc(states, storage, Layout::ldnc);
    c = Desc(states, Type::f32, Layout::ldnc);
    weight_ih = Desc(ih, storage, Layout::any);
    weight_hh = Desc(hh, storage, Layout::any);
    bias = Desc({layers, d.directions, kBiases, d.hidden}, Type::f32, Layout::ldgo);
    dx = Desc({d.time, d.rows, input}, Type::f32, Layout::tnc);
    dy = Desc({d.time, d.rows, width}, Type::f32, Layout::tnc);
    dh = dc = c;
    d_weight_ih = Desc(ih, Type::f32, Layout::any);
    d_weight_hh = Desc(hh, Type::f32, Layout::any);
    direction = d.directions == 2 ? dnnl::rnn_direction::bidirectional_concat
                                  : dnnl::rnn_direction::unidirectional_left2right;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }
};

struct Primitives {
  dnnl::primitive_desc forward, backward;
};

dnnl::prop_kind forward_kind(const Descriptor& descriptor) {
  return descriptor.training ? dnnl::prop_kind::forward_training
                             : dnnl::prop_kind::forward_inference;
}

// oneDNN 3 (Ubuntu 24.04) makes in one step what oneDNN 2 (Debian 12) makes of a `desc`.
#if DNNL_VERSION_MAJOR >= 3
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc make_forward(const dnnl::engine& engine, const Shapes& s,
                                                const Arguments&... arguments) {
  return {engine, arguments..., s.attributes};
}

template <typename Primitive, typename Forward, typename... Arguments>
typename Primitive::primitive_desc make_backward(const dnnl::engine& engine, const Shapes& s,
                                                 const Forward& forward,
                                                 const Arguments&... arguments) {
  return {engine, dnnl::prop_kind::backward, arguments..., forward, s.attributes};
}
#else
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc make_forward(const dnnl::engine& engine, const Shapes& s,
                                                const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), s.attributes, engine};
}

template <typename Primitive, typename Forward, typename... Arguments>
typename Primitive::primitive_desc make_backward(const dnnl::engine& engine, const Shapes& s,
                                                 const Forward& forward,
                                                 const Arguments&... arguments) {
  return {typename Primitive::desc(dnnl::prop_kind::backward, arguments...), s.attributes, engine,
          forward};
}
#endif

Primitives make_lstm(const Descriptor& descriptor, const dnnl::engine& engine, const Shapes& s) {
  const auto forward =
      make_forward<dnnl::lstm_forward>(engine, s, forward_kind(descriptor), s.direction, s.x, s.h,
                                       s.c, s.weight_ih, s.weight_hh, s.bias, s.y, s.h, s.c);
  if (!descriptor.training) return {forward, {}};
  return {forward, make_backward<dnnl::lstm_backward>(engine, s, forward, s.direction, s.x, s.h,
                                                      s.c, s.weight_ih, s.weight_hh, s.bias, s.y,
                                                      s.h, s.c, s.dx, s.dh, s.dc, s.d_weight_ih,
                                                      s.d_weight_hh, s.bias, s.dy, s.dh, s.dc)};
}

Primitives make_gru(const Descriptor& descriptor, const dnnl::engine& engine, const Shapes& s) {
  const auto forward =
      make_forward<dnnl::lbr_gru_forward>(engine, s, forward_kind(descriptor), s.direction, s.x,
                                          s.h, s.weight_ih, s.weight_hh, s.bias, s.y, s.h);
  if (!descriptor.training) return {forward, {}};
  return {forward, make_backward<dnnl::lbr_gru_backward>(
                       engine, s, forward, s.direction, s.x, s.h, s.weight_ih, s.weight_hh, s.bias,
                       s.y, s.h, s.dx, s.dh, s.d_weight_ih, s.d_weight_hh, s.bias, s.dy, s.dh)};
}

dnnl::reorder make_reorder(const dnnl::engine& engine, const Desc& from, const Desc& to) {
  return dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
}

PackedMatrix weights_of(const LayerGroup& group, const Descriptor& descriptor,
                        const dnnl::engine& engine, std::int64_t width, int argument,
                        int gradient) {
  PackedMatrix weights;
  weights.width = width;
  weights.canonical =
      Desc({group.count, descriptor.directions, width, descriptor.gates(), descriptor.hidden},
           Type::f32, Layout::ldgoi);
  weights.forward = group.forward_argument(argument);
  weights.to_forward = make_reorder(engine, weights.canonical, weights.forward);
  if (!descriptor.training) return weights;
  weights.backward = group.backward_argument(argument);
  weights.gradient = group.backward_argument(gradient);
  weights.to_backward = make_reorder(engine, weights.canonical, weights.backward);
  weights.from_gradient = make_reorder(engine, weights.gradient, weights.canonical);
  return weights;
}

}  // namespace

LayerGroup::LayerGroup(const Descriptor& descriptor, const dnnl::engine& engine,
                       std::int64_t first_layer, std::int64_t layer_count)
    : first(first_layer), count(layer_count), input(descriptor.input_of(first_layer)) {
  const Shapes shapes(descriptor, count, input);
  const Primitives made = descriptor.cell == CellType::kLstm ? make_lstm(descriptor, engine, shapes)
                                                             : make_gru(descriptor, engine, shapes);
  forward_desc = made.forward;
  forward = dnnl::primitive(forward_desc);
  if (descriptor.training) {
    backward_desc = made.backward;
    backward = dnnl::primitive(backward_desc);
  }
  weight_ih = weights_of(*this, descriptor, engine, input, DNNL_ARG_WEIGHTS_LAYER,
                         DNNL_ARG_DIFF_WEIGHTS_LAYER);
  weight_hh = weights_of(*this, descriptor, engine, descriptor.hidden, DNNL_ARG_WEIGHTS_ITER,
                         DNNL_ARG_DIFF_WEIGHTS_ITER);
}

memory::desc LayerGroup::forward_argument(int name) const {
  return forward_desc.query_md(dnnl::query::exec_arg_md, name);
}

memory::desc LayerGroup::backward_argument(int name) const {
  return backward_desc.query_md(dnnl::query::exec_arg_md, name);
}

std::vector<LayerGroup> groups_of(const Descriptor& descriptor, const dnnl::engine& engine) {
  std::vector<LayerGroup> groups;
  for (std::int64_t layer = 0; layer < descriptor.layers;) {
    std::int64_t end = layer + 1;
    // Within one primitive a layer's input must be as wide as its output, and outputs of two
    // directions side by side are the last layer's only.
    const bool uniform =
        descriptor.directions == 1 && descriptor.input_of(layer) == descriptor.hidden;
    if (uniform) end = descriptor.layers;
    groups.emplace_back(descriptor, engine, layer, end - layer);
    layer = end;
  }
  return groups;
}

}  // namespace sluice::kernels::recurrent::onednn
