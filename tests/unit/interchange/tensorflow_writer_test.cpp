#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "interchange/tensorflow/checkpoint_reader.h"
#include "interchange/tensorflow/checkpoint_writer.h"
#include "interchange/tensorflow/graph_reader.h"
#include "interchange/tensorflow/graph_writer.h"
#include "io/npy.h"
#include "unit/interchange/random_chain.h"
#include "unit/interchange/tensorflow_fixture.h"
#include "unit/support/message_of.h"
#include "unit/support/temporary_folder.h"

namespace sluice::interchange {
namespace {

using kernels::recurrent::CellType;
using testing::message_of;

// Biases are added to each other in float32.
constexpr double kTolerance = 2e-6;

std::vector<ChainForm> forms() {
  std::vector<ChainForm> forms;
  for (const CellType type : {CellType::kLstm, CellType::kGru, CellType::kGruResetBefore,
                              CellType::kRnnTanh, CellType::kRnnRelu}) {
    for (const std::string directions : {"forward", "both", "backward"}) {
      forms.push_back({.type = type, .directions = directions});
    }
  }
  forms.push_back({.directions = "both", .layers = 3, .projects = true, .peeps = true});
  forms.push_back({.layers = 1, .has_embedding = false, .has_output = false});
  return forms;
}

Sequence output_of(const SourceModel& model) {
  RandomNumbers random(3);
  const bool reads_ids = std::holds_alternative<EmbeddingLayer>(model.layers[0]);
  return reads_ids ? evaluate(model, random.ids(6, 9)).back().value
                   : evaluate(model, random.frames(6, 3)).back().value;
}

ReadOptions options_for(const ChainForm& form) {
  ReadOptions options;
  if (form.projects || form.peeps || form.hard_sigmoid) options.answer("forget_bias=0");
  if (form.type == CellType::kRnnRelu) options.answer("activation=relu");
  return options;
}

TEST(TensorflowWriter, WritesCheckpointsThatComputeTheSame) {
  const testing::TemporaryFolder folder;
  for (const ChainForm& form : forms()) {
    const SourceModel model = random_chain(5, form);
    write_tensorflow_checkpoint(model, folder.path() / "model");
    const SourceModel back = read_tensorflow_checkpoint(folder.path() / "model", options_for(form));
    ASSERT_EQ(back.layers.size(), model.layers.size());
    EXPECT_LT(largest_difference(output_of(back), output_of(model)), kTolerance);
  }
}

TEST(TensorflowWriter, WritesGraphsThatComputeTheSame) {
  const testing::TemporaryFolder folder;
  for (const ChainForm& form : forms()) {
    const SourceModel model = random_chain(9, form);
    write_frozen_graph(model, folder.path() / "model.pb");
    write_saved_model_folder(model, folder.path() / "saved");
    for (const char* file : {"model.pb", "saved"}) {
      const SourceModel back = read_tensorflow_graph(folder.path() / file, options_for(form));
      ASSERT_EQ(back.layers.size(), model.layers.size());
      EXPECT_LT(largest_difference(output_of(back), output_of(model)), kTolerance);
    }
  }
}

/// Their variables have the names of this writer alone.
TEST(TensorflowWriter, WritesNormalizationAndAttentionThatItsReaderKnows) {
  const testing::TemporaryFolder folder;
  RandomNumbers random(4);
  SourceModel model = random_chain(40, {.directions = "both", .has_embedding = false});
  const SourceLayer dense = model.layers.back();
  model.layers.back() = PoolingLayer{"pooling", "attention", random.tensor({10})};
  model.layers.push_back(dense);
  model.layers.insert(model.layers.begin(),
                      AffineLayer{"input", random.tensor({3}), random.tensor({3})});
  write_frozen_graph(model, folder.path() / "model.pb");
  write_saved_model_folder(model, folder.path() / "saved");
  for (const char* file : {"model.pb", "saved"}) {
    const SourceModel back = read_tensorflow_graph(folder.path() / file, {});
    ASSERT_EQ(back.layers.size(), model.layers.size());
    EXPECT_LT(largest_difference(output_of(back), output_of(model)), kTolerance);
  }
}

TEST(TensorflowWriter, WritesStacksOfDifferentLayers) {
  const testing::TemporaryFolder folder;
  SourceModel model = random_chain(6, {.directions = "both", .has_output = false});
  RandomNumbers random(7);
  model.layers.emplace_back(RecurrentLayer{
      .name = "last", .forward = random_cell(random, {.type = CellType::kGru}, 10, 4)});
  write_tensorflow_checkpoint(model, folder.path() / "model");
  const SourceModel back = read_tensorflow_checkpoint(folder.path() / "model", {});
  EXPECT_LT(largest_difference(output_of(back), output_of(model)), kTolerance);
}

TEST(TensorflowWriter, RefusesLayersThatVariablesCannotSay) {
  const testing::TemporaryFolder folder;
  SourceModel model = random_chain(8, {.hard_sigmoid = true});
  const auto refusal = [&] {
    return message_of([&] { write_tensorflow_checkpoint(model, folder.path() / "model"); });
  };
  EXPECT_EQ(refusal(),
            "a checkpoint of TensorFlow cannot hold the layer layer0, whose gates have a hard "
            "sigmoid; write a frozen graph or a SavedModel instead");
  model = random_chain(8, {});
  model.layers.emplace_back(PoolingLayer{.name = "pool", .kind = "last"});
  EXPECT_NE(refusal().find("the layer labels, a dense layer that is not the last one"),
            std::string::npos);
}

void write_npy(const std::filesystem::path& path, const Sequence& sequence, bool is_vector) {
  std::vector<std::int64_t> shape = {sequence.steps, sequence.width};
  if (is_vector) shape.pop_back();
  const std::vector<float> numbers(sequence.values.begin(), sequence.values.end());
  std::ofstream file(path, std::ios::binary);
  file << io::npy_header(shape);
  file.write(reinterpret_cast<const char*>(numbers.data()),
             static_cast<std::streamsize>(numbers.size() * sizeof(float)));
}

/// Writes NAME.pb, NAME_saved, an input and the expected output.
void write_all(const SourceModel& model, const std::filesystem::path& name) {
  RandomNumbers random(3);
  write_frozen_graph(model, name.string() + ".pb");
  write_saved_model_folder(model, name.string() + "_saved");
  const bool reads_ids = std::holds_alternative<EmbeddingLayer>(model.layers[0]);
  Sequence input = reads_ids ? make_sequence(6, 1) : random.frames(6, 3);
  std::vector<std::int64_t> ids = random.ids(6, 9);
  if (reads_ids) input.values.assign(ids.begin(), ids.end());
  for (double& value : input.values) value = static_cast<float>(value);
  write_npy(name.string() + ".input.npy", input, reads_ids);
  write_npy(name.string() + ".output.npy",
            reads_ids ? evaluate(model, ids).back().value : evaluate(model, input).back().value,
            false);
}

/// Run it with SLUICE_TENSORFLOW_MODELS=FOLDER, and then
/// tests/unit/interchange/fixtures/check_tensorflow.py FOLDER: TensorFlow compares the outputs.
TEST(TensorflowWriter, WritesGraphs) {
  const testing::TemporaryFolder temporary;
  const char* kept = std::getenv("SLUICE_TENSORFLOW_MODELS");
  const std::filesystem::path folder = kept == nullptr ? temporary.path() : kept;
  std::filesystem::create_directories(folder);
  std::vector<ChainForm> all = forms();
  all.push_back({.directions = "both", .hard_sigmoid = true});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const SourceModel model = random_chain(i, all[i]);
    const std::filesystem::path name = folder / ("chain" + std::to_string(i));
    write_all(model, name);
    if (!all[i].hard_sigmoid) write_tensorflow_checkpoint(model, name);
  }
  for (const std::string kind : {"last", "mean", "max", "attention"}) {
    RandomNumbers random(4);
    SourceModel model = random_chain(40, {.directions = "both", .has_embedding = false});
    SourceLayer dense = std::move(model.layers.back());
    model.layers.back() = AffineLayer{"scale", random.tensor({10}), random.tensor({10})};
    model.layers.emplace_back(PoolingLayer{"pool", kind, random.tensor({10})});
    model.layers.push_back(std::move(dense));
    write_all(model, folder / kind);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "last_saved" / "saved_model.pb"));
}

}  // namespace
}  // namespace sluice::interchange
