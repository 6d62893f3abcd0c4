#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// One layer and direction.
struct Gradients {
  const Run& run;
  const std::int64_t depth;  ///< all steps and rows

  /// target += left^T [.., depth] * right [depth, ..].
  void add_product(std::int64_t lane, const Tensor& target, const std::byte* left,
                   std::int64_t left_stride, const std::byte* right) const {
    if (target) add_rows(lane, target, 0, target.size(0), left, left_stride, right);
  }

  /// The same of rows [first, first + rows) of target.
  void add_rows(std::int64_t lane, const Tensor& target, std::int64_t first, std::int64_t rows,
                const std::byte* left, std::int64_t left_stride, const std::byte* right) const {
    const std::int64_t columns = target.size(1);
    multiply(run, lane, rows, columns, depth, {left, left_stride, true}, {right, columns},
             {target.data_as<float>() + first * columns, columns, DType::kFloat32, true});
  }

  void add_sums(std::int64_t lane, const std::byte* values, std::int64_t stride,
                const Tensor& first, const Tensor& second) const {
    if (!first && !second) return;
    ColumnSums sums{};
    sums.values = values;
    sums.stride = stride;
    sums.depth = depth;
    sums.columns = run.engine.sizes.gate_width;
    sums.partial = partial(lane);
    sums.targets[0] = first.data_as<float>();
    sums.targets[1] = second.data_as<float>();
    add_column_sums(run.engine.lanes[lane], run.engine.descriptor.dtype, sums);
  }

  /// target [columns] += the sum of values [depth, columns] times factors, which are in storage.
  void add_products(std::int64_t lane, const Tensor& target, const std::byte* values,
                    const std::byte* factors) const {
    if (!target) return;
    ColumnSums sums{};
    sums.values = values;
    sums.factors = factors;
    sums.stored_factors = factors != nullptr;
    sums.stride = target.size(0);
    sums.depth = depth;
    sums.columns = target.size(0);
    sums.partial = partial(lane);
    sums.targets[0] = target.data_as<float>();
    add_column_sums(run.engine.lanes[lane], run.engine.descriptor.dtype, sums);
  }

  /// target [H] += the sum of a gate's gradients [.., H] times the cell states that it sees.
  void add_peephole(std::int64_t lane, float* target, const std::byte* values, std::int64_t stride,
                    const float* cells) const {
    ColumnSums sums{};
    sums.values = values;
    sums.factors = cells;
    sums.stride = stride;
    sums.depth = depth;
    sums.columns = run.engine.sizes.hidden;
    sums.partial = partial(lane);
    sums.targets[0] = target;
    add_column_sums(run.engine.lanes[lane], run.engine.descriptor.dtype, sums);
  }

 private:
  float* partial(std::int64_t lane) const {
    return run.workspace<float>(run.engine.workspace.backward.sums[static_cast<std::size_t>(lane)]);
  }
};

/// Where the products with the layer's input are added up, and all else.
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

}  // namespace

void add_weight_gradients(const Run& run, const LayerWeights& gradients, std::int64_t layer,
                          std::int64_t direction) {
  const Sizes& sizes = run.engine.sizes;
  const std::int64_t output = run.engine.descriptor.output_of(layer);
  const auto l = static_cast<std::size_t>(layer);
  const auto i = static_cast<std::size_t>(layer * sizes.directions + direction);
  const BackwardLayout& layout = run.engine.workspace.backward;
  const StateLayout& state = run.engine.reserve.states[i];
  const std::int64_t rows = run.args.rows, input_stride = sizes.directions * sizes.gate_width;
  const Gradients all{run, run.args.time * rows};
  const GradientLanes lanes = lanes_of(run, layer, direction);

  const std::byte* d_input =
      run.element(run.workspace<const std::byte>(layout.d_input[l]), direction * sizes.gate_width);
  const std::byte* d_recurrent =
      sizes.gates_apart ? run.workspace<const std::byte>(layout.d_recurrent[i]) : d_input;
  const std::int64_t recurrent_stride = sizes.gates_apart ? sizes.gate_width : input_stride;
  // The state before time t is in row t, or in row t + 1 of the direction that comes from there.
  const std::byte* lone = run.lone_h0(layer, direction);
  const std::byte* h_before =
      lone ? lone
           : run.element(run.reserve<const std::byte>(sizes.drops ? state.h_dropped : state.h),
                         direction * rows * output);

  // They wait for memory, and the products beside them for tensor cores.
  if (sizes.norms) {
    const auto* d_sums = run.workspace<const std::byte>(layout.d_sums[i]);
    const auto* d_norm_c = run.workspace<const std::byte>(layout.d_norm_c[i]);
    const auto add = [&](const Tensor& target, const std::byte* values, std::size_t factors) {
      all.add_products(lanes.rest, target, values, run.reserve<const std::byte>(factors));
    };
    all.add_sums(lanes.rest, d_sums, sizes.gate_width, gradients.bias_ih, gradients.bias_hh);
    add(gradients.gain_ih, d_sums, state.norm_ih);
    add(gradients.gain_hh, d_sums, state.norm_hh);
    add(gradients.gain_c, d_norm_c, state.norm_c);
    all.add_products(lanes.rest, gradients.shift_c, d_norm_c, nullptr);
  } else if (!sizes.gates_apart) {
    all.add_sums(lanes.rest, d_input, input_stride, gradients.bias_ih, gradients.bias_hh);
  } else {
    all.add_sums(lanes.rest, d_input, input_stride, gradients.bias_ih, {});
    all.add_sums(lanes.rest, d_recurrent, recurrent_stride, gradients.bias_hh, {});
  }
  all.add_product(lanes.inputs, gradients.weight_ih, d_input, input_stride, run.input_of(layer));
  if (!sizes.resets_before) {
    all.add_product(lanes.rest, gradients.weight_hh, d_recurrent, recurrent_stride, h_before);
  } else if (gradients.weight_hh) {
    const std::int64_t hidden = sizes.hidden, of_h = 2 * hidden;
    all.add_rows(lanes.rest, gradients.weight_hh, 0, of_h, d_recurrent, recurrent_stride, h_before);
    all.add_rows(lanes.rest, gradients.weight_hh, of_h, hidden, run.element(d_recurrent, of_h),
                 recurrent_stride, run.reserve<const std::byte>(state.h_reset));
  }
  if (sizes.projected) {
    all.add_product(lanes.rest, gradients.weight_hr,
                    run.workspace<const std::byte>(layout.dh_out[i]), output,
                    run.reserve<const std::byte>(state.h_full));
  }
  if (auto* peepholes = gradients.weight_peephole.data_as<float>()) {
    const std::int64_t hidden = sizes.hidden;
    const float* c = run.reserve<const float>(state.c);
    const float* before = c + direction * rows * hidden;
    const float* fresh = sizes.fresh_cells ? run.reserve<const float>(state.c_fresh)
                                           : c + (1 - direction) * rows * hidden;
    const auto add = [&](std::int64_t peephole, std::int64_t gate, const float* cells) {
      all.add_peephole(lanes.rest, peepholes + peephole * hidden,
                       run.element(d_input, gate * hidden), input_stride, cells);
    };
    add(0, 0, before);
    add(1, 1, before);
    add(2, 3, fresh);
  }
}

}  // namespace sluice::kernels::recurrent::cuda
