#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "bench/train/train_bench.h"

namespace sluice::bench::train {
namespace {

using nlohmann::ordered_json;

ordered_json row_of(const TrainResult& result) {
  const TrainShape& shape = result.shape;
  ordered_json row;
  row["name"] = shape.name;
  row["cell"] = "seq2seq";
  row["recurrent_cell"] = shape.cell;
  row["vocabulary"] = shape.vocabulary;
  row["embedding"] = shape.embedding;
  row["hidden"] = shape.hidden;
  row["layers"] = shape.layers;
  row["directions"] = shape.directions;
  row["attention"] = shape.attention;
  row["dropout"] = shape.dropout;
  row["batch"] = shape.batch;
  row["source_time"] = shape.source_time;
  row["target_time"] = shape.target_time;
  row["dtype"] = shape.dtype;
  row["seed"] = shape.seed;
  row["milliseconds"] = result.milliseconds;
  row["pairs_per_second"] = result.pairs_per_second();
  return row;
}

ordered_json row_of(const ConfigResult& result) {
  const ConfigSizes& sizes = result.sizes;
  ordered_json row;
  row["name"] = sizes.name;
  row["cell"] = sizes.kind;
  row["batches"] = sizes.batches;
  row["examples"] = sizes.examples;
  row["source_tokens"] = sizes.source_tokens;
  row["target_tokens"] = sizes.target_tokens;
  row["dtype"] = result.dtype;
  row["milliseconds"] = result.step_milliseconds();
  row["examples_per_second"] = result.examples_per_second();
  return row;
}

template <typename Result>
std::string list_of(const std::vector<Result>& results) {
  ordered_json list = ordered_json::array();
  for (const Result& result : results) {
    ordered_json row = row_of(result);
    row["device"] = result.device;
    row["device_model"] = result.device_model;
    row["pass"] = "training step";
    row["implementation"] = result.implementation;
    row["peer"] = false;
    row["default"] = result.is_default;
    row["tokens_per_second"] = result.tokens_per_second();
    if (result.ranks > 1) {
      row["ranks"] = result.ranks;
      row["exchange"] = result.exchange.bfloat16 ? "bfloat16" : "float32";
      row["shard"] = result.exchange.shard;
      row["apart_milliseconds"] = result.apart_milliseconds;
      row["all_reduce_milliseconds"] = result.all_reduce_milliseconds;
    }
    row["peak_bytes"] = result.peak_bytes;
    row["parameters"] = result.parameters;
    row["loss"] = result.loss;
    add_machine(row, result.device);
    list.push_back(std::move(row));
  }
  return list.dump(1) + "\n";
}

}  // namespace

std::string to_json(const std::vector<TrainResult>& results) { return list_of(results); }
std::string to_json(const std::vector<ConfigResult>& results) { return list_of(results); }

}  // namespace sluice::bench::train
