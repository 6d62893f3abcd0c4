#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "bench/recurrent_bench.h"

namespace sluice::bench {

std::string to_json(const std::vector<BenchResult>& results) {
  using nlohmann::ordered_json;
  const auto number = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json(nullptr);
  };
  ordered_json list = ordered_json::array(), machine;
  std::string_view machine_of;
  for (const BenchResult& result : results) {
    const BenchShape& shape = result.shape;
    ordered_json row;
    row["name"] = shape.name;
    row["cell"] = kernels::recurrent::name_of(shape.cell);
    row["time"] = shape.time;
    row["batch"] = shape.batch;
    row["input"] = shape.input;
    row["hidden"] = shape.hidden;
    row["layers"] = shape.layers;
    row["directions"] = shape.directions;
    // One number where all layers have the same.
    const std::vector<std::int64_t>& projections = shape.projections;
    if (shape.descriptor(false).is_uneven()) {
      row["projection"] = projections;
    } else {
      row["projection"] = projections.empty() ? 0 : projections.front();
    }
    row["dtype"] = shape.dtype_name();
    row["lengths"] = shape.uniform_lengths ? "uniform" : "full";
    if (shape.descriptor(true).has_extras()) {
      row["reset"] = shape.reset;
      row["zoneout"] = shape.zoneout;
      row["recurrent_dropout"] = shape.recurrent_dropout;
      row["peepholes"] = shape.peepholes;
      row["layer_norm"] = shape.layer_norm;
      row["hard_sigmoid"] = shape.hard_sigmoid;
    }
    row["seed"] = shape.seed;
    row["device"] = shape.device;
    row["device_model"] = result.device_model;
    row["pass"] = name_of(result.pass);
    row["implementation"] = result.implementation;
    row["peer"] = result.peer;
    row["default"] = result.is_default;
    row["milliseconds"] = result.milliseconds;
    row["gflops"] = result.gflops;
    row["gemm_gflops"] = number(result.gemm_gflops);
    row["share_of_gemm"] = number(result.share_of_gemm());
    row["error"] = number(result.error);
    if (result.error) row["error_against"] = result.error_against;
    row["speedup_over_peer"] = number(result.speedup_over_peer);
    if (machine_of != shape.device) {
      machine = ordered_json::object();
      add_machine(machine, shape.device);
      machine_of = shape.device;
    }
    row.update(machine);
    list.push_back(std::move(row));
  }
  return list.dump(1) + "\n";
}

}  // namespace sluice::bench
