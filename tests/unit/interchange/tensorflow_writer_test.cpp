#include <gtest/gtest.h>

#include "interchange/tensorflow/checkpoint_reader.h"
#include "interchange/tensorflow/checkpoint_writer.h"
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
    const SourceModel back =
        read_tensorflow_checkpoint(folder.path() / "model", options_for(form));
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

}  // namespace
}  // namespace sluice::interchange
