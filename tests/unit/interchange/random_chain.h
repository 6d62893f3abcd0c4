#pragma once

#include <string>
#include <vector>

#include "interchange/canonical_cell.h"
#include "unit/interchange/random_cell.h"

namespace sluice::interchange {

/// The parts of a chain that random_chain() makes.
struct ChainForm {
  kernels::recurrent::CellType type = kernels::recurrent::CellType::kLstm;
  std::string directions = "forward";  ///< or "both", "backward"
  int layers = 2;
  bool has_embedding = true, has_output = true, projects = false, peeps = false;
  bool hard_sigmoid = false;
  bool same_width = false;  ///< of all layers, in place of 4, 5 and so on
};

inline SourceCell random_cell(RandomNumbers& random, const ChainForm& form, std::int64_t input,
                              std::int64_t hidden) {
  CanonicalCell cell;
  cell.type = form.type;
  cell.input = input;
  cell.hidden = hidden;
  cell.output = form.projects ? hidden - 1 : hidden;
  cell.hard_sigmoid = form.hard_sigmoid;
  const auto numbers = [&](std::int64_t size) {
    std::vector<float> result(static_cast<std::size_t>(size));
    for (float& value : result) value = static_cast<float>(random.number());
    return result;
  };
  const std::int64_t rows = cell.gates() * hidden;
  cell.weight_ih = numbers(rows * input);
  cell.weight_hh = numbers(rows * cell.output);
  cell.bias_ih = numbers(rows);
  cell.bias_hh = numbers(rows);
  if (form.projects) cell.weight_hr = numbers(cell.output * hidden);
  if (form.peeps) cell.weight_peephole = numbers(3 * hidden);
  return from_canonical(cell, Convention::kTorch, "cell");
}

/// [an embedding,] recurrent layers [, a linear layer], in PyTorch's convention.
inline SourceModel random_chain(std::uint64_t seed, const ChainForm& form) {
  RandomNumbers random(seed);
  SourceModel model;
  std::int64_t width = 3;
  if (form.has_embedding) {
    model.layers.emplace_back(EmbeddingLayer{.name = "words", .table = random.tensor({9, width})});
  }
  for (int i = 0; i < form.layers; ++i) {
    RecurrentLayer layer{.name = "layer" + std::to_string(i)};
    const std::int64_t hidden = form.same_width ? 4 : 4 + i;
    if (form.directions != "backward") layer.forward = random_cell(random, form, width, hidden);
    if (form.directions != "forward") layer.backward = random_cell(random, form, width, hidden);
    width = layer.output();
    model.layers.emplace_back(std::move(layer));
  }
  if (form.has_output) {
    model.layers.emplace_back(LinearLayer{
        .name = "labels", .weight = random.tensor({5, width}), .bias = random.tensor({5})});
  }
  return model;
}

}  // namespace sluice::interchange
