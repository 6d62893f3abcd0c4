#include "bench/step/c_layer.h"

#include <sluice/recurrent.h>

#include <chrono>

#include "bench/reference.h"

namespace sluice::bench {
namespace {

namespace recurrent = kernels::recurrent;

sluice_cell cell_of(recurrent::CellType cell) {
  switch (cell) {
    case recurrent::CellType::kLstm:
      return SLUICE_LSTM;
    case recurrent::CellType::kGru:
      return SLUICE_GRU;
    case recurrent::CellType::kGruResetBefore:
      return SLUICE_GRU_RESET_BEFORE;
    case recurrent::CellType::kRnnTanh:
      return SLUICE_RNN_TANH;
    case recurrent::CellType::kRnnRelu:
      return SLUICE_RNN_RELU;
  }
  return SLUICE_LSTM;
}

sluice_recurrent_options options_of(const recurrent::Descriptor& descriptor,
                                    const std::vector<std::int64_t>& hidden) {
  auto options = SLUICE_INIT(sluice_recurrent_options);
  options.cell = cell_of(descriptor.cell);
  options.layers = descriptor.layers;
  options.directions = 1;
  options.input = descriptor.input;
  options.hidden = hidden.data();
  options.time = options.rows = 1;
  options.dtype = SLUICE_FLOAT32;
  return options;
}

}  // namespace

struct CLayer::Parts {
  Parts(const BenchShape& step, const HostData& data)
      : shape(step),
        numbers(data),
        device(step.device),
        stream(device),
        hidden(static_cast<std::size_t>(step.descriptor(false).layers),
               step.descriptor(false).hidden),
        plan(stream, options_of(step.descriptor(false), hidden)),
        memory(device, plan.sizes()),
        x(put(data.x)),
        h(put(data.h0)),
        y(device, static_cast<std::size_t>(hidden.back()) * sizeof(float)) {
    if (!data.c0.empty()) c = put(data.c0);
    std::vector<DeviceMemory> kept;
    std::vector<sluice_recurrent_weights> weights;
    for (const HostData::LayerWeights& layer : data.weights) {
      auto set = SLUICE_INIT(sluice_recurrent_weights);
      set.weight_ih = kept.emplace_back(put(layer.weight_ih)).get();
      set.weight_hh = kept.emplace_back(put(layer.weight_hh)).get();
      set.bias_ih = kept.emplace_back(put(layer.bias_ih)).get();
      set.bias_hh = kept.emplace_back(put(layer.bias_hh)).get();
      weights.push_back(set);
    }
    held = memory.get();
    plan.pack(weights, held);
    stream.synchronize();
    args.time = args.rows = 1;
    args.x = x.get();
    args.y = y.get();
    args.h0 = args.hn = h.get();
    args.c0 = args.cn = c.get();
  }

  DeviceMemory put(const std::vector<double>& values) const {
    return {device, stream, std::vector<float>(values.begin(), values.end())};
  }

  BenchShape shape;
  HostData numbers;
  Device device;
  Stream stream;
  std::vector<std::int64_t> hidden;
  RecurrentPlan plan;
  PlanMemory memory;
  DeviceMemory x, h, y, c;
  sluice_recurrent_memory held{};
  sluice_recurrent_forward_args args = SLUICE_INIT(sluice_recurrent_forward_args);
};

CLayer::CLayer(const BenchShape& step, const HostData& data)
    : parts_(std::make_unique<Parts>(step, data)) {}
CLayer::~CLayer() = default;

double CLayer::first_error() {
  parts_->plan.forward(parts_->args, parts_->held);
  const std::vector<float> answers = parts_->y.download<float>(parts_->stream);
  HostResults found{}, expected = oracle_results(parts_->shape, parts_->numbers, Pass::kForward);
  found.y.assign(answers.begin(), answers.end());
  expected.hn.clear();
  expected.cn.clear();
  return worst_error(found, expected);
}

double CLayer::run(std::int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < steps; ++i) parts_->plan.forward(parts_->args, parts_->held);
  parts_->stream.synchronize();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(steps);
}

}  // namespace sluice::bench
