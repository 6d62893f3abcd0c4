#include "bench/step/step_bench.h"

#include <algorithm>
#include <functional>
#include <ostream>

#include "bench/output_file.h"
#include "bench/reference.h"
#include "bench/runner.h"
#include "bench/statistics.h"
#include "bench/step/c_layer.h"
#include "bench/step/streamed_model.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

constexpr std::string_view kDefaultShapes =
    "lstm128 cell=lstm time=100 batch=1 input=128 hidden=128\n"
    "gru128 cell=gru time=100 batch=1 input=128 hidden=128\n";
constexpr const char* kRow = "{:<20} {:<6} {:<28} {:>12} {:>9} {:>9}\n";

struct Entrant {
  std::string name;
  bool peer = false;
  bool is_default = false;
  std::optional<double> error;
  std::function<double(std::int64_t steps)> run;  ///< milliseconds a step
};

/// The relative error of the answers to all frames, one call per frame.
double error_of(StreamedModel& model) {
  const std::vector<float> answers = model.answers();
  HostResults found{}, expected = oracle_results(model.shape(), model.data(), Pass::kForward);
  found.y.assign(answers.begin(), answers.end());
  expected.hn.clear();
  expected.cn.clear();
  return worst_error(found, expected);
}

/// Each call of the layer alone, with tensors of its own.
Entrant layer_entrant(const runtime::Context& context, const BenchShape& step,
                      const recurrent::Candidate& candidate, SharedTensors& tensors) {
  const auto runner =
      std::make_shared<Runner>(context, step, Pass::kForward, candidate.name, tensors);
  return {std::string(candidate.name), candidate.peer, false, std::nullopt,
          [runner](std::int64_t steps) {
            double all = 0;
            for (std::int64_t i = 0; i < steps; ++i) all += runner->run();
            return all / static_cast<double>(steps);
          }};
}

void print(std::ostream& out, const BenchResult& result) {
  const std::string marked = result.implementation + (result.peer         ? " (peer)"
                                                      : result.is_default ? " *"
                                                                          : "");
  out << fmt::format(
             kRow, result.shape.name, recurrent::name_of(result.shape.cell), marked,
             fmt::format("{:.2f}", 1e3 * result.milliseconds),
             result.error ? fmt::format("{:.1e}", *result.error) : "-",
             result.speedup_over_peer ? fmt::format("{:.2f}x", *result.speedup_over_peer) : "-")
      << std::flush;
}

std::vector<BenchResult> run_shape(const StepBenchOptions& options, const BenchShape& shape) {
  StreamedModel model(shape);
  const auto device = runtime::open_device(shape.device);
  const runtime::Context context(*device);
  BenchShape step = shape;
  step.time = 1;
  const HostData data(step);
  SharedTensors tensors(context, step, data, Pass::kForward);
  const auto descriptor = step.descriptor(false);
  std::vector<Entrant> entrants;
  entrants.push_back({"feature-model", false, true, error_of(model),
                      [&](std::int64_t steps) { return model.run(steps); }});
  std::optional<CLayer> c_layer;
  if (!descriptor.projects()) {
    c_layer.emplace(step, data);
    entrants.push_back({"c-api", false, false, c_layer->first_error(),
                        [&](std::int64_t steps) { return c_layer->run(steps); }});
  }
  for (const recurrent::Candidate& candidate : recurrent::candidates(*device)) {
    if (recurrent::refusal(candidate, descriptor, *device)) continue;
    entrants.push_back(layer_entrant(context, step, candidate, tensors));
  }

  std::vector<std::vector<double>> times(entrants.size());
  std::vector<bool> peers;
  for (Entrant& entrant : entrants) {
    entrant.run(options.calls);
    peers.push_back(entrant.peer);
  }
  for (std::int64_t turn = 0; turn < options.repeats; ++turn) {
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      times[i].push_back(entrants[i].run(options.calls));
    }
  }
  const bool has_peer = std::ranges::find(peers, true) != peers.end();
  const std::vector<double> best_peer = best_of(times, peers);
  std::vector<BenchResult> results;
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    BenchResult result;
    result.shape = shape;
    result.shape.device = device->name();
    result.pass = Pass::kStep;
    result.implementation = entrants[i].name;
    result.device_model = device->model();
    result.peer = entrants[i].peer;
    result.is_default = entrants[i].is_default;
    result.milliseconds = median(times[i]);
    result.gflops = step.forward_flops() / result.milliseconds * 1e-6;
    result.error = entrants[i].error;
    if (has_peer) result.speedup_over_peer = median_ratio(best_peer, times[i]);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

std::vector<BenchResult> run_step_bench(const StepBenchOptions& options, std::ostream& out) {
  SLUICE_CHECK(options.repeats >= 1, "repeats is {}; it must be at least 1", options.repeats);
  SLUICE_CHECK(options.calls >= 1, "calls is {}; it must be at least 1", options.calls);
  std::vector<BenchShape> shapes = options.shapes.empty()
                                       ? parse_shapes(kDefaultShapes, "the default shapes")
                                       : read_shapes(options.shapes, "", options.device);
  for (BenchShape& shape : shapes) {
    if (!options.device.empty()) shape.device = options.device;
  }
  if (!options.json.empty()) require_writable(options.json);
  out << fmt::format(kRow, "shape", "cell", "*=default", "us a step", "error", "vs peer");
  std::vector<BenchResult> all;
  for (const BenchShape& shape : shapes) {
    if (const auto reason = refuse_steps(shape)) {
      out << fmt::format("# {}: {}\n", shape.name, *reason);
      continue;
    }
    for (BenchResult& result : run_shape(options, shape)) {
      print(out, result);
      all.push_back(std::move(result));
    }
    if (!options.json.empty()) write_file(options.json, to_json(all));
  }
  SLUICE_CHECK(!all.empty(),
               "{} holds no shape of single steps: batch=1 directions=1 dtype=float32",
               options.shapes);
  return all;
}

}  // namespace sluice::bench
