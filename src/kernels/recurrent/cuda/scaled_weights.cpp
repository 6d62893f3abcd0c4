#include "kernels/recurrent/cuda/scaled_weights.h"

#include "kernels/recurrent/cuda/scaled_factors.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// All that may be scaled, by number: input weights of each layer and direction, and behind them
/// recurrent ones.
std::int64_t first_recurrent(const Sizes& sizes) { return sizes.layers * sizes.directions; }

/// Where one of them goes, and from where; width 0 where it isn't scaled.
ScaledFactor factor_of(const Engine& engine, const std::vector<LayerWeights>& weights,
                       std::int64_t number, std::byte* packed) {
  const Sizes& sizes = engine.sizes;
  const bool recurrent = number >= first_recurrent(sizes);
  const std::int64_t index = number % first_recurrent(sizes);
  const std::int64_t layer = index / sizes.directions, direction = index % sizes.directions;
  const LayerWeights& from = weights[static_cast<std::size_t>(index)];
  const PackedLayer& to = engine.packed.layers[static_cast<std::size_t>(layer)];
  ScaledFactor factor{};
  if (recurrent) {
    factor.from = from.weight_hh.data_as<const float>();
    factor.to = packed + to.directions[static_cast<std::size_t>(direction)].scaled_weight_hh;
    factor.width = sizes.hidden;
  } else if (scales_weights(engine.descriptor, engine.rung, layer)) {
    factor.from = from.weight_ih.data_as<const float>();
    factor.width = to.weight_ih.columns;
    factor.to = reinterpret_cast<std::uint16_t*>(packed + to.scaled_weight_ih) +
                direction * sizes.gate_width * factor.width;
  }
  return factor;
}

/// What takes products with the matrix of this number at `values` back.
ScaledWeights find(const Run& run, std::int64_t number, const std::uint16_t* values) {
  const FactorScales& scales =
      run.packed<const FactorScales>(run.engine.packed.weight_scales)[number / FactorScales::kMost];
  return {values, scales.alphas + number % FactorScales::kMost, &scales.zero};
}

}  // namespace

void scale_weights(cudaStream_t stream, const Engine& engine,
                   const std::vector<LayerWeights>& weights, std::byte* packed) {
  const std::int64_t all = scaled_matrices(engine.descriptor, engine.rung);
  for (std::int64_t first = 0; first < all; first += FactorScales::kMost) {
    ScaledFactors args{};
    for (std::int64_t i = first; i < all && args.count < FactorScales::kMost; ++i) {
      args.products[args.count] = {ScaledFactors::kRowByRow, args.count};
      args.factors[args.count++] = factor_of(engine, weights, i, packed);
    }
    args.product_count = args.count;
    args.depth = args.rows = engine.sizes.gate_width;
    args.scales = reinterpret_cast<FactorScales*>(packed + engine.packed.weight_scales) +
                  first / FactorScales::kMost;
    scale_factors(stream, args);
  }
}

ScaledWeights scaled_input_weights(const Run& run, std::int64_t layer, std::int64_t direction) {
  const Sizes& sizes = run.engine.sizes;
  const PackedLayer& packed = run.engine.packed.layers[static_cast<std::size_t>(layer)];
  return find(run, layer * sizes.directions + direction,
              run.packed<const std::uint16_t>(packed.scaled_weight_ih) +
                  direction * sizes.gate_width * packed.weight_ih.columns);
}

ScaledWeights scaled_recurrent_weights(const Run& run, std::int64_t layer, std::int64_t direction) {
  const Sizes& sizes = run.engine.sizes;
  const PackedDirection& packed = run.engine.packed.layers[static_cast<std::size_t>(layer)]
                                      .directions[static_cast<std::size_t>(direction)];
  return find(run, first_recurrent(sizes) + layer * sizes.directions + direction,
              run.packed<const std::uint16_t>(packed.scaled_weight_hh));
}

}  // namespace sluice::kernels::recurrent::cuda
