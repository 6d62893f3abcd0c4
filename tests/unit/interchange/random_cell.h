#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "interchange/canonical_cell.h"
#include "interchange/evaluate/evaluate.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// Numbers for cells whose gates neither saturate nor stay near their middle.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : engine_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool coin() { return between(0, 1) == 1; }
  double number() { return std::uniform_real_distribution<double>(-0.8, 0.8)(engine_); }
  io::HostTensor tensor(const base::Shape& shape) {
    io::HostTensor tensor = io::HostTensor::make(base::DType::kFloat32, shape);
    for (float& value : tensor.values<float>()) value = static_cast<float>(number());
    return tensor;
  }
  Sequence frames(std::int64_t steps, std::int64_t width) {
    Sequence sequence = make_sequence(steps, width);
    for (double& value : sequence.values) value = number();
    return sequence;
  }
  std::vector<std::int64_t> ids(std::int64_t steps, std::int64_t vocabulary) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(steps));
    for (std::int64_t& id : ids) id = between(0, vocabulary - 1);
    return ids;
  }

 private:
  std::mt19937_64 engine_;
};

/// A chain of one recurrent layer with one direction.
inline SourceModel chain_of(SourceCell cell) {
  SourceModel model;
  model.layers.emplace_back(RecurrentLayer{.name = "layer", .forward = std::move(cell)});
  return model;
}

/// The same model with all cells in PyTorch's convention, through their canonical form.
inline SourceModel in_torch_convention(const SourceModel& model) {
  SourceModel result = model;
  for (SourceLayer& layer : result.layers) {
    auto* recurrent = std::get_if<RecurrentLayer>(&layer);
    if (recurrent == nullptr) continue;
    for (std::optional<SourceCell>* cell : {&recurrent->forward, &recurrent->backward}) {
      if (!*cell) continue;
      const CanonicalCell canonical = to_canonical(**cell, recurrent->name);
      *cell = from_canonical(canonical, Convention::kTorch, recurrent->name);
    }
  }
  return result;
}

/// The largest difference of two sequences of one shape; infinite if the shapes differ.
inline double largest_difference(const Sequence& one, const Sequence& other) {
  if (one.steps != other.steps || one.width != other.width) return HUGE_VAL;
  double largest = 0;
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    const double difference = std::abs(one.values[i] - other.values[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace sluice::interchange
