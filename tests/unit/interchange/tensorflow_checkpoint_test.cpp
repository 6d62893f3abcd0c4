#include <gtest/gtest.h>

#include "interchange/tensorflow/checkpoint_reader.h"
#include "unit/interchange/tensorflow_fixture.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

using testing::message_of;

struct Case {
  std::string fixture;
  std::vector<std::string> answers;
  std::size_t layers;
};

const std::vector<Case> kCases = {
    {"basic_lstm", {"forget_bias=1"}, 4},
    {"basic_lstm_v1", {"forget_bias=1"}, 4},
    {"lstm_peephole_projection", {"forget_bias=0.5"}, 1},
    {"lstm_partitioned", {"forget_bias=1"}, 1},
    {"lstm_block", {"forget_bias=1"}, 1},
    {"lstm_fused", {"forget_bias=1", "lstm=one,other", "backward=other"}, 2},
    {"lstm_bidirectional", {"forget_bias=1"}, 2},
    {"lstm_bidirectional_apart", {"forget_bias=1"}, 2},
    {"gru_bidirectional_apart", {}, 2},
    {"gru_cell", {}, 2},
    {"gru_block", {}, 1},
    {"basic_rnn", {}, 1},
    {"cudnn_gru", {}, 2},
    {"cudnn_lstm", {}, 2},
    {"cudnn_lstm_bidirectional", {}, 2},
    {"lstm_1_0", {"forget_bias=1"}, 2},
    {"lstm_peephole_1_0", {"forget_bias=1"}, 1},
    {"lstm_fused_1_0", {"forget_bias=1"}, 1},
    {"gru_1_0", {}, 1},
    {"gru_block_1_0", {}, 1},
    {"opaque_lstm",
     {"opaque_layers=2", "opaque_directions=2", "opaque_hidden=4", "opaque_input=3"},
     2},
    {"opaque_gru",
     {"opaque_layers=2", "opaque_directions=1", "opaque_hidden=4", "opaque_input=3"},
     2},
};

class TensorflowCheckpoints : public ::testing::TestWithParam<Case> {};

TEST_P(TensorflowCheckpoints, ComputeWhatTensorflowComputes) {
  const ReadOptions options = options_of(GetParam().answers);
  const SourceModel model =
      read_tensorflow_checkpoint(tensorflow_fixture(GetParam().fixture), options);
  options.require_all_used();
  EXPECT_EQ(model.layers.size(), GetParam().layers);
  expect_output_of(model, GetParam().fixture);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TensorflowCheckpoints, ::testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.fixture; });

std::string refusal(const std::string& fixture, const std::vector<std::string>& answers,
                    const std::string& subgraph = "") {
  ReadOptions options = options_of(answers);
  options.subgraph = subgraph;
  return message_of([&] { read_tensorflow_checkpoint(tensorflow_fixture(fixture), options); });
}

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(TensorflowCheckpoint, AsksForWhatItDoesNotHold) {
  expect_part(refusal("basic_lstm", {}), "Say --set forget_bias=1 (TensorFlow's default");
  expect_part(refusal("lstm_fused", {}), "there is no recurrent cell under a name of TensorFlow");
  expect_part(refusal("lstm_fused", {"forget_bias=1", "lstm=one,other"}),
              "the order of the recurrent scopes 'one', 'other' is not known by their widths");
  expect_part(refusal("lstm_fused", {"forget_bias=1", "lstm=one"}),
              "it is not known what these variables are for");
  expect_part(refusal("lstm_fused", {"forget_bias=1", "lstm=none"}),
              "there is no kernel in the scope 'none'");
  expect_part(refusal("opaque_lstm", {}), "does not hold its sizes; say --set opaque_layers=N");
  expect_part(refusal("opaque_lstm", {"opaque_layers=1", "opaque_directions=2", "opaque_hidden=4",
                                      "opaque_input=3"}),
              "has 736 numbers, but an LSTM with these sizes has");
}

TEST(TensorflowCheckpoint, AnswersMustFit) {
  expect_part(refusal("basic_lstm", {"forget_bias=1", "embedding=Model/softmax_w"}),
              "is no table of rows with 3 numbers");
  expect_part(refusal("basic_lstm", {"forget_bias=1", "output=Model/softmax_w"}),
              "needs --set output_bias=NAME, or none");
  expect_part(refusal("basic_lstm", {"forget_bias=1", "output=none"}),
              "'Model/softmax_b', 'Model/softmax_w'");
  expect_part(refusal("basic_rnn", {"activation=gelu"}), "a plain RNN has tanh or relu");
  expect_part(refusal("cudnn_lstm", {"order=other"}), "there is no recurrent scope 'other' left");
  expect_part(refusal("cudnn_lstm", {}, "other"), "no variable lies in the scope 'other'");
}

TEST(TensorflowCheckpoint, LeavesOutWhatTheCallerSays) {
  const ReadOptions options = options_of({"forget_bias=1", "output=none", "ignore=Model"});
  const SourceModel model = read_tensorflow_checkpoint(tensorflow_fixture("basic_lstm"), options);
  EXPECT_EQ(model.layers.size(), 3U);
  ASSERT_EQ(model.account.left_out.size(), 3U);
  EXPECT_EQ(model.account.left_out[0],
            "single numbers of training: 'beta1_power', 'beta2_power', 'global_step'");
  EXPECT_EQ(model.account.left_out[1].substr(0, 43), "21 variables of optimizers and averages: 'M");
  EXPECT_EQ(model.account.left_out[2],
            "variables, by --set ignore: 'Model/softmax_b', 'Model/softmax_w'; if the source "
            "computes with them, the model computes something else than the source");
}

TEST(TensorflowCheckpoint, TakesDirectionsAndPoolingFromAnswers) {
  const SourceModel model = read_tensorflow_checkpoint(
      tensorflow_fixture("lstm_fused"),
      options_of({"forget_bias=1", "lstm=one,other", "order=one+other"}));
  expect_output_of(model, "lstm_fused");
  const SourceModel pooled = read_tensorflow_checkpoint(
      tensorflow_fixture("basic_lstm"), options_of({"forget_bias=1", "pooling=last"}));
  ASSERT_EQ(pooled.layers.size(), 5U);
  EXPECT_EQ(std::get<PoolingLayer>(pooled.layers[3]).kind, "last");
  const Sequence all = output_for(
      read_tensorflow_checkpoint(tensorflow_fixture("basic_lstm"), options_of({"forget_bias=1"})),
      "basic_lstm");
  const Sequence last = output_for(pooled, "basic_lstm");
  ASSERT_EQ(last.steps, 1);
  EXPECT_NEAR(last.row(0)[0], all.row(all.steps - 1)[0], 1e-12);
}

TEST(TensorflowCheckpoint, TakesTheRecurrentPartAlone) {
  ReadOptions options = options_of({"forget_bias=1"});
  options.subgraph = "Model/RNN";
  const SourceModel both = read_tensorflow_checkpoint(tensorflow_fixture("basic_lstm"), options);
  ASSERT_EQ(both.layers.size(), 2U);
  EXPECT_EQ(std::get<RecurrentLayer>(both.layers[1]).output(), 5);
  options.subgraph = "Model/RNN/rnn/multi_rnn_cell/cell_1";
  const SourceModel one = read_tensorflow_checkpoint(tensorflow_fixture("basic_lstm"), options);
  ASSERT_EQ(one.layers.size(), 1U);
  EXPECT_EQ(std::get<RecurrentLayer>(one.layers[0]).input(), 4);
}

}  // namespace
}  // namespace sluice::interchange
