#include "bench/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/recurrent.h"

namespace sluice::bench {
namespace {

double relative_rms(const std::vector<double>& values, const std::vector<double>& expected) {
  SLUICE_ASSERT(values.size() == expected.size());
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    difference += (values[i] - expected[i]) * (values[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (norm == 0) return difference == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm);
}

// std::max loses a NaN.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

HostResults oracle_results(const BenchShape& shape, const HostData& data, Pass pass) {
  oracle::StackShape stack;
  stack.cell =
      shape.cell == kernels::recurrent::CellType::kLstm ? oracle::Cell::kLstm : oracle::Cell::kGru;
  stack.time = shape.time;
  stack.rows = shape.batch;
  stack.input = shape.input;
  stack.hidden = shape.hidden;
  stack.layers = shape.layers;
  stack.directions = shape.directions;
  stack.projection = shape.projection;
  std::vector<oracle::Weights> weights;
  for (const auto& layer : data.weights) {
    weights.push_back(
        {layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh, layer.weight_hr});
  }
  oracle::StackInput input;
  input.x = data.x;
  input.h0 = data.h0;
  input.c0 = data.c0;
  input.lengths.assign(data.lengths.begin(), data.lengths.end());
  const oracle::StackOutput output = oracle::forward(stack, weights, input);
  HostResults results{output.y, output.hn, output.cn, {}, {}, {}, {}};
  if (pass == Pass::kForward) return results;
  const oracle::StackGradients gradients =
      oracle::backward(stack, weights, input, output, {data.dy, data.dhn, data.dcn, {}});
  results.dx = gradients.dx;
  results.dh0 = gradients.dh0;
  results.dc0 = gradients.dc0;
  for (const oracle::Weights& layer : gradients.weights) {
    results.gradients.push_back(
        {layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh, layer.weight_hr});
  }
  return results;
}

double worst_error(const HostResults& results, const HostResults& expected) {
  double worst = 0;
  for (const auto member : {&HostResults::y, &HostResults::hn, &HostResults::cn, &HostResults::dx,
                            &HostResults::dh0, &HostResults::dc0}) {
    worst = worse(relative_rms(results.*member, expected.*member), worst);
  }
  using Layer = HostData::LayerWeights;
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    for (const auto member : {&Layer::weight_ih, &Layer::weight_hh, &Layer::bias_ih,
                              &Layer::bias_hh, &Layer::weight_hr}) {
      worst =
          worse(relative_rms(results.gradients[i].*member, expected.gradients[i].*member), worst);
    }
  }
  return worst;
}

}  // namespace sluice::bench
