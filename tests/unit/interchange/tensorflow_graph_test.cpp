#include <gtest/gtest.h>

#include "interchange/tensorflow/graph_reader.h"
#include "unit/interchange/tensorflow_fixture.h"

namespace sluice::interchange {
namespace {

struct Case {
  std::string name, file;
  std::size_t layers;
};

const std::vector<Case> kCases = {
    {"basic_lstm_frozen", "basic_lstm_frozen.pb", 4},
    {"basic_lstm_saved", "basic_lstm_saved", 4},
    {"lstm_fused_frozen", "lstm_fused_frozen.pb", 2},
    {"gru_block_frozen", "gru_block_frozen.pb", 1},
    {"block_lstm_v2_frozen", "block_lstm_v2_frozen.pb", 1},
    {"relu_frozen", "relu_frozen.pb", 2},
};

class TensorflowGraphs : public ::testing::TestWithParam<Case> {};

/// The graphs say forget_bias, activations and directions; nothing is asked for.
TEST_P(TensorflowGraphs, ComputeWhatTensorflowComputes) {
  const SourceModel model = read_tensorflow_graph(tensorflow_fixture(GetParam().file), {});
  EXPECT_EQ(model.layers.size(), GetParam().layers);
  expect_output_of(model, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TensorflowGraphs, ::testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.name; });

TEST(TensorflowGraph, ReadsTheFileOfASavedModel) {
  const SourceModel model =
      read_tensorflow_graph(tensorflow_fixture("basic_lstm_saved/saved_model.pb"), {});
  expect_output_of(model, "basic_lstm_saved");
}

}  // namespace
}  // namespace sluice::interchange
