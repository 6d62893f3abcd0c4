#pragma once

#include <utility>
#include <vector>

#include "interchange/source_model.h"
#include "unit/interchange/random_cell.h"

/// Layers of random numbers in PyTorch's layout, and chains of them.
namespace sluice::interchange {

inline SourceCell random_cell(RandomNumbers& random, CellKind kind, std::int64_t input,
                              std::int64_t hidden) {
  SourceCell cell;
  cell.kind = kind;
  cell.input = input;
  cell.hidden = cell.output = hidden;
  const std::int64_t rows = hidden * (kind == CellKind::kLstm ? 4 : kind == CellKind::kGru ? 3 : 1);
  cell.tensors["weight_ih"] = random.tensor({rows, input});
  cell.tensors["weight_hh"] = random.tensor({rows, hidden});
  cell.tensors["bias_ih"] = random.tensor({rows});
  cell.tensors["bias_hh"] = random.tensor({rows});
  return cell;
}

inline LinearLayer random_linear(RandomNumbers& random, std::int64_t input, std::int64_t output,
                                 const char* activation = "linear") {
  return {.name = "linear",
          .weight = random.tensor({output, input}),
          .bias = random.tensor({output}),
          .activation = {activation}};
}

inline EmbeddingLayer random_embedding(RandomNumbers& random, std::int64_t ids,
                                       std::int64_t width) {
  return {.name = "embedding", .table = random.tensor({ids, width})};
}

inline SourceModel chain(std::vector<SourceLayer> layers) {
  SourceModel model;
  model.format = "a chain";
  model.path = "x";
  model.layers = std::move(layers);
  return model;
}

}  // namespace sluice::interchange
