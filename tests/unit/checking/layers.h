#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "checking/layer_values.h"
#include "unit/support/on_device.h"

namespace sluice::checking {

/// A layer of random numbers, whose rows have random lengths, the first all steps; padding is not a
/// number.
inline LayerValues random_layer(std::mt19937_64& engine, std::int64_t steps, std::int64_t rows,
                                std::int64_t width, std::int64_t directions = 1) {
  LayerValues layer;
  layer.name = "stack.l0";
  layer.steps = steps;
  layer.rows = rows;
  layer.width = width;
  layer.directions = directions;
  layer.values = testing::random_values<float>(engine, steps * rows * width);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto any = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(steps + 1));
    layer.lengths.push_back(static_cast<std::int32_t>(row == 0 ? steps : any));
    for (std::int64_t step = layer.lengths.back(); step < steps; ++step) {
      for (std::int64_t unit = 0; unit < width; ++unit) {
        layer.values[static_cast<std::size_t>((step * rows + row) * width + unit)] = NAN;
      }
    }
  }
  return layer;
}

inline float& number(LayerValues& layer, std::int64_t step, std::int64_t row, std::int64_t unit) {
  return layer.values[static_cast<std::size_t>((step * layer.rows + row) * layer.width + unit)];
}

/// Row r is input r.
inline std::vector<std::int64_t> in_order(const LayerValues& layer) {
  std::vector<std::int64_t> inputs;
  for (std::int64_t row = 0; row < layer.rows; ++row) inputs.push_back(row);
  return inputs;
}

/// A seed that differs from run to run, which a failure prints.
inline std::uint64_t fresh_seed() { return std::random_device()(); }

}  // namespace sluice::checking
