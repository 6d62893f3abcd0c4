#include "kernels/recurrent/cuda/scaled_steps.h"

#include "kernels/recurrent/cuda/scaled_factors.h"
#include "kernels/recurrent/cuda/scaled_product.h"
#include "kernels/recurrent/cuda/scaled_weights.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// to [rows, columns] = left [rows, depth] * weights [depth, columns], or their transpose; of the
/// former as the sum of [parts, rows, columns], each by its part of the depth.
void multiply_weights(const Run& run, std::int64_t lane, const void* left, std::int64_t depth,
                      const ScaledWeights& weights, bool transposed, std::int64_t columns,
                      std::int64_t parts, float* to) {
  runtime::cuda::ProductSpec spec;
  spec.m = run.args.rows;
  spec.n = spec.ldc = columns;
  spec.lda = depth;
  spec.k = depth / parts;
  spec.batch = parts;
  spec.stride_a = spec.k;
  spec.stride_b = spec.k * columns;
  spec.stride_c = spec.m * columns;
  spec.ldb = transposed ? depth : columns;
  spec.transpose_b = transposed;
  multiply_scaled(run, lane, spec, {left, weights.values, weights.alpha, weights.zero, to});
}

float* state_scales(const Run& run) {
  return run.workspace<float>(run.engine.workspace.forward.state.scales);
}

}  // namespace

void scale_first_state(const Run& run, std::int64_t lane, const std::byte* h0) {
  RowFactors state{};
  state.from = reinterpret_cast<const float*>(h0);
  state.to = scaled_state(run).values;
  state.scales = state_scales(run);
  state.rows = run.args.rows;
  state.width = run.engine.sizes.hidden;
  scale_states(run.engine.lanes[lane], state);
}

ScaledState scaled_state(const Run& run) {
  return {run.workspace<void>(run.engine.workspace.forward.state.values), state_scales(run)};
}

ScaledGates scaled_gates(const Run& run, std::int64_t t) {
  const BackwardLayout& layout = run.engine.workspace.backward;
  const std::int64_t first = t * run.args.rows, values = first * run.engine.sizes.gate_width;
  return {run.at<std::uint16_t>(layout.d_input[0]) + values,
          run.workspace<std::uint16_t>(layout.d_recurrent[0]) + values,
          run.workspace<float>(layout.row_scales[0]) + first};
}

void multiply_scaled_state(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, float* to) {
  const Sizes& sizes = run.engine.sizes;
  multiply_weights(run, lane, scaled_state(run).values, sizes.hidden,
                   scaled_recurrent_weights(run, layer, direction), true, sizes.gate_width, 1, to);
}

void multiply_scaled_gates(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, std::int64_t t, std::int64_t parts, float* to) {
  const Sizes& sizes = run.engine.sizes;
  const ScaledGates gates = scaled_gates(run, t);
  multiply_weights(run, lane, sizes.gates_apart ? gates.d_recurrent : gates.d_input,
                   sizes.gate_width, scaled_recurrent_weights(run, layer, direction), false,
                   sizes.hidden, parts, to);
}

}  // namespace sluice::kernels::recurrent::cuda
