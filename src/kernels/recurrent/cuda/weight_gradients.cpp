#include <algorithm>

#include "kernels/recurrent/cuda/cluster_backward/launch.h"
#include "kernels/recurrent/cuda/scaled_gradients.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// Of one layer and direction. Each target gets one product or sum, or its rows one each.
struct Gradients {
  Gradients(const Run& run_in, const BackwardArgs& args)
      : run(run_in), depth(run.args.time * run.args.rows), accumulate(args.accumulate) {}

  const Run& run;
  const std::int64_t depth;  ///< all steps and rows
  const bool accumulate;     ///< whether targets are added to, or written

  /// target (+)= left^T [.., depth] * right [depth, ..].
  void product(std::int64_t lane, const Tensor& target, const std::byte* left,
               std::int64_t left_stride, const std::byte* right) const {
    if (target) rows_of_product(lane, target, 0, target.size(0), left, left_stride, right);
  }

  /// The same of rows [first, first + rows) of target.
  void rows_of_product(std::int64_t lane, const Tensor& target, std::int64_t first,
                       std::int64_t rows, const std::byte* left, std::int64_t left_stride,
                       const std::byte* right) const {
    const std::int64_t columns = target.size(1);
    multiply(run, lane, rows, columns, depth, {left, left_stride, true}, {right, columns},
             {target.data_as<float>() + first * columns, columns, DType::kFloat32, accumulate});
  }

  /// `gates`: those of a unit that lie together. `row_scales`: of values that are float16 then, or
  /// null.
  void column_sums_of(std::int64_t lane, const std::byte* values, std::int64_t stride,
                      const Tensor& first, const Tensor& second, std::int64_t gates = 1,
                      const float* row_scales = nullptr) const {
    if (!first && !second) return;
    ColumnSums sums = sums_on(lane);
    sums.values = values;
    sums.stride = stride;
    sums.depth = depth;
    sums.columns = run.engine.sizes.gate_width;
    sums.gates = gates;
    sums.targets[0] = first.data_as<float>();
    sums.targets[1] = second.data_as<float>();
    const cudaStream_t stream = run.engine.lanes[lane];
    if (row_scales) {
      scaled_column_sums(stream, sums, row_scales);
    } else {
      column_sums(stream, run.engine.descriptor.dtype, sums);
    }
  }

  /// The same of what the launch has summed already.
  void launch_sums(std::int64_t lane, const float* values, const Tensor& first,
                   const Tensor& second) const {
    if (!first && !second) return;
    ColumnSums sums = sums_on(lane);
    sums.values = values;
    sums.stride = sums.columns = run.engine.sizes.gate_width;
    sums.depth = cluster_backward::sums_of(run.engine.descriptor, run.args.rows);
    sums.gates = 1;
    sums.targets[0] = first.data_as<float>();
    sums.targets[1] = second.data_as<float>();
    column_sums(run.engine.lanes[lane], DType::kFloat32, sums);
  }

  /// target [columns] (+)= the sum of values [depth, columns] times factors, which are in storage.
  void sums_of_products(std::int64_t lane, const Tensor& target, const std::byte* values,
                        const std::byte* factors, std::int64_t gates) const {
    if (!target) return;
    ColumnSums sums = sums_on(lane);
    sums.values = values;
    sums.factors = factors;
    sums.stored_factors = factors != nullptr;
    sums.stride = target.size(0);
    sums.depth = depth;
    sums.columns = target.size(0);
    sums.gates = gates;
    sums.targets[0] = target.data_as<float>();
    column_sums(run.engine.lanes[lane], run.engine.descriptor.dtype, sums);
  }

  /// target [H] (+)= the sum of a gate's gradients [.., H] times the cell states that it sees.
  void peephole(std::int64_t lane, float* target, const std::byte* values, std::int64_t stride,
                const float* cells) const {
    ColumnSums sums = sums_on(lane);
    sums.values = values;
    sums.factors = cells;
    sums.stride = stride;
    sums.depth = depth;
    sums.columns = run.engine.sizes.hidden;
    sums.gates = 1;
    sums.targets[0] = target;
    column_sums(run.engine.lanes[lane], run.engine.descriptor.dtype, sums);
  }

 private:
  /// None yet, with the lane's scratch.
  ColumnSums sums_on(std::int64_t lane) const {
    const auto& scratch = run.engine.workspace.backward.sums;
    ColumnSums sums{};
    sums.partial = run.workspace<float>(scratch[static_cast<std::size_t>(lane)]);
    sums.accumulate = accumulate;
    return sums;
  }
};

/// Where the products with the layer's input are made, and all else.
struct GradientLanes {
  std::int64_t inputs, rest;
};

GradientLanes lanes_of(const Run& run, std::int64_t layer, std::int64_t direction) {
  const Engine& engine = run.engine;
  const std::int64_t steps = run.lane_of(layer, direction);
  if (spreads_gradients(engine.descriptor, engine.rung)) {
    return {kInputWeightLane, kOtherWeightLane};
  }
  if (!engine.rung.persistent()) return {steps, steps};
  // The steps of the layer below may be about to begin.
  const std::int64_t products = run.product_lane_of(layer);
  const bool own = layer == 0 || is_layered(engine.descriptor, engine.rung);
  return {products, own ? steps : products};
}

/// Those of biases, gains and peepholes, which are sums of columns.
void column_gradients(const Gradients& all, const GradientFactors& factors,
                      const LayerWeights& gradients, std::int64_t lane, std::size_t i,
                      std::int64_t direction) {
  const Run& run = all.run;
  const Sizes& sizes = run.engine.sizes;
  const BackwardLayout& layout = run.engine.workspace.backward;
  const StateLayout& state = run.engine.reserve.states[i];
  if (sizes.norms) {
    const auto* d_sums = run.workspace<const std::byte>(layout.d_sums[i]);
    const auto* d_norm_c = run.workspace<const std::byte>(layout.d_norm_c[i]);
    const std::int64_t together = run.engine.rung.persistent() ? sizes.gates : 1;
    const auto times = [&](const Tensor& target, const std::byte* values, std::size_t with,
                           std::int64_t gates) {
      all.sums_of_products(lane, target, values, run.reserve<const std::byte>(with), gates);
    };
    all.column_sums_of(lane, d_sums, sizes.gate_width, gradients.bias_ih, gradients.bias_hh,
                       together);
    times(gradients.gain_ih, d_sums, state.norm_ih, together);
    times(gradients.gain_hh, d_sums, state.norm_hh, together);
    times(gradients.gain_c, d_norm_c, state.norm_c, 1);
    all.sums_of_products(lane, gradients.shift_c, d_norm_c, nullptr, 1);
  } else if (!layout.gate_sums.empty()) {
    all.launch_sums(lane, run.workspace<const float>(layout.gate_sums[i]), gradients.bias_ih,
                    gradients.bias_hh);
  } else if (!sizes.gates_apart) {
    all.column_sums_of(lane, factors.d_input, factors.input_stride, gradients.bias_ih,
                       gradients.bias_hh, 1, factors.row_scales);
  } else {
    all.column_sums_of(lane, factors.d_input, factors.input_stride, gradients.bias_ih, {}, 1,
                       factors.row_scales);
    all.column_sums_of(lane, factors.d_recurrent, factors.recurrent_stride, gradients.bias_hh, {},
                       1, factors.row_scales);
  }
  if (auto* peepholes = gradients.weight_peephole.data_as<float>()) {
    const std::int64_t hidden = sizes.hidden, step = run.args.rows * hidden;
    const float* c = run.reserve<const float>(state.c);
    const float* before = c + direction * step;
    const float* fresh =
        sizes.fresh_cells ? run.reserve<const float>(state.c_fresh) : c + (1 - direction) * step;
    const auto add = [&](std::int64_t peephole, std::int64_t gate, const float* cells) {
      all.peephole(lane, peepholes + peephole * hidden, run.element(factors.d_input, gate * hidden),
                   factors.input_stride, cells);
    };
    add(0, 0, before);
    add(1, 1, before);
    add(2, 3, fresh);
  }
}

/// That of weight_hh; a GRU that resets before its product has r * h as a factor of n's rows.
void recurrent_product(const Gradients& all, const GradientFactors& factors, const Tensor& target,
                       std::int64_t lane, std::size_t i) {
  const Run& run = all.run;
  const std::int64_t stride = factors.recurrent_stride;
  if (!run.engine.sizes.resets_before) {
    return all.product(lane, target, factors.d_recurrent, stride, factors.h);
  }
  if (!target) return;
  const std::int64_t hidden = run.engine.sizes.hidden, of_h = 2 * hidden;
  const auto* h_reset = run.reserve<const std::byte>(run.engine.reserve.states[i].h_reset);
  all.rows_of_product(lane, target, 0, of_h, factors.d_recurrent, stride, factors.h);
  all.rows_of_product(lane, target, of_h, hidden, run.element(factors.d_recurrent, of_h), stride,
                      h_reset);
}

/// Rows of a target that the first of two products takes: of whole tiles, at most all.
std::int64_t first_half(const Tensor& target) {
  constexpr std::int64_t kTile = 128;
  const std::int64_t rows = target.size(0);
  return std::min(rows, (rows / 2 + kTile - 1) / kTile * kTile);
}

}  // namespace

std::vector<std::function<void()>> weight_gradient_parts(const Run& run, const BackwardArgs& args,
                                                         std::int64_t layer) {
  std::vector<std::function<void()>> parts;
  if (args.gradients.empty()) return parts;
  if (ScaledGradients::pay(run, layer)) {
    parts.emplace_back([&run, &args, layer] { weight_gradients(run, args, layer); });
    return parts;
  }
  const Gradients all(run, args);
  const auto halves = [&](std::int64_t lane, const Tensor& target, const std::byte* left,
                          std::int64_t left_stride, const std::byte* right) {
    if (!target) return;
    const std::int64_t half = first_half(target), rest = target.size(0) - half;
    parts.emplace_back(
        [=] { all.rows_of_product(lane, target, 0, half, left, left_stride, right); });
    if (rest == 0) return;
    parts.emplace_back([=] {
      all.rows_of_product(lane, target, half, rest, run.element(left, half), left_stride, right);
    });
  };
  for (std::int64_t d = 0; d < run.engine.sizes.directions; ++d) {
    const auto i = static_cast<std::size_t>(layer * run.engine.sizes.directions + d);
    const GradientLanes lanes = lanes_of(run, layer, d);
    const GradientFactors factors(run, layer, d);
    const LayerWeights& to = args.gradients[i];
    parts.emplace_back([=] { column_gradients(all, factors, to, lanes.rest, i, d); });
    halves(lanes.inputs, to.weight_ih, factors.d_input, factors.input_stride, run.input_of(layer));
    // GRUs that reset before the product, whose n has another factor, have no such launches.
    halves(lanes.rest, to.weight_hh, factors.d_recurrent, factors.recurrent_stride, factors.h);
  }
  return parts;
}

void weight_gradients(const Run& run, const BackwardArgs& args, std::int64_t layer) {
  if (args.gradients.empty()) return;
  const Sizes& sizes = run.engine.sizes;
  Lanes& streams = run.engine.lanes;
  const Gradients all(run, args);
  std::optional<ScaledGradients> scaled;
  // Where launches scale, layers next to each other have memory of their own for it, so that it
  // need not wait for products of the layer above.
  const GradientLanes first = lanes_of(run, layer, 0);
  const std::int64_t scaling = ScaledGradients::by_row(run) ? first.rest : first.inputs;
  if (ScaledGradients::pay(run, layer)) scaled.emplace(run, args, layer, scaling);
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const auto i = static_cast<std::size_t>(layer * sizes.directions + d);
    const GradientLanes lanes = lanes_of(run, layer, d);
    const GradientFactors factors(run, layer, d);
    const LayerWeights& to = args.gradients[i];
    // They wait for memory, and the products beside them for tensor cores.
    column_gradients(all, factors, to, lanes.rest, i, d);
    if (scaled) {
      streams.follow(lanes.inputs, scaling);
      scaled->input_product(lanes.inputs, to.weight_ih, d);
      streams.follow(lanes.rest, scaling);
      scaled->recurrent_product(lanes.rest, to.weight_hh, d);
    } else {
      all.product(lanes.inputs, to.weight_ih, factors.d_input, factors.input_stride,
                  run.input_of(layer));
      recurrent_product(all, factors, to.weight_hh, lanes.rest, i);
    }
    if (sizes.projected) {
      all.product(lanes.rest, to.weight_hr,
                  run.workspace<const std::byte>(run.engine.workspace.backward.dh_out[i]),
                  run.engine.descriptor.output_of(layer),
                  run.reserve<const std::byte>(run.engine.reserve.states[i].h_full));
    }
  }
}

}  // namespace sluice::kernels::recurrent::cuda
