#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "bench/train/train_bench.h"

namespace sluice::bench::train {

std::string to_json(const std::vector<TrainResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TrainResult& result : results) {
    const TrainShape& shape = result.shape;
    nlohmann::ordered_json row;
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
    row["device"] = shape.device;
    row["device_model"] = result.device_model;
    row["pass"] = "training step";
    row["implementation"] = result.implementation;
    row["peer"] = false;
    row["default"] = result.is_default;
    row["milliseconds"] = result.milliseconds;
    row["pairs_per_second"] = result.pairs_per_second();
    row["tokens_per_second"] = result.tokens_per_second();
    row["peak_bytes"] = result.peak_bytes;
    row["parameters"] = result.parameters;
    row["loss"] = result.loss;
    add_machine(row, shape.device);
    list.push_back(std::move(row));
  }
  return list.dump(1) + "\n";
}

}  // namespace sluice::bench::train
