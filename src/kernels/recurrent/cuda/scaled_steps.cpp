#include "kernels/recurrent/cuda/scaled_steps.h"

#include "kernels/recurrent/cuda/scaled_weights.h"
#include "runtime/cuda/blas.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// to [rows, columns] = left [rows, depth] * weights [depth, columns], or their transpose.
void multiply_scaled(const Run& run, std::int64_t lane, const ScaledLeft& left, std::int64_t depth,
                     const ScaledWeights& weights, bool transposed, std::int64_t columns,
                     float* to) {
  runtime::cuda::ProductSpec spec;
  spec.m = run.args.rows;
  spec.n = spec.ldc = columns;
  spec.k = spec.lda = depth;
  spec.ldb = transposed ? depth : columns;
  spec.transpose_b = transposed;
  spec.input = DType::kFloat16;
  spec.output = DType::kFloat32;
  spec.alignment = alignment_of({left.values, weights.values, to});
  spec.device_scalars = true;
  runtime::cuda::device_of(run.context)
      .blas()
      .product(spec)
      .run(run.engine.lanes.stream(lane), weights.alpha, left.values, weights.values, weights.zero,
           to, to);
}

ScaledLeft place(const Run& run, const RowScaledFactor& factor) {
  return {run.workspace<std::uint16_t>(factor.values), run.workspace<float>(factor.scales)};
}

}  // namespace

ScaledLeft scaled_state(const Run& run) { return place(run, run.engine.workspace.forward.state); }

ScaledLeft scaled_gates(const Run& run, std::int64_t t) {
  const BackwardLayout& layout = run.engine.workspace.backward;
  if (layout.row_scales.empty()) return place(run, layout.step_gates);
  const std::int64_t first = t * run.args.rows;
  return {run.workspace<std::uint16_t>(layout.d_input[0]) + first * run.engine.sizes.gate_width,
          run.workspace<float>(layout.row_scales[0]) + first};
}

void multiply_scaled_state(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, float* to) {
  const Sizes& sizes = run.engine.sizes;
  multiply_scaled(run, lane, scaled_state(run), sizes.hidden,
                  scaled_recurrent_weights(run, layer, direction), true, sizes.gate_width, to);
}

void multiply_scaled_gates(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, std::int64_t t, float* to) {
  const Sizes& sizes = run.engine.sizes;
  multiply_scaled(run, lane, scaled_gates(run, t), sizes.gate_width,
                  scaled_recurrent_weights(run, layer, direction), false, sizes.hidden, to);
}

}  // namespace sluice::kernels::recurrent::cuda
