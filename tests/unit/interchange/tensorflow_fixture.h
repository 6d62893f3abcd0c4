#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "interchange/evaluate/evaluate.h"
#include "interchange/read_options.h"
#include "io/npy.h"
#include "unit/interchange/random_cell.h"
#include "unit/support/source_path.h"

namespace sluice::interchange {

/// A file of tests/unit/interchange/fixtures/tensorflow.
inline std::filesystem::path tensorflow_fixture(const std::string& name) {
  return testing::source_path("tests/unit/interchange/fixtures/tensorflow/" + name);
}

inline ReadOptions options_of(const std::vector<std::string>& answers) {
  ReadOptions options;
  for (const std::string& answer : answers) options.answer(answer);
  return options;
}

inline Sequence sequence_of(const io::NpyArray& array) {
  Sequence sequence = make_sequence(array.shape[0], array.shape[1]);
  sequence.values.assign(array.floats.begin(), array.floats.end());
  return sequence;
}

/// The output of a model's last layer for a fixture's input.
inline Sequence output_for(const SourceModel& model, const std::string& fixture) {
  const io::NpyArray input = io::read_npy(tensorflow_fixture(fixture + ".input.npy"));
  return input.is_integer ? evaluate(model, input.integers).back().value
                          : evaluate(model, sequence_of(input)).back().value;
}

/// Expects TensorFlow's output, from the model and from the same model in PyTorch's convention.
inline void expect_output_of(const SourceModel& model, const std::string& fixture) {
  // TensorFlow computes in float32.
  constexpr double kTolerance = 2e-6;
  const Sequence expected = sequence_of(io::read_npy(tensorflow_fixture(fixture + ".output.npy")));
  const Sequence output = output_for(model, fixture);
  EXPECT_LT(largest_difference(output, expected), kTolerance);
  EXPECT_LT(largest_difference(output_for(in_torch_convention(model), fixture), output),
            kTolerance);
}

}  // namespace sluice::interchange
