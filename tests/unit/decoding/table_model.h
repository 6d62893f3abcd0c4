#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "models/step_model.h"
#include "runtime/arena.h"

namespace sluice::testing {

using models::Context;
using models::StateTensor;
using models::Tensor;

/// Where a prefix leads: a number that depends on the input and on every token fed so far.
using Node = std::int32_t;

inline std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
inline Node next_node(Node node, std::int32_t token) {
  return static_cast<Node>(
      mixed(static_cast<std::uint32_t>(node) * 31 + static_cast<std::uint32_t>(token) + 7) >> 1);
}
inline Node first_node(std::int32_t input) { return static_cast<Node>(mixed(1000u + input) >> 1); }

/// On [0, 1), from a node and a place.
inline float unit(Node node, std::int64_t place) {
  const auto bits = mixed(static_cast<std::uint32_t>(node) ^
                          mixed(static_cast<std::uint32_t>(place) + 0x9e3779b9u));
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

/// What follows a node: logit of a token. The same function serves the device and the reference.
using Logit = std::function<float(Node node, std::int64_t token)>;

inline Logit random_logits(float scale) {
  return [scale](Node node, std::int64_t token) { return scale * unit(node, token); };
}

inline float table_attention(Node node, std::int64_t place) { return unit(node, 100000 + place); }

/// A model that is a table of logits by prefix.
class TableModel final : public models::StepModel {
 public:
  TableModel(const Context& context, std::int64_t vocabulary, std::int64_t max_rows,
             std::int64_t source_time, Logit logit)
      : vocabulary_(vocabulary),
        max_rows_(max_rows),
        source_time_(source_time),
        logit_(std::move(logit)),
        nodes_(context.device(), static_cast<std::size_t>(max_rows) * sizeof(Node)) {}

  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int64_t max_rows() const override { return max_rows_; }
  std::int64_t source_time() const override { return source_time_; }

  // All three compute on the host, so that they run on every device.
  void start(const Context& context, const Tensor& input_of_row, std::int64_t rows) override {
    rows_ = rows;
    std::vector<Node> nodes;
    for (const std::int32_t input : context.download<std::int32_t>(input_of_row)) {
      nodes.push_back(first_node(first_input_ + input));
    }
    context.upload<Node>(node_tensor(), nodes);
  }

  void step(const Context& context, const Tensor& tokens, const Tensor& logits,
            const Tensor& attention) override {
    ++steps_;
    const auto fed = context.download<std::int32_t>(tokens);
    auto nodes = context.download<Node>(node_tensor());
    std::vector<float> logit_values, attention_values;
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      nodes[r] = next_node(nodes[r], fed[r]);
      for (std::int64_t v = 0; v < logits.size(1); ++v) {
        logit_values.push_back(logit_(nodes[r], v));
      }
      for (std::int64_t s = 0; attention && s < attention.size(1); ++s) {
        attention_values.push_back(table_attention(nodes[r], s));
      }
    }
    context.upload<Node>(node_tensor(), nodes);
    context.upload<float>(logits, logit_values);
    if (attention) context.upload<float>(attention, attention_values);
  }

  void reorder(const Context& context, const Tensor& parents) override {
    const auto from = context.download<Node>(node_tensor());
    std::vector<Node> nodes;
    for (const std::int32_t parent : context.download<std::int32_t>(parents)) {
      nodes.push_back(from[static_cast<std::size_t>(parent)]);
    }
    context.upload<Node>(node_tensor(), nodes);
  }

  std::vector<StateTensor> state() const override { return {{"node", node_tensor(), 0}}; }

  /// Input i of a batch stands for input first + i, so that one can be decoded alone.
  void set_first_input(std::int32_t first) { first_input_ = first; }
  std::int64_t steps() const { return steps_; }

 private:
  Tensor node_tensor() const { return nodes_.tensor(runtime::DType::kInt32, {rows_}); }

  std::int64_t vocabulary_, max_rows_, source_time_;
  Logit logit_;
  runtime::Buffer nodes_;
  std::int64_t rows_ = 0, steps_ = 0;
  std::int32_t first_input_ = 0;
};

}  // namespace sluice::testing
