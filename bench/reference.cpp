#include "bench/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/runner.h"
#include "oracle/recurrent.h"
#include "runtime/rng.h"

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

using kernels::recurrent::CellMask;

/// Calls put(whether a unit is chosen) for width(layer) units of all rows, layers and directions,
/// at `times` times, as runs without a seed choose them; `next` comes before each layer and
/// direction.
template <typename Width, typename Next, typename Put>
void for_chosen(const BenchShape& shape, CellMask mask, double rate, std::int64_t times,
                const Width& width, const Next& next, const Put& put) {
  const std::uint32_t threshold = runtime::dropout_threshold(rate);
  for (std::int64_t k = 0; k < shape.layers * shape.directions; ++k) {
    runtime::DropoutKey key;
    key.stream = static_cast<std::uint32_t>(k / shape.directions);
    const std::uint32_t first = kernels::recurrent::unit_of(mask, k % shape.directions);
    const std::int64_t units = width(k / shape.directions);
    next();
    for (std::int64_t t = 0; t < times; ++t) {
      for (std::int64_t row = 0; row < shape.batch; ++row) {
        for (std::int64_t unit = 0; unit < units; ++unit) {
          put(key.word(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(t),
                       first + static_cast<std::uint32_t>(unit)) < threshold);
        }
      }
    }
  }
}

void fill_masks(const BenchShape& shape, bool training, oracle::StackInput& input) {
  const kernels::recurrent::Descriptor d = shape.descriptor(training);
  const auto outputs = [&](std::int64_t layer) { return d.output_of(layer); };
  const auto zoneout = [&](CellMask mask, double rate, const auto& width,
                           std::vector<std::vector<double>>& kept) {
    if (rate == 0) return;
    for_chosen(
        shape, mask, rate, shape.time, width, [&] { kept.emplace_back(); },
        [&](bool chosen) {
          kept.back().push_back(!training ? rate : chosen ? 1 : 0);
        });
  };
  zoneout(CellMask::kZoneoutH, d.zoneout_h, outputs, input.zoneout_h);
  zoneout(
      CellMask::kZoneoutC, d.zoneout_c, [&](std::int64_t) { return d.hidden; }, input.zoneout_c);
  if (!d.drops_recurrent()) return;
  for_chosen(
      shape, CellMask::kRecurrentDropout, d.recurrent_dropout, 1, outputs,
      [&] { input.recurrent_dropout.emplace_back(); },
      [&](bool chosen) {
        input.recurrent_dropout.back().push_back(chosen ? 0 : 1 / (1 - d.recurrent_dropout));
      });
}

oracle::Weights of_oracle(const HostData::LayerWeights& layer) {
  oracle::Weights weights;
  weights.weight_ih = layer.weight_ih;
  weights.weight_hh = layer.weight_hh;
  weights.bias_ih = layer.bias_ih;
  weights.bias_hh = layer.bias_hh;
  weights.weight_hr = layer.weight_hr;
  weights.peephole = layer.weight_peephole;
  weights.gain_ih = layer.gain_ih;
  weights.gain_hh = layer.gain_hh;
  weights.gain_c = layer.gain_c;
  weights.shift_c = layer.shift_c;
  return weights;
}

}  // namespace

HostResults oracle_results(const BenchShape& shape, const HostData& data, Pass pass) {
  oracle::StackShape stack;
  stack.cell = oracle::cell_named(kernels::recurrent::name_of(shape.cell));
  stack.time = shape.time;
  stack.rows = shape.batch;
  stack.input = shape.input;
  stack.hidden = shape.hidden;
  stack.layers = shape.layers;
  stack.directions = shape.directions;
  stack.peepholes = shape.peepholes;
  stack.layer_norm = shape.layer_norm;
  stack.hard_sigmoid = shape.hard_sigmoid;
  const kernels::recurrent::Descriptor descriptor = shape.descriptor(pass != Pass::kForward);
  for (std::int64_t layer = 0; descriptor.projects() && layer < shape.layers; ++layer) {
    stack.projection.push_back(descriptor.output_of(layer));
  }
  std::vector<oracle::Weights> weights;
  for (const auto& layer : data.weights) weights.push_back(of_oracle(layer));
  oracle::StackInput input;
  input.x = data.x;
  input.h0 = data.h0;
  input.c0 = data.c0;
  input.lengths.assign(data.lengths.begin(), data.lengths.end());
  input.resets.assign(data.resets.begin(), data.resets.end());
  fill_masks(shape, pass == Pass::kForwardBackward, input);
  const oracle::StackOutput output = oracle::forward(stack, weights, input);
  HostResults results{output.y, output.hn, output.cn, {}, {}, {}, {}};
  if (pass == Pass::kForward) return results;
  const oracle::StackGradients gradients =
      oracle::backward(stack, weights, input, output, {data.dy, data.dhn, data.dcn, {}});
  results.dx = gradients.dx;
  results.dh0 = gradients.dh0;
  results.dc0 = gradients.dc0;
  for (const oracle::Weights& layer : gradients.weights) {
    results.gradients.push_back({layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh,
                                 layer.weight_hr, layer.peephole, layer.gain_ih, layer.gain_hh,
                                 layer.gain_c, layer.shift_c});
  }
  return results;
}

std::optional<HostResults> float32_results(const runtime::Context& context, const BenchShape& shape,
                                           const HostData& data, Pass pass, std::string_view name) {
  BenchShape exact = shape;
  exact.set_dtype("float32");
  runtime::Context of_float32(context);
  of_float32.set_precision({exact.dtype, exact.tf32, exact.int8});
  try {
    SharedTensors tensors(of_float32, exact, data, pass, 1);
    return Runner(of_float32, exact, pass, name, tensors).results();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kOutOfMemory) throw;
    return std::nullopt;
  }
}

double worst_error(const HostResults& results, const HostResults& expected) {
  double worst = 0;
  for (const auto member : {&HostResults::y, &HostResults::hn, &HostResults::cn, &HostResults::dx,
                            &HostResults::dh0, &HostResults::dc0}) {
    worst = worse(relative_rms(results.*member, expected.*member), worst);
  }
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    for (const auto member : HostData::kArrays) {
      worst =
          worse(relative_rms(results.gradients[i].*member, expected.gradients[i].*member), worst);
    }
  }
  return worst;
}

}  // namespace sluice::bench
