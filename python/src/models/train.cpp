#include <nanobind/stl/vector.h>
#include <sluice/train.h>

#include <atomic>

#include "loaded.h"

namespace sluice::python {
namespace {

/// A run that Python code and signals can end. While data are prepared, what is raised leaves at
/// once; later the run saves itself first.
class Run {
 public:
  explicit Run(nb::object metrics) : metrics_(std::move(metrics)) {}

  TrainReport operator()(TrainRequest& request) {
    request.stop = &stop_;
    request.warnings = calls_.warnings();
    request.preparing = [this](bool now) { preparing_ = now; };
    request.interrupt = [this] { check(); };
    if (!metrics_.is_none()) {
      request.metrics = [this](const TrainMetrics& metrics) { tell(metrics); };
    }
    TrainReport report = calls_.run([&] { return train(request); });
    if (raised_) throw *std::exchange(raised_, std::nullopt);
    return report;
  }

 private:
  void check() {
    if (stop_ || !calls_.is_time()) return;
    const nb::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) end(nb::python_error());
  }

  void tell(const TrainMetrics& metrics) {
    // Steps that are told after a stop were made before it.
    if (raised_) return;
    const nb::gil_scoped_acquire acquired;
    try {
      nb::dict dict;
      dict["kind"] = metrics.is_validation ? "validation" : "step";
      dict["step"] = metrics.step;
      dict["epoch"] = metrics.epoch;
      dict["fraction"] = metrics.fraction;
      if (metrics.is_validation) {
        dict["improved"] = metrics.improved;
      } else {
        dict["source_tokens"] = metrics.source_tokens;
        dict["target_tokens"] = metrics.target_tokens;
      }
      for (const auto& [name, value] : metrics.values) dict[name.c_str()] = value;
      metrics_(dict);
    } catch (nb::python_error& error) {
      end(std::move(error));
    }
  }

  void end(nb::python_error error) {
    if (preparing_) throw std::move(error);
    raised_.emplace(std::move(error));
    stop_ = true;
  }

  nb::object metrics_;
  Calls calls_;
  bool preparing_ = false;
  std::atomic<bool> stop_ = false;
  std::optional<nb::python_error> raised_;
};

nb::dict run(const std::string& config, const std::vector<std::string>& overrides, bool resume,
             bool quiet, nb::object metrics, const std::string& trace, bool breakdown,
             std::int64_t first_step, std::int64_t last_step) {
  TrainRequest request;
  request.config_path = config;
  request.overrides = overrides;
  request.resume = resume;
  request.quiet = quiet;
  request.profile = {trace, breakdown, first_step, last_step};
  const TrainReport report = Run(std::move(metrics))(request);
  nb::dict dict;
  dict["directory"] = to_text(report.directory);
  dict["steps"] = report.steps;
  dict["epochs"] = report.epochs;
  dict["seconds"] = report.seconds;
  dict["best_metric"] = report.best_metric;
  dict["best_metric_name"] = to_text(report.best_metric_name);
  dict["best_metric_text"] = to_text(report.best_metric_text);
  dict["best_step"] = report.best_step;
  dict["stopped"] = report.stopped;
  dict["rank"] = report.rank;
  return dict;
}

}  // namespace

void bind_train(nb::module_& module) {
  module.def("train", run, "config"_a, "overrides"_a, "resume"_a, "quiet"_a, "metrics"_a.none(),
             "trace"_a, "breakdown"_a, "first_step"_a, "last_step"_a);
}

}  // namespace sluice::python
