#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "interchange/arrays/named_arrays.h"
#include "interchange/evaluate/evaluate.h"
#include "unit/support/source_path.h"

namespace sluice::interchange {

/// The path of a file in tests/unit/interchange/fixtures, such as "torch/lstm_tagger.pt".
inline std::filesystem::path fixture_path(const std::string& name) {
  return testing::source_path("tests/unit/interchange/fixtures/" + name);
}

/// An array [steps, width] of an .npz file of fixtures; a vector is one of width 1.
inline Sequence sequence_of(const NamedArrays& arrays, const std::string& name) {
  const io::HostTensor tensor = arrays.read(name);
  Sequence sequence =
      make_sequence(tensor.shape[0], tensor.shape.rank() == 1 ? 1 : tensor.shape[1]);
  const auto values = tensor.values<float>();
  sequence.values.assign(values.begin(), values.end());
  return sequence;
}

/// The output of the model's last layer for "input" of the arrays: ids if it has an embedding.
inline Sequence run_on_input(const SourceModel& model, const NamedArrays& arrays) {
  const Sequence input = sequence_of(arrays, "input");
  if (!std::holds_alternative<EmbeddingLayer>(model.layers.front())) {
    return evaluate(model, input).back().value;
  }
  return evaluate(model, std::vector<std::int64_t>(input.values.begin(), input.values.end()))
      .back()
      .value;
}

}  // namespace sluice::interchange
