#include "bench/turns/turns.h"

#include <fmt/format.h>

#include <deque>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "bench/recurrent_bench.h"
#include "bench/runner.h"
#include "bench/step/streamed_model.h"
#include "io/safetensors.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

using nlohmann::ordered_json;

constexpr std::array kWeightNames{"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
constexpr std::array kWeightMembers{
    &HostData::LayerWeights::weight_ih, &HostData::LayerWeights::weight_hh,
    &HostData::LayerWeights::bias_ih, &HostData::LayerWeights::bias_hh,
    &HostData::LayerWeights::weight_hr};

/// Flat tensors that live until they are written.
class TensorFile {
 public:
  template <typename T>
  void add(const std::string& name, const std::vector<T>& values) {
    if (values.empty()) return;
    if constexpr (std::is_same_v<T, std::int32_t>) {
      put(name, base::DType::kInt32, kept_integers_.emplace_back(values));
    } else {
      put(name, base::DType::kFloat32, kept_.emplace_back(values.begin(), values.end()));
    }
  }
  void add_weights(const std::string& prefix, const std::vector<HostData::LayerWeights>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (std::size_t k = 0; k < kWeightNames.size(); ++k) {
        add(fmt::format("{}{}.{}", prefix, kWeightNames[k], i), layers[i].*kWeightMembers[k]);
      }
    }
  }
  void add_inputs(const HostData& data, bool backward) {
    add("x", data.x);
    add("h0", data.h0);
    add("c0", data.c0);
    add("lengths", data.lengths);
    add_weights("", data.weights);
    if (!backward) return;
    add("dy", data.dy);
    add("dhn", data.dhn);
    add("dcn", data.dcn);
  }
  void add_results(const HostResults& results) {
    add("y", results.y);
    add("hn", results.hn);
    add("cn", results.cn);
    add("dx", results.dx);
    add("dh0", results.dh0);
    add("dc0", results.dc0);
    add_weights("d_", results.gradients);
  }
  void write(const std::string& path) const { writer_.write(path); }

 private:
  template <typename T>
  void put(const std::string& name, base::DType dtype, const std::vector<T>& values) {
    writer_.add(name, dtype, {std::ssize(values)}, std::as_bytes(std::span(values)));
  }

  std::deque<std::vector<float>> kept_;
  std::deque<std::vector<std::int32_t>> kept_integers_;
  io::SafetensorsWriter writer_;
};

/// A shape and pass that is ready to run.
class Work {
 public:
  virtual ~Work() = default;
  virtual std::vector<BenchResult> rows() const = 0;
  virtual double run(std::size_t index, std::int64_t count) = 0;
};

BenchResult row_of(const BenchShape& shape, Pass pass, const std::string& implementation,
                   const runtime::Device& device, double flops) {
  BenchResult row;
  row.shape = shape;
  row.shape.device = device.name();
  row.pass = pass;
  row.implementation = implementation;
  row.device_model = device.model();
  row.milliseconds = 1;
  row.gflops = flops * 1e-6;
  return row;
}

class LayerWork final : public Work {
 public:
  LayerWork(const BenchShape& shape, Pass pass, const std::string& implementations,
            const std::string& file)
      : shape_(shape),
        pass_(pass),
        device_(runtime::open_device(shape.device)),
        context_(*device_),
        data_(shape) {
    SLUICE_CHECK(shape.has(pass), "shape {} has no {}", shape.name, name_of(pass));
    context_.set_precision({shape.dtype, shape.tf32, shape.int8});
    tensors_.emplace(context_, shape, data_, pass);
    std::istringstream names(implementations);
    for (std::string name; std::getline(names, name, ',');) {
      runners_.emplace_back(context_, shape, pass, name, *tensors_);
      runners_.back().run();  // some decline only now, row lengths for one
    }
    SLUICE_CHECK(!runners_.empty(), "no implementation named");
    TensorFile written;
    written.add_inputs(data_, pass == Pass::kForwardBackward);
    written.add_results(runners_.front().results());
    written.write(file);
    data_ = {};
  }

  std::vector<BenchResult> rows() const override {
    const recurrent::Choice chosen =
        recurrent::make_plan(context_, shape_.descriptor(pass_ == Pass::kForwardBackward));
    const double flops = shape_.forward_flops() * (pass_ == Pass::kForward ? 1 : 3);
    std::vector<BenchResult> rows;
    for (const Runner& runner : runners_) {
      BenchResult row = row_of(shape_, pass_, runner.implementation(), *device_, flops);
      row.is_default = row.implementation == chosen.plan->implementation();
      for (const recurrent::Candidate& candidate : recurrent::candidates(*device_)) {
        if (candidate.name == row.implementation) row.peer = candidate.peer;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

  double run(std::size_t index, std::int64_t count) override {
    SLUICE_CHECK(index < runners_.size(), "there is no implementation {}", index);
    double last = 0;
    for (std::int64_t i = 0; i < count; ++i) last = runners_[index].run();
    return last;
  }

 private:
  BenchShape shape_;
  Pass pass_;
  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
  HostData data_;
  std::optional<SharedTensors> tensors_;
  std::vector<Runner> runners_;
};

class StepWork final : public Work {
 public:
  StepWork(const BenchShape& shape, const std::string& implementations, const std::string& file)
      : model_(shape), device_(runtime::open_device(shape.device)) {
    SLUICE_CHECK(implementations == "auto",
                 "steps go through FeatureModel, which chooses by itself: the implementation is "
                 "auto, not '{}'",
                 implementations);
    TensorFile written;
    written.add_inputs(model_.data(), false);
    written.add("y", model_.answers());
    written.write(file);
  }

  std::vector<BenchResult> rows() const override {
    const BenchShape& shape = model_.shape();
    BenchResult row = row_of(shape, Pass::kStep, "feature-model", *device_,
                             shape.forward_flops() / static_cast<double>(shape.time));
    row.is_default = true;
    return {row};
  }

  double run(std::size_t, std::int64_t count) override { return model_.run(count); }

 private:
  StreamedModel model_;
  std::unique_ptr<runtime::Device> device_;
};

std::unique_ptr<Work> opened(std::istringstream& words) {
  std::string file, pass, implementations, line;
  words >> file >> pass >> implementations;
  std::getline(words, line);
  const BenchShape shape = parse_shapes(line, "open").front();
  if (pass == name_of(Pass::kStep)) return std::make_unique<StepWork>(shape, implementations, file);
  for (const Pass of_layer : {Pass::kForward, Pass::kForwardBackward}) {
    if (pass != name_of(of_layer)) continue;
    return std::make_unique<LayerWork>(shape, of_layer, implementations, file);
  }
  base::fail(ErrorCode::kInvalidArgument,
             "unknown pass '{}'; use forward, forward+backward or step", pass);
}

ordered_json answer(std::unique_ptr<Work>& work, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "open") {
    work.reset();
    work = opened(words);
    return {{"rows", ordered_json::parse(to_json(work->rows()))}};
  }
  if (command == "run") {
    std::size_t index = 0;
    std::int64_t count = 0;
    SLUICE_CHECK(words >> index >> count && count >= 1, "say 'run INDEX COUNT', not '{}'", line);
    SLUICE_CHECK(work != nullptr, "nothing is open");
    return {{"milliseconds", work->run(index, count)}};
  }
  base::fail(ErrorCode::kInvalidArgument, "unknown command '{}'; known are open and run", command);
}

}  // namespace

void run_turns(std::istream& in, std::ostream& out) {
  std::unique_ptr<Work> work;
  for (std::string line; std::getline(in, line);) {
    ordered_json said;
    try {
      said = answer(work, line);
    } catch (const Error& error) {
      said = {{"error", error.what()}};
    }
    out << said.dump() << std::endl;
  }
}

}  // namespace sluice::bench
