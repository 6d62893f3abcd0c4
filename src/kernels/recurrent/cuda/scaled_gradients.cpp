#include "kernels/recurrent/cuda/scaled_gradients.h"

#include "kernels/recurrent/cuda/scaled_product.h"
#include "kernels/recurrent/cuda/scaled_weights.h"

namespace sluice::kernels::recurrent::cuda {

GradientFactors::GradientFactors(const Run& run, std::int64_t layer, std::int64_t direction) {
  const Sizes& sizes = run.engine.sizes;
  const auto i = static_cast<std::size_t>(layer * sizes.directions + direction);
  const BackwardLayout& layout = run.engine.workspace.backward;
  const StateLayout& state = run.engine.reserve.states[i];
  const std::int64_t output = run.engine.descriptor.output_of(layer);
  const auto l = static_cast<std::size_t>(layer);
  input_stride = sizes.directions * sizes.gate_width;
  d_input = run.element(run.at<const std::byte>(layout.d_input[l]), direction * sizes.gate_width);
  row_scales =
      layout.row_scales.empty() ? nullptr : run.workspace<const float>(layout.row_scales[l]);
  d_recurrent = sizes.gates_apart ? run.workspace<const std::byte>(layout.d_recurrent[i]) : d_input;
  recurrent_stride = sizes.gates_apart ? sizes.gate_width : input_stride;
  // The state before time t is in row t, or in row t + 1 of the direction that comes from there.
  const std::byte* lone = run.lone_h0(layer, direction);
  h = lone ? lone
           : run.element(run.reserve<const std::byte>(sizes.drops ? state.h_dropped : state.h),
                         direction * run.args.rows * output);
}

bool ScaledGradients::pay(const Run& run, std::int64_t layer) {
  const Engine& engine = run.engine;
  // What is left scaled has no other form.
  if (by_row(run)) return true;
  if (engine.workspace.backward.scaled.empty() || !run.context.tf32()) return false;
  return pays_to_scale(engine.descriptor, layer, run.args.time * run.args.rows);
}

bool ScaledGradients::by_row(const Run& run) {
  return !run.engine.workspace.backward.row_scales.empty();
}

ScaledGradients::ScaledGradients(const Run& run, const BackwardArgs& args, std::int64_t layer,
                                 std::int64_t lane)
    : run_(run),
      layout_(run.engine.workspace.backward.scaled[static_cast<std::size_t>(layer)]),
      d_input_(by_row(run)
                   ? run.at<std::uint16_t>(
                         run.engine.workspace.backward.d_input[static_cast<std::size_t>(layer)])
                   : half(layout_.d_input)),
      depth_(run.args.time * run.args.rows),
      accumulate_(args.accumulate) {
  const Sizes& sizes = run.engine.sizes;
  const GradientFactors launched(run, layer, 0);
  ScaledFactors scaling{};
  scaling.row_scales = launched.row_scales;
  scaling.depth = depth_;
  scaling.rows = run.args.rows;
  scaling.lengths = run.lengths();
  scaling.scales = run.workspace<FactorScales>(layout_.scales);
  const auto scale = [&](const std::byte* from, std::size_t to, std::int64_t width) {
    scaling.factors[scaling.count] = {reinterpret_cast<const float*>(from), half(to), width, false};
    return scaling.count++;
  };
  // Both directions' gate gradients, side by side.
  int d_input = ScaledFactors::kRowByRow;
  if (!by_row(run)) {
    d_input = scale(launched.d_input, layout_.d_input, sizes.directions * sizes.gate_width);
  }
  const int input =
      scale(run.input_of(layer), layout_.input, run.engine.descriptor.input_of(layer));
  scaling.factors[input].ends = layer == 0;
  scaling.products[scaling.product_count++] = {d_input, input};
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const GradientFactors factors(run, layer, d);
    const int h = scale(factors.h, layout_.h[i], sizes.hidden);
    const int gates = sizes.gates_apart && !by_row(run)
                          ? scale(factors.d_recurrent, layout_.d_recurrent[i], sizes.gate_width)
                          : d_input;
    scaling.products[scaling.product_count++] = {gates, h};
  }
  scale_factors(run.engine.lanes[lane], scaling);
}

void ScaledGradients::input_product(std::int64_t lane, const Tensor& target,
                                    std::int64_t direction) const {
  const Sizes& sizes = run_.engine.sizes;
  multiply(lane, target,
           {d_input_ + direction * sizes.gate_width, sizes.directions * sizes.gate_width},
           half(layout_.input), 0);
}

void ScaledGradients::recurrent_product(std::int64_t lane, const Tensor& target,
                                        std::int64_t direction) const {
  const Sizes& sizes = run_.engine.sizes;
  const auto i = static_cast<std::size_t>(direction);
  Half gates{d_input_ + direction * sizes.gate_width, sizes.directions * sizes.gate_width};
  if (sizes.gates_apart) {
    const std::size_t apart =
        by_row(run_) ? run_.engine.workspace.backward.d_recurrent[i] : layout_.d_recurrent[i];
    gates = {half(apart), sizes.gate_width};
  }
  multiply(lane, target, gates, half(layout_.h[i]), 1 + static_cast<int>(direction));
}

void ScaledGradients::multiply(std::int64_t lane, const Tensor& target, const Half& left,
                               const std::uint16_t* right, int product) const {
  if (!target) return;
  runtime::cuda::ProductSpec spec;
  spec.m = target.size(0);
  spec.n = target.size(1);
  spec.k = depth_;
  spec.lda = left.stride;
  spec.ldb = spec.ldc = spec.n;
  spec.transpose_a = true;
  const auto* scales = run_.workspace<FactorScales>(layout_.scales);
  const float* before = accumulate_ ? &scales->one : &scales->zero;
  multiply_scaled(run_, lane, spec,
                  {left.data, right, scales->alphas + product, before, target.data_as<float>()});
}

void ScaledGradients::multiply_input_weights(const Run& run, std::int64_t lane, std::int64_t layer,
                                             const Piece& times, const RowRange& rows, float* to) {
  const auto l = static_cast<std::size_t>(layer);
  const BackwardLayout& layout = run.engine.workspace.backward;
  const PackedMatrix& matrix = run.engine.packed.layers[l].weight_ih;
  const std::int64_t all = run.args.rows, first = times.begin * all + rows.first;
  const auto* gates = run.at<const std::uint16_t>(layout.d_input[l]) + first * matrix.rows;
  const ScaledWeights weights = scaled_input_weights(run, layer, 0);
  to += first * matrix.columns;
  runtime::cuda::ProductSpec spec;
  // Of all rows one product, of some one a step.
  spec.batch = rows.count == all ? 1 : times.size();
  spec.m = times.size() * rows.count / spec.batch;
  spec.n = spec.ldb = spec.ldc = matrix.columns;
  spec.k = spec.lda = matrix.rows;
  spec.stride_a = spec.batch > 1 ? all * matrix.rows : 0;
  spec.stride_c = spec.batch > 1 ? all * matrix.columns : 0;
  multiply_scaled(run, lane, spec, {gates, weights.values, weights.alpha, weights.zero, to});
  ScaledRows product{};
  product.values = to;
  product.scales = run.workspace<const float>(layout.row_scales[l]) + first;
  product.steps = times.size();
  product.rows = rows.count;
  product.step_rows = all;
  product.width = matrix.columns;
  scale_rows(run.engine.lanes[lane], product);
}

}  // namespace sluice::kernels::recurrent::cuda
