#include "kernels/recurrent/cuda/scaled_inputs.h"

#include "kernels/recurrent/cuda/scaled_factors.h"
#include "runtime/cuda/blas.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

const PackedLayer& packed_layer(const Engine& engine, std::int64_t layer) {
  return engine.packed.layers[static_cast<std::size_t>(layer)];
}

/// The rows of a piece as float16, and what takes each back.
struct ScaledPiece {
  std::uint16_t* values;
  float* scales;
};

ScaledPiece scale_piece(const Run& run, std::int64_t lane, std::int64_t layer, const Piece& piece) {
  const ScaledInput& to = run.engine.workspace.forward.scaled[static_cast<std::size_t>(layer)];
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

/// Scales the input weights of layers and directions [first, ..), as many as one set takes.
void scale_set(cudaStream_t stream, const Engine& engine, const std::vector<LayerWeights>& weights,
               std::size_t first, std::byte* packed) {
  const auto directions = static_cast<std::size_t>(engine.sizes.directions);
  ScaledFactors args{};
  for (std::size_t i = first; i < weights.size() && args.count < FactorScales::kMost; ++i) {
    const auto layer = static_cast<std::int64_t>(i / directions);
    const PackedLayer& to = packed_layer(engine, layer);
    args.products[args.count] = {ScaledFactors::kRowByRow, args.count};
    ScaledFactor& factor = args.factors[args.count++];
    if (!scales_weights(engine.descriptor, engine.rung, layer)) continue;
    factor.width = to.weight_ih.columns;
    factor.from = weights[i].weight_ih.data_as<const float>();
    factor.to = reinterpret_cast<std::uint16_t*>(packed + to.scaled_weight_ih) +
                static_cast<std::int64_t>(i % directions) * engine.sizes.gate_width * factor.width;
  }
  args.product_count = args.count;
  args.depth = args.rows = engine.sizes.gate_width;
  args.scales = reinterpret_cast<FactorScales*>(packed + engine.packed.weight_scales) +
                first / FactorScales::kMost;
  scale_factors(stream, args);
}

}  // namespace

void scale_input_weights(cudaStream_t stream, const Engine& engine,
                         const std::vector<LayerWeights>& weights, std::byte* packed) {
  bool any = false;
  for (std::int64_t layer = 0; layer < engine.sizes.layers; ++layer) {
    any = any || scales_weights(engine.descriptor, engine.rung, layer);
  }
  for (std::size_t i = 0; any && i < weights.size(); i += FactorScales::kMost) {
    scale_set(stream, engine, weights, i, packed);
  }
}

ScaledWeights scaled_input_weights(const Run& run, std::int64_t layer, std::int64_t direction) {
  const PackedLayer& packed = packed_layer(run.engine, layer);
  const std::int64_t index = layer * run.engine.sizes.directions + direction;
  const FactorScales& scales =
      run.packed<const FactorScales>(run.engine.packed.weight_scales)[index / FactorScales::kMost];
  return {run.packed<const std::uint16_t>(packed.scaled_weight_ih) +
              direction * run.engine.sizes.gate_width * packed.weight_ih.columns,
          scales.alphas + index % FactorScales::kMost, &scales.zero};
}

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
  spec.input = DType::kFloat16;
  spec.output = DType::kFloat32;
  spec.device_scalars = true;
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const ScaledWeights weights = scaled_input_weights(run, layer, d);
    float* part = to + d * sizes.gate_width;
    spec.alignment = alignment_of({input.values, weights.values, part});
    runtime::cuda::device_of(run.context)
        .blas()
        .product(spec)
        .run(run.engine.lanes.stream(lane), weights.alpha, input.values, weights.values,
             weights.zero, part, part);
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
