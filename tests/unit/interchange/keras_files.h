#pragma once

#include <filesystem>
#include <string>

#include "interchange/evaluate/evaluate.h"
#include "interchange/source_model.h"
#include "io/npy.h"
#include "io/zip_archive.h"
#include "unit/interchange/random_cell.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::interchange {

/// The fixtures of fixtures/make_keras.py, unpacked.
inline std::filesystem::path keras_file(const std::string& name) {
  static const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / name;
  if (std::filesystem::exists(path)) return path;
  io::ZipArchive archive(testing::source_path("tests/unit/interchange/fixtures/keras/models.zip"));
  for (const io::ZipArchive::Member& member : archive.members()) {
    if (member.name != name) continue;
    archive.open(member);
    std::string bytes(static_cast<std::size_t>(member.bytes), '\0');
    if (archive.read(bytes) == bytes.size()) return folder.write(name, bytes);
  }
  throw std::runtime_error("no fixture " + name);
}

/// The outputs of a model's last layer for the rows of NAME.in.npy.
inline std::vector<Sequence> outputs_of(const SourceModel& model, const std::string& name) {
  const io::NpyArray given = io::read_npy(keras_file(name + ".in.npy"));
  const std::int64_t rows = given.shape[0], steps = given.shape[1];
  std::vector<Sequence> outputs;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (given.is_integer) {
      const auto begin = given.integers.begin() + row * steps;
      outputs.push_back(
          evaluate(model, std::vector<std::int64_t>(begin, begin + steps)).back().value);
      continue;
    }
    Sequence frames = make_sequence(steps, given.shape[2]);
    const auto begin = given.floats.begin() + row * steps * frames.width;
    std::copy(begin, begin + steps * frames.width, frames.values.begin());
    outputs.push_back(evaluate(model, frames).back().value);
  }
  return outputs;
}

/// Applies the softmax of a model's last layer, which evaluate leaves out.
inline void finish_softmax(const SourceModel& model, Sequence& output) {
  const auto* linear = std::get_if<LinearLayer>(&model.layers.back());
  if (linear == nullptr || !linear->activation.is("softmax")) return;
  for (std::int64_t step = 0; step < output.steps; ++step) {
    double* const row = output.row(step);
    double sum = 0;
    for (std::int64_t i = 0; i < output.width; ++i) sum += row[i] = std::exp(row[i]);
    for (std::int64_t i = 0; i < output.width; ++i) row[i] /= sum;
  }
}

/// The largest difference of a model's outputs from NAME.out.npy.
inline double error_of_outputs(const SourceModel& model, const std::string& name) {
  const io::NpyArray wanted = io::read_npy(keras_file(name + ".out.npy"));
  std::size_t at = 0;
  double largest = 0;
  for (Sequence& output : outputs_of(model, name)) {
    finish_softmax(model, output);
    for (const double value : output.values) {
      if (at == wanted.floats.size()) return HUGE_VAL;
      largest = std::max(largest, std::abs(value - wanted.floats[at++]));
    }
  }
  return at == wanted.floats.size() ? largest : HUGE_VAL;
}

/// The largest difference of two models' outputs for the rows of NAME.in.npy.
inline double difference_of_models(const SourceModel& one, const SourceModel& other,
                                   const std::string& name) {
  const std::vector<Sequence> ones = outputs_of(one, name), others = outputs_of(other, name);
  double largest = 0;
  for (std::size_t i = 0; i < ones.size(); ++i) {
    largest = std::max(largest, largest_difference(ones[i], others[i]));
  }
  return largest;
}

}  // namespace sluice::interchange
