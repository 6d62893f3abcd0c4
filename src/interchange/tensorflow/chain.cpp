#include "interchange/tensorflow/chain.h"

#include <fmt/format.h>

#include "base/check.h"
#include "interchange/tensorflow/layer_order.h"
#include "interchange/tensorflow/names.h"
#include "interchange/tensorflow/opaque_buffer.h"
#include "interchange/tensorflow/outer_layers.h"

namespace sluice::interchange::tensorflow {

namespace {

/// Whether `name` is a vector of `width` numbers that nothing else has taken.
bool is_free_vector(const Variables& variables, std::string_view name, std::int64_t width) {
  return variables.has(name) && !variables.is_used(name) &&
         variables.sizes(name) == std::vector<std::int64_t>{width};
}

/// Inputs that a graph of Sluice normalises.
void add_normalization(Variables& variables, std::int64_t width, SourceModel& model) {
  if (!is_free_vector(variables, "input/scale", width)) return;
  if (!is_free_vector(variables, "input/shift", width)) return;
  model.layers.emplace_back(AffineLayer{.name = "input",
                                        .scale = variables.take("input/scale"),
                                        .shift = variables.take("input/shift")});
  model.account.find("'input/scale' and 'input/shift': multiplied with and added to the inputs");
}

/// Variables do not say which steps the dense layer reads.
void add_pooling(Variables& variables, const ReadOptions& options, std::int64_t width,
                 SourceModel& model) {
  if (is_free_vector(variables, "pooling/query", width)) {
    model.layers.emplace_back(PoolingLayer{
        .name = "pooling", .kind = "attention", .query = variables.take("pooling/query")});
    model.account.find("'pooling/query': pooling by attention, as graphs of Sluice name it");
    return;
  }
  const std::string kind = options.find("pooling").value_or("none");
  SLUICE_CHECK(kind == "none" || kind == "last" || kind == "mean" || kind == "max",
               "--set pooling={}: it is none, last, mean or max", kind);
  if (kind != "none") {
    model.layers.emplace_back(PoolingLayer{.name = "pooling", .kind = kind});
  }
  model.account.assume(kind == "none"
                           ? "an output for each step; say --set pooling=last, mean or max for one "
                             "output of a sequence"
                           : "the pooling " + kind + ", as --set pooling says");
}

}  // namespace

void add_layers(Variables variables, const ReadOptions& options, const GraphFacts& facts,
                SourceModel& model) {
  Account& account = model.account;
  remove_training_state(variables, account);
  keep_subgraph(variables, options);
  std::vector<FoundCell> cells = split_opaque_buffers(variables, options, account);
  const bool is_opaque = !cells.empty();
  for (FoundCell& cell : find_cells(variables, options, facts, account)) {
    cells.push_back(std::move(cell));
  }
  if (cells.empty()) {
    base::fail(
        ErrorCode::kUnsupported,
        "{}: there is no recurrent cell under a name of TensorFlow; the variables are {}. "
        "Say --set lstm=SCOPE or --set rnn=SCOPE for the scope of a kernel and a bias. A model of "
        "Keras is read from its .keras or .h5 file",
        variables.file(), listed(variables.unused()));
  }
  if (!is_opaque) {
    account.assume(
        "TensorFlow's defaults, which variables do not say: tanh and sigmoid in LSTM and GRU "
        "cells, "
        "no clipping, no connection around a layer");
  }
  std::vector<RecurrentLayer> layers =
      order_layers(std::move(cells), options, variables.file(), account);
  const std::int64_t input = layers.front().input(), output = layers.back().output();
  const bool is_whole = options.subgraph.empty();
  if (is_whole) {
    if (auto embedding = find_embedding(variables, options, input, account)) {
      model.layers.emplace_back(std::move(*embedding));
    }
    add_normalization(variables, input, model);
  }
  for (RecurrentLayer& layer : layers) model.layers.emplace_back(std::move(layer));
  if (is_whole) add_pooling(variables, options, output, model);
  if (is_whole) {
    if (auto dense = find_output(variables, options, facts, output, account)) {
      model.layers.emplace_back(std::move(*dense));
    }
  }
  require_all_used(variables, options, account);
}

}  // namespace sluice::interchange::tensorflow
