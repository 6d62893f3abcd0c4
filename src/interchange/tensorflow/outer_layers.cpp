#include "interchange/tensorflow/outer_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "interchange/tensorflow/names.h"
#include "interchange/tensorflow/written_cells.h"

namespace sluice::interchange::tensorflow {
namespace {

using Sizes = std::vector<std::int64_t>;

struct NamePair {
  std::string_view weight, bias;
};
// The ends of names of a dense layer's variables.
constexpr std::array<NamePair, 10> kDenseNames = {{{"/kernel", "/bias"},
                                                   {"/weights", "/biases"},
                                                   {"/weight", "/bias"},
                                                   {"/Matrix", "/Bias"},
                                                   {"/W", "/b"},
                                                   {"/w", "/b"},
                                                   {"_w", "_b"},
                                                   {"_W", "_b"},
                                                   {"_weights", "_biases"},
                                                   {"_weight", "_bias"}}};

struct Dense {
  std::string weight, bias;
  bool is_transposed = false;  ///< [labels, width], as sampled_softmax_loss has it
};

/// Whether the weight has an axis of `width` and the bias the size of the other one.
std::optional<Dense> dense_of(const Variables& variables, const std::string& weight,
                              const std::string& bias, std::int64_t width) {
  const Sizes& matrix = variables.sizes(weight);
  const Sizes& vector = variables.sizes(bias);
  if (matrix.size() != 2 || vector.size() != 1) return {};
  if (matrix[0] == width && matrix[1] == vector[0]) return Dense{weight, bias, false};
  if (matrix[1] == width && matrix[0] == vector[0]) return Dense{weight, bias, true};
  return {};
}

std::vector<Dense> candidates(const Variables& variables, std::int64_t width) {
  std::vector<Dense> result;
  for (const std::string& name : variables.unused()) {
    for (const auto& [weight, bias] : kDenseNames) {
      // A variable without a scope may be named "kernel" or "w".
      const std::string full = "/" + name;
      if (!full.ends_with(weight)) continue;
      std::string other = full.substr(1, full.size() - 1 - weight.size()) + std::string(bias);
      if (other.starts_with('/')) other.erase(0, 1);
      if (!variables.has(other) || variables.is_used(other)) continue;
      if (auto dense = dense_of(variables, name, other, width)) result.push_back(*dense);
    }
  }
  return result;
}

Dense asked_output(const Variables& variables, const ReadOptions& options, std::int64_t width,
                   const std::string& weight) {
  const std::string bias = options.find("output_bias").value_or("");
  const Sizes& sizes = variables.sizes(weight);
  SLUICE_CHECK(
      sizes.size() == 2 && (sizes[0] == width || sizes[1] == width),
      "{}: --set output={}: the variable is no matrix with an axis of {}, the width of the "
      "recurrent layers",
      variables.file(), weight, width);
  SLUICE_CHECK(!bias.empty(), "{}: --set output={} needs --set output_bias=NAME, or none",
               variables.file(), weight);
  if (bias == "none") return {weight, "", sizes[0] != width};
  const auto dense = dense_of(variables, weight, bias, width);
  SLUICE_CHECK(dense, "{}: --set output_bias={}: its size fits no axis of '{}'", variables.file(),
               bias, weight);
  return *dense;
}

}  // namespace

std::optional<EmbeddingLayer> find_embedding(Variables& variables, const ReadOptions& options,
                                             std::int64_t width, Account& account) {
  std::string name = options.find("embedding").value_or("");
  if (name == "none") return {};
  if (name.empty()) {
    std::vector<std::string> found;
    for (const std::string& one : variables.unused()) {
      const Sizes& sizes = variables.sizes(one);
      const bool fits = sizes.size() == 2 && sizes[1] == width;
      if (fits && lower(one).find("embed") != std::string::npos) found.push_back(one);
    }
    if (found.empty()) return {};
    SLUICE_CHECK(found.size() == 1,
                 "{}: each of {} may be the embedding; say --set embedding=NAME, or none",
                 variables.file(), listed(found));
    name = found[0];
  }
  const Sizes sizes = variables.sizes(name);
  SLUICE_CHECK(
      sizes.size() == 2 && sizes[1] == width && sizes[0] > 0,
      "{}: --set embedding={}: the variable is no table of rows with {} numbers, which the "
      "first recurrent layer reads",
      variables.file(), name, width);
  account.find(fmt::format("'{}': the embedding, {} ids", name, sizes[0]));
  return EmbeddingLayer{.name = name, .table = variables.take(name)};
}

std::optional<LinearLayer> find_output(Variables& variables, const ReadOptions& options,
                                       const GraphFacts& facts, std::int64_t width,
                                       Account& account) {
  const std::string asked = options.find("output").value_or("");
  if (asked == "none") return {};
  std::vector<Dense> found;
  if (asked.empty()) {
    found = candidates(variables, width);
  } else {
    found = {asked_output(variables, options, width, asked)};
  }
  if (found.empty()) return {};
  std::vector<std::string> names;
  for (const Dense& one : found) names.push_back(one.weight);
  SLUICE_CHECK(found.size() == 1,
               "{}: each of {} may be the dense layer behind the recurrent ones; say --set "
               "output=NAME --set output_bias=NAME, or --set output=none",
               variables.file(), listed(names));
  const Dense& dense = found[0];
  const io::HostTensor weight = variables.take(dense.weight);
  LinearLayer layer{.name = scope_of(dense.weight).empty() ? "output" : scope_of(dense.weight),
                    .weight = dense.is_transposed ? weight : transposed(weight)};
  if (!dense.bias.empty()) layer.bias = variables.take(dense.bias);
  account.find(fmt::format("'{}': the dense layer behind them, {}, {} outputs", dense.weight,
                           dense.is_transposed ? "[outputs, width]" : "[width, outputs]",
                           layer.weight.shape[0]));
  const auto activation = facts.activation.find(dense.weight);
  if (activation != facts.activation.end()) {
    const bool is_log = activation->second == "logsoftmax";
    layer.activation = {is_log ? "log_softmax" : activation->second};
    account.find(
        fmt::format("'{}': the activation {}, in the graph", dense.weight, layer.activation.name));
  } else {
    account.assume(
        fmt::format("'{}': its outputs are logits, for no activation is stored", dense.weight));
  }
  return layer;
}

}  // namespace sluice::interchange::tensorflow
