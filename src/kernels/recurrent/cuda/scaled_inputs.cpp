#include "kernels/recurrent/cuda/scaled_inputs.h"

#include "kernels/recurrent/cuda/scaled_factors.h"
#include "kernels/recurrent/cuda/scaled_product.h"
#include "kernels/recurrent/cuda/scaled_weights.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// The rows of a piece as float16, and what takes each back.
struct ScaledPiece {
  std::uint16_t* values;
  float* scales;
};

ScaledPiece scale_piece(const Run& run, std::int64_t lane, std::int64_t layer, const Piece& piece) {
  const RowScaledFactor& to = run.engine.workspace.forward.scaled[static_cast<std::size_t>(layer)];
  const std::int64_t width = run.engine.descriptor.input_of(layer);
  const std::int64_t first = piece.begin * run.args.rows;
  const ScaledPiece scaled{run.workspace<std::uint16_t>(to.values) + first * width,
                           run.workspace<float>(to.scales) + first};
  RowFactors args{};
  args.from = reinterpret_cast<const float*>(run.input_of(layer)) + first * width;
  args.to = scaled.values;
  args.scales = scaled.scales;
  args.rows = piece.size() * run.args.rows;
  args.width = width;
  scale_row_factors(run.engine.lanes[lane], args);
  return scaled;
}

}  // namespace

void multiply_scaled_input(const Run& run, std::int64_t lane, std::int64_t layer,
                           const Piece& piece, float* to) {
  const Sizes& sizes = run.engine.sizes;
  const ScaledPiece input = scale_piece(run, lane, layer, piece);
  const std::int64_t stride = sizes.directions * sizes.gate_width;
  runtime::cuda::ProductSpec spec;
  spec.m = piece.size() * run.args.rows;
  spec.n = sizes.gate_width;
  spec.k = spec.lda = spec.ldb = run.engine.descriptor.input_of(layer);
  spec.ldc = stride;
  spec.transpose_b = true;
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const ScaledWeights weights = scaled_input_weights(run, layer, d);
    multiply_scaled(
        run, lane, spec,
        {input.values, weights.values, weights.alpha, weights.zero, to + d * sizes.gate_width});
  }
  ScaledRows product{};
  product.values = to;
  product.scales = input.scales;
  product.steps = 1;
  product.rows = product.step_rows = spec.m;
  product.width = stride;
  scale_rows(run.engine.lanes[lane], product);
}

}  // namespace sluice::kernels::recurrent::cuda
