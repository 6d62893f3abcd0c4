#include "interchange/paddle/paddle_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "interchange/paddle/paddle_cell.h"
#include "interchange/paddle/paddle_op.h"

namespace sluice::interchange::paddle {
namespace {

using base::DType;
using io::HostTensor;

HostTensor filled(std::int64_t size, float value) {
  HostTensor tensor = HostTensor::make(DType::kFloat32, {size});
  std::ranges::fill(tensor.values<float>(), value);
  return tensor;
}

bool begins(const Node& node) {
  return std::holds_alternative<Node::Feed>(node.what) ||
         std::holds_alternative<Node::Unknown>(node.what);
}

}  // namespace

void Chain::refuse(const std::string& why) const {
  base::fail(ErrorCode::kUnsupported, "'{}': {}; {}", path_, why, hint_);
}

void Chain::refuse_join(const Features& features) const {
  std::vector<std::string> names;
  for (const Part& part : features) names.push_back(nodes_[part.node].name);
  refuse(
      fmt::format("the outputs {} come together, which are not the forward and the backward "
                  "direction of one layer in this order",
                  quoted(names)));
}

std::vector<SourceLayer> Chain::layers_to(Features end) {
  std::vector<SourceLayer> layers;
  std::vector<std::string>& found = account_.found;
  const std::ptrdiff_t first = std::ssize(found);
  for (Features features = std::move(end); !features.empty(); features = before(features)) {
    const std::ptrdiff_t known = std::ssize(found);
    if (!features[0].pooling.empty()) layers.emplace_back(take_pooling(features));
    const bool is_pair = pair_of(nodes_, features) == Pair::kForwardFirst;
    if (features.size() != 1 && !is_pair) refuse_join(features);
    if (begins(nodes_[features[0].node])) break;
    layers.push_back(layer_of(features));
    // The account is in the order of the layers too.
    std::rotate(found.begin() + first, found.begin() + known, found.end());
  }
  std::ranges::reverse(layers);
  return layers;
}

Features Chain::before(const Features& features) const {
  const auto& what = nodes_[features[0].node].what;
  if (const auto* linear = std::get_if<Linear>(&what)) return ordered_input(nodes_, *linear);
  if (const auto* scaling = std::get_if<Node::Scaling>(&what)) return scaling->input;
  if (const auto* recurrence = std::get_if<Node::Recurrence>(&what)) {
    return ordered_input(nodes_, recurrence->input);
  }
  return {};
}

SourceLayer Chain::layer_of(const Features& features) {
  const Node& node = nodes_[features[0].node];
  if (const auto* table = std::get_if<Node::Embedding>(&node.what)) return embedding(node, *table);
  if (const auto* one = std::get_if<Linear>(&node.what)) return linear(*one);
  if (const auto* one = std::get_if<Node::Scaling>(&node.what)) return scaling(node, *one);
  return recurrent(features);
}

RecurrentLayer Chain::recurrent(const Features& features) {
  RecurrentLayer layer;
  for (const Part& part : features) {
    const auto& recurrence = std::get<Node::Recurrence>(nodes_[part.node].what);
    const std::string name = layer_name(only_input(*recurrence.op, "Weight"));
    layer.name += (layer.name.empty() ? "" : "+") + name;
    (recurrence.is_reverse ? layer.backward : layer.forward) =
        cell_of(nodes_, recurrence, parameters_, account_);
  }
  return layer;
}

/// The final state of a backward direction is its first step.
PoolingLayer Chain::take_pooling(Features& features) {
  PoolingLayer layer{.name = "sequence_pool", .kind = features[0].pooling};
  bool is_final = true, is_alike = true;
  for (Part& part : features) {
    const auto* recurrence = std::get_if<Node::Recurrence>(&nodes_[part.node].what);
    is_final = is_final && recurrence != nullptr &&
               part.pooling == (recurrence->is_reverse ? "first" : "last");
    is_alike = is_alike && part.pooling == layer.kind;
    part.pooling.clear();
  }
  if (is_final) layer.kind = "last";
  const bool is_known = is_final || (is_alike && (layer.kind == "mean" || layer.kind == "max"));
  if (!is_known) {
    refuse(
        fmt::format("'{}' is pooled in a way that Sluice lacks: mean or max over the steps, or "
                    "the final step of each direction",
                    nodes_[features[0].node].name));
  }
  account_.find(fmt::format("'{}': sequence_pool takes the {} (attribute pooltype)",
                            nodes_[features[0].node].name,
                            is_final ? "final step" : layer.kind + " over the steps"));
  return layer;
}

SourceLayer Chain::embedding(const Node& node, const Node::Embedding& embedding) {
  EmbeddingLayer layer{layer_name(embedding.table), parameters_.read(embedding.table)};
  if (embedding.padding >= 0) {
    const auto values = layer.table.values<float>();
    std::ranges::fill(values.subspan(static_cast<std::size_t>(embedding.padding * node.width),
                                     static_cast<std::size_t>(node.width)),
                      0.0F);
    account_.find(fmt::format("{}: padding_idx={}, so the id's vector is zero (attribute)",
                              layer.name, embedding.padding));
  }
  return layer;
}

SourceLayer Chain::linear(const Linear& linear) {
  const HostTensor weight = weight_of(nodes_, linear, parameters_);
  LinearLayer layer{.name = linear.name, .weight = transposed(weight)};
  layer.bias = bias_of(linear, weight.shape[1], parameters_);
  layer.activation = linear.activation;
  return layer;
}

SourceLayer Chain::scaling(const Node& node, const Node::Scaling& scaling) const {
  return AffineLayer{node.name, filled(node.width, scaling.scale),
                     filled(node.width, scaling.shift)};
}

CrfLayer Chain::crf(const std::string& transitions) {
  const HostTensor table = parameters_.read(transitions);
  const std::int64_t labels = table.shape.rank() == 2 ? table.shape[1] : 0;
  if (labels < 1 || table.shape[0] != labels + 2) {
    base::fail(ErrorCode::kFormat, "the CRF's parameter '{}' has the shape {}", transitions,
               table.shape.to_string());
  }
  const auto values = table.values<float>();
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return values.subspan(static_cast<std::size_t>(first * labels),
                          static_cast<std::size_t>(count * labels));
  };
  account_.find(
      fmt::format("{}: the scores of {} labels at the start (row 0), at the end (row 1) "
                  "and from each to each (crf_decoding)",
                  transitions, labels));
  return {transitions, HostTensor::copy_of<float>(rows(2, labels), {labels, labels}),
          HostTensor::copy_of<float>(rows(0, 1), {labels}),
          HostTensor::copy_of<float>(rows(1, 1), {labels})};
}

}  // namespace sluice::interchange::paddle
