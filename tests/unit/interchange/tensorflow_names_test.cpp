#include <gtest/gtest.h>

#include <list>

#include "interchange/tensorflow/checkpoint_reader.h"
#include "io/formats/tensorflow/tensor_bundle_writer.h"
#include "unit/interchange/tensorflow_fixture.h"
#include "unit/support/message_of.h"
#include "unit/support/temporary_folder.h"

namespace sluice::interchange {
namespace {

using testing::message_of;

/// Checkpoints with chosen names and shapes.
class TensorflowNames : public ::testing::Test {
 protected:
  void add(const std::string& name, const base::Shape& shape) {
    tensors_.push_back(random_.tensor(shape));
    writer_.add(name, base::DType::kFloat32, shape, tensors_.back().data);
  }
  void add_lstm(const std::string& scope, std::int64_t input, std::int64_t hidden) {
    add(scope + "/kernel", {input + hidden, 4 * hidden});
    add(scope + "/bias", {4 * hidden});
  }
  SourceModel read(const std::vector<std::string>& answers) {
    writer_.write(folder_.path() / "model");
    return read_tensorflow_checkpoint(folder_.path() / "model", options_of(answers));
  }
  void expect_refusal(const std::vector<std::string>& answers, const std::string& part) {
    const std::string message = message_of([&] { read(answers); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  static std::vector<std::string> names_of_layers(const SourceModel& model) {
    std::vector<std::string> names;
    for (const SourceLayer& layer : model.layers) names.emplace_back(name_of(layer));
    return names;
  }

  using Names = std::vector<std::string>;

 private:
  testing::TemporaryFolder folder_;
  RandomNumbers random_{2};
  std::list<io::HostTensor> tensors_;
  io::formats::TensorBundleWriter writer_;
};

TEST_F(TensorflowNames, NumbersGiveTheOrder) {
  for (int i : {10, 2, 9}) add_lstm("layer_" + std::to_string(i) + "/rnn/lstm_cell", 4, 4);
  EXPECT_EQ(names_of_layers(read({"forget_bias=1"})),
            (Names{"layer_2/rnn/lstm_cell", "layer_9/rnn/lstm_cell", "layer_10/rnn/lstm_cell"}));
}

TEST_F(TensorflowNames, WidthsGiveTheOrder) {
  add_lstm("a/rnn/lstm_cell", 5, 6);
  add_lstm("b/rnn/lstm_cell", 3, 5);
  EXPECT_EQ(names_of_layers(read({"forget_bias=1"})),
            (Names{"b/rnn/lstm_cell", "a/rnn/lstm_cell"}));
}

TEST_F(TensorflowNames, AnUnknownOrderIsAskedFor) {
  add_lstm("b/rnn/lstm_cell", 4, 4);
  add_lstm("a/rnn/lstm_cell", 4, 4);
  expect_refusal({"forget_bias=1"},
                 "the order of the recurrent scopes 'a/rnn/lstm_cell', 'b/rnn/lstm_cell' is not "
                 "known by their widths");
  EXPECT_EQ(names_of_layers(read({"forget_bias=1", "order=b,a"})),
            (Names{"b/rnn/lstm_cell", "a/rnn/lstm_cell"}));
  expect_refusal({"forget_bias=1", "backward=b"}, "it is not known beside which scope");
  const SourceModel both = read({"forget_bias=1", "backward=b", "order=a+b"});
  ASSERT_EQ(both.layers.size(), 1U);
  EXPECT_TRUE(std::get<RecurrentLayer>(both.layers[0]).backward.has_value());
  expect_refusal({"forget_bias=1", "order=a"}, "--set order does not list 'b/rnn/lstm_cell'");
}

TEST_F(TensorflowNames, OtherCellsAreRefusedByName) {
  add_lstm("rnn/layer_norm_basic_lstm_cell", 4, 4);
  expect_refusal({}, "'rnn/layer_norm_basic_lstm_cell' is a cell that Sluice does not have");
}

TEST_F(TensorflowNames, AUsersNameOfACellIsAskedFor) {
  add_lstm("rnn/my_lstm", 3, 4);
  expect_refusal({}, "If it is an LSTM, say --set lstm=rnn/my_lstm");
  EXPECT_EQ(names_of_layers(read({"lstm=rnn/my_lstm", "forget_bias=1"})), (Names{"rnn/my_lstm"}));
}

TEST_F(TensorflowNames, LayersOfKerasAreRefused) {
  add("lstm/lstm_cell/kernel", {3, 16});
  add("lstm/lstm_cell/recurrent_kernel", {4, 16});
  expect_refusal({}, "load it with Keras and save the model as .keras or .h5");
}

TEST_F(TensorflowNames, ShapesMustFit) {
  add("rnn/lstm_cell/kernel", {7, 16});
  add("rnn/lstm_cell/bias", {12});
  expect_refusal({"forget_bias=1"}, "'rnn/lstm_cell/bias' has the shape [12] instead of [16]");
}

TEST_F(TensorflowNames, AKernelNeedsWholeGates) {
  add("rnn/lstm_cell/kernel", {7, 15});
  add("rnn/lstm_cell/bias", {15});
  expect_refusal({"forget_bias=1"}, "which is no kernel [input + hidden, 4 * hidden] of LSTM");
}

TEST_F(TensorflowNames, ALayerOfAStackMayNotLack) {
  add_lstm("rnn/multi_rnn_cell/cell_0/lstm_cell", 3, 4);
  add_lstm("rnn/multi_rnn_cell/cell_2/lstm_cell", 4, 4);
  expect_refusal({"forget_bias=1"}, "'rnn/multi_rnn_cell' lacks the layer 1");
}

TEST_F(TensorflowNames, SeveralDenseLayersAreAskedFor) {
  add_lstm("rnn/lstm_cell", 3, 4);
  add("a/kernel", {4, 2});
  add("a/bias", {2});
  add("b/kernel", {4, 5});
  add("b/bias", {5});
  expect_refusal({"forget_bias=1"}, "each of 'a/kernel', 'b/kernel' may be the dense layer");
  expect_refusal({"forget_bias=1", "output=b/kernel", "output_bias=b/bias"},
                 "it is not known what these variables are for: 'a/bias', 'a/kernel'");
  const SourceModel model =
      read({"forget_bias=1", "output=b/kernel", "output_bias=b/bias", "ignore=a"});
  EXPECT_EQ(std::get<LinearLayer>(model.layers[1]).weight.shape, (base::Shape{5, 4}));
}

}  // namespace
}  // namespace sluice::interchange
