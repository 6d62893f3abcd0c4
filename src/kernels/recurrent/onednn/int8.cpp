#include "kernels/recurrent/onednn/int8.h"

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "kernels/recurrent/arguments.h"

namespace sluice::kernels::recurrent::onednn {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Layout = memory::format_tag;

/// u8 = 127 * value + 128.
constexpr float kDataScale = 127, kDataShift = 128;
/// One scale for each gate and unit: axes 3 and 4 of [layers, directions, inputs, gates, hidden].
constexpr int kUnits = (1 << 3) | (1 << 4);
constexpr std::int64_t kGates = 4;

/// The primitive, which knows the weights' scales from when it is made, and its own copies of what
/// it reads.
struct Lstm {
  Lstm(const Descriptor& d, const std::vector<float>& scales);

  /// Weights as oneDNN takes them on every machine: where it has tiles or VNNI, it packs no others.
  static memory::desc weights_of(const Descriptor& d, std::int64_t width) {
    return {{d.layers, 1, width, kGates, d.hidden}, Type::f32, Layout::ldigo};
  }
  memory own(const memory::desc& type) const { return memory(type, engine); }
  memory::desc argument(int name) const { return desc.query_md(dnnl::query::exec_arg_md, name); }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive_attr attributes;
  memory::desc x_type, states;
  dnnl::primitive_desc desc;
  dnnl::primitive primitive;
  dnnl::reorder to_u8;
  dnnl::reorder pack_ih, pack_hh;  ///< from weights_of()
  memory x, weight_ih, weight_hh, bias, h0, c0, hn, cn, scratchpad;
};

#if DNNL_VERSION_MAJOR >= 3
template <typename... Arguments>
dnnl::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                              const Arguments&... arguments) {
  return dnnl::lstm_forward::primitive_desc(engine, arguments..., attributes);
}
#else
template <typename... Arguments>
dnnl::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                              const Arguments&... arguments) {
  return dnnl::lstm_forward::primitive_desc(dnnl::lstm_forward::desc(arguments...), attributes,
                                            engine);
}
#endif

Lstm::Lstm(const Descriptor& d, const std::vector<float>& scales) {
  attributes.set_rnn_data_qparams(kDataScale, kDataShift);
  attributes.set_rnn_weights_qparams(kUnits, scales);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  x_type = memory::desc({d.time, d.rows, d.input}, Type::u8, Layout::tnc);
  states = memory::desc({d.layers, 1, d.rows, d.hidden}, Type::f32, Layout::ldnc);
  const auto weights = [&](std::int64_t width) {
    return memory::desc({d.layers, 1, width, kGates, d.hidden}, Type::s8, Layout::any);
  };
  desc = describe(engine, attributes, dnnl::prop_kind::forward_inference,
                  dnnl::rnn_direction::unidirectional_left2right, x_type, states, states,
                  weights(d.input), weights(d.hidden),
                  memory::desc({d.layers, 1, kGates, d.hidden}, Type::f32, Layout::ldgo),
                  memory::desc({d.time, d.rows, d.hidden}, Type::f32, Layout::tnc), states, states);
  primitive = dnnl::primitive(desc);
  dnnl::primitive_attr rounding;
  rounding.set_rnn_data_qparams(kDataScale, kDataShift);
  const memory::desc floats({d.time, d.rows, d.input}, Type::f32, Layout::tnc);
  to_u8 = dnnl::reorder(dnnl::reorder::primitive_desc(engine, floats, engine, x_type, rounding));
  x = own(x_type);
  weight_ih = own(argument(DNNL_ARG_WEIGHTS_LAYER));
  weight_hh = own(argument(DNNL_ARG_WEIGHTS_ITER));
  rounding.set_rnn_weights_qparams(kUnits, scales);
  const auto packs = [&](std::int64_t width, const memory& packed) {
    return dnnl::reorder(dnnl::reorder::primitive_desc(engine, weights_of(d, width), engine,
                                                       packed.get_desc(), rounding));
  };
  pack_ih = packs(d.input, weight_ih);
  pack_hh = packs(d.hidden, weight_hh);
  bias = own(argument(DNNL_ARG_BIAS));
  h0 = own(states);
  c0 = own(states);
  hn = own(states);
  cn = own(states);
  scratchpad = own(desc.scratchpad_desc());
  for (const memory& zeros : {h0, c0}) {
    std::fill_n(static_cast<float*>(zeros.get_data_handle()), states.get_size() / sizeof(float),
                0.0f);
  }
}

/// 127 / the largest weight of each gate's unit, over both matrices and all layers.
std::vector<float> scales_of(const Descriptor& d, const std::vector<LayerWeights>& weights) {
  std::vector<float> most(static_cast<std::size_t>(kGates * d.hidden), 1e-30f);
  for (const LayerWeights& layer : weights) {
    for (const Tensor& matrix : {layer.weight_ih, layer.weight_hh}) {
      const auto* values = matrix.data_as<const float>();
      for (std::int64_t i = 0; i < matrix.element_count(); ++i) {
        float& largest = most[static_cast<std::size_t>(i / matrix.size(1))];
        largest = std::max(largest, std::abs(values[i]));
      }
    }
  }
  for (float& value : most) value = kDataScale / value;
  return most;
}

class Int8Plan final : public Plan {
 public:
  explicit Int8Plan(const Descriptor& descriptor)
      : run_(std::make_shared<Run>(Run{descriptor, nullptr})) {}

  std::string_view implementation() const override { return "onednn-int8"; }
  std::size_t packed_bytes() const override { return 0; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t reserve_bytes() const override { return 0; }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory&) override {
    check_weights(run_->d, weights);
    context.stream().launch([run = run_, weights] { run->pack(weights); });
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory&) override {
    const Descriptor& d = run_->d;
    check_forward(d, args);
    if (args.lengths || args.c_sequence || args.time != d.time || args.rows != d.rows) {
      base::fail(ErrorCode::kUnsupported,
                 "onednn-int8 runs full lengths at the planned {} steps of {} rows, without the "
                 "cell states of every step",
                 d.time, d.rows);
    }
    context.stream().launch([run = run_, args] { run->forward(args); });
  }

  void backward(const Context&, const BackwardArgs&, const Memory&) override {
    base::fail(ErrorCode::kUnsupported, "onednn-int8 runs inference alone");
  }

 private:
  struct Run {
    Descriptor d;
    std::unique_ptr<Lstm> lstm;

    void pack(const std::vector<LayerWeights>& weights);
    void forward(const ForwardArgs& args) const;

   private:
    void pack_matrix(const std::vector<LayerWeights>& weights, Tensor LayerWeights::*member,
                     std::int64_t width, const dnnl::reorder& pack, memory& packed) const;
  };

  std::shared_ptr<Run> run_;
};

void Int8Plan::Run::pack_matrix(const std::vector<LayerWeights>& weights,
                                Tensor LayerWeights::*member, std::int64_t width,
                                const dnnl::reorder& pack, memory& packed) const {
  memory canonical = lstm->own({{d.layers, 1, width, kGates, d.hidden}, Type::f32, Layout::ldgoi});
  auto* to = static_cast<float*>(canonical.get_data_handle());
  for (const LayerWeights& layer : weights) {
    const Tensor& matrix = layer.*member;
    to = std::copy_n(matrix.data_as<const float>(), matrix.element_count(), to);
  }
  memory turned = lstm->own(Lstm::weights_of(d, width));
  dnnl::reorder(canonical, turned).execute(lstm->stream, canonical, turned);
  pack.execute(lstm->stream, turned, packed);
  lstm->stream.wait();
}

void Int8Plan::Run::pack(const std::vector<LayerWeights>& weights) {
  const std::vector<float> scales = scales_of(d, weights);
  lstm = std::make_unique<Lstm>(d, scales);
  pack_matrix(weights, &LayerWeights::weight_ih, d.input, lstm->pack_ih, lstm->weight_ih);
  pack_matrix(weights, &LayerWeights::weight_hh, d.hidden, lstm->pack_hh, lstm->weight_hh);
  auto* bias = static_cast<float*>(lstm->bias.get_data_handle());
  for (const LayerWeights& layer : weights) {
    const auto* of_input = layer.bias_ih.data_as<const float>();
    const auto* of_hidden = layer.bias_hh.data_as<const float>();
    for (std::int64_t i = 0; i < kGates * d.hidden; ++i) *bias++ = of_input[i] + of_hidden[i];
  }
}

void Int8Plan::Run::forward(const ForwardArgs& args) const {
  const auto view = [&](const memory::desc& desc, const Tensor& tensor, const memory& own) {
    return tensor ? memory(desc, lstm->engine, tensor.data()) : own;
  };
  memory floats({{d.time, d.rows, d.input}, Type::f32, Layout::tnc}, lstm->engine, args.x.data());
  memory x = lstm->x;
  lstm->to_u8.execute(lstm->stream, floats, x);
  const memory y({{d.time, d.rows, d.hidden}, Type::f32, Layout::tnc}, lstm->engine, args.y.data());
  lstm->primitive.execute(lstm->stream,
                          {{DNNL_ARG_SRC_LAYER, x},
                           {DNNL_ARG_SRC_ITER, view(lstm->states, args.h0, lstm->h0)},
                           {DNNL_ARG_SRC_ITER_C, view(lstm->states, args.c0, lstm->c0)},
                           {DNNL_ARG_WEIGHTS_LAYER, lstm->weight_ih},
                           {DNNL_ARG_WEIGHTS_ITER, lstm->weight_hh},
                           {DNNL_ARG_BIAS, lstm->bias},
                           {DNNL_ARG_DST_LAYER, y},
                           {DNNL_ARG_DST_ITER, view(lstm->states, args.hn, lstm->hn)},
                           {DNNL_ARG_DST_ITER_C, view(lstm->states, args.cn, lstm->cn)},
                           {DNNL_ARG_SCRATCHPAD, lstm->scratchpad}});
  lstm->stream.wait();
}

std::optional<std::string> refuse_int8(const Descriptor& d, const runtime::Device&) {
  if (!d.int8) return "it computes with 8-bit weights, which precision int8 allows";
  if (auto reason = refuse_extras(d)) return reason;
  if (d.cell != CellType::kLstm) return fmt::format("it has no {} of 8 bits", name_of(d.cell));
  if (d.projects()) return "it has no projection of 8 bits";
  if (d.directions != 1 || (d.layers > 1 && d.input != d.hidden)) {
    return "it is kept for one direction and layers of one width";
  }
  try {
    Lstm(d, std::vector<float>(static_cast<std::size_t>(kGates * d.hidden), 1.0f));
  } catch (const dnnl::error& error) {
    return fmt::format("oneDNN has no such layer on this machine ({})", error.what());
  }
  return std::nullopt;
}

std::unique_ptr<Plan> create_int8(const Descriptor& descriptor, const runtime::Device&) {
  return std::make_unique<Int8Plan>(descriptor);
}

}  // namespace

const Candidate kInt8Stack{"onednn-int8", true, refuse_int8, create_int8};

}  // namespace sluice::kernels::recurrent::onednn
