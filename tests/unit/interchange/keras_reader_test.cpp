#include "interchange/keras/keras_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/formats/hdf5/hdf5_writer.h"
#include "io/formats/zip_writer.h"
#include "unit/interchange/keras_files.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

// Keras computes in float32.
constexpr double kTolerance = 5e-6;

SourceModel read(const std::string& name, const ReadOptions& options = {}) {
  return read_keras(keras_file(name), options);
}

std::string refusal_of(const std::string& name, const ReadOptions& options = {}) {
  std::string message = message_of([&] { read(name, options); });
  const std::string path = keras_file(name);
  if (const std::size_t at = message.find(path); at != std::string::npos) {
    message.replace(at, path.size(), name);
  }
  return message;
}

ReadOptions options_of(const std::string& subgraph, const std::vector<std::string>& answers = {}) {
  ReadOptions options;
  options.subgraph = subgraph;
  for (const std::string& answer : answers) options.answer(answer);
  return options;
}

std::string kinds_of(const SourceModel& model) {
  static constexpr const char* kKinds[] = {"embedding", "recurrent", "linear", "affine", "pooling"};
  std::string kinds;
  for (const SourceLayer& layer : model.layers) {
    kinds += (kinds.empty() ? "" : " ") + std::string(kKinds[layer.index()]);
  }
  return kinds;
}

/// What the reader says of a .keras file with this configuration and without weights.
std::string refusal_of_config(const std::string& config) {
  const TemporaryFolder folder;
  io::formats::Hdf5Writer weights;
  weights.add_group("layers");
  const std::filesystem::path path = folder / "model.keras";
  io::formats::ZipWriter zip(path);
  zip.add("config.json", config);
  zip.add("model.weights.h5", weights.bytes());
  zip.finish();
  std::string message = message_of([&] { read_keras(path, {}); });
  for (std::size_t at; (at = message.find(path)) != std::string::npos;) {
    message.replace(at, path.native().size(), "FILE");
  }
  return message;
}

class KerasFiles : public ::testing::TestWithParam<std::string> {};

/// A model computes what Keras predicted, also with its cells in the canonical form.
TEST_P(KerasFiles, ComputeWhatKerasPredicted) {
  const std::string file = GetParam();
  const std::string name = file.substr(0, file.find('.'));
  const SourceModel model = read(file);
  EXPECT_LT(error_of_outputs(model, name), kTolerance);
  EXPECT_LT(difference_of_models(model, in_torch_convention(model), name), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(All, KerasFiles,
                         ::testing::Values("classifier.keras", "classifier.h5", "gru.keras",
                                           "gru.h5", "cells.keras", "cells.h5", "functional.keras",
                                           "functional.h5", "max.keras", "tf_keras.keras",
                                           "tf_keras.h5", "cudnn.h5", "keras2.h5", "keras1.h5"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(KerasReader, RunsLayersWithGoBackwards) {
  EXPECT_LT(error_of_outputs(read("backwards.keras"), "backwards"), kTolerance);
}

TEST(KerasReader, MakesAChainOfAModelsLayers) {
  const SourceModel model = read("classifier.keras");
  EXPECT_EQ(kinds_of(model), "embedding recurrent recurrent pooling affine linear");
  EXPECT_EQ(std::get<EmbeddingLayer>(model.layers[0]).padding, 0);
  EXPECT_EQ(std::get<LinearLayer>(model.layers[5]).activation.name, "softmax");
  EXPECT_EQ(model.account.left_out,
            std::vector<std::string>{"dropout: Dropout acts in training alone"});
}

TEST(KerasReader, TakesTheHardSigmoidOfTheFilesVersion) {
  const auto slope_of = [](const SourceModel& model, std::size_t layer) {
    return std::get<RecurrentLayer>(model.layers[layer]).forward->gate.alpha;
  };
  EXPECT_EQ(slope_of(read("gru.keras"), 0), 1.0 / 6);
  EXPECT_EQ(slope_of(read("keras2.h5"), 1), 0.2);
  EXPECT_EQ(slope_of(read("gru.keras", options_of("", {"hard_sigmoid_slope=0.25"})), 0), 0.25);
}

TEST(KerasReader, TakesRecurrentLayersAlone) {
  const SourceModel one = read("branches.keras", options_of("two"));
  EXPECT_EQ(kinds_of(one), "recurrent");
  EXPECT_EQ(name_of(one.layers[0]), "two");
  EXPECT_EQ(kinds_of(read("branches.keras", options_of("one,two"))), "recurrent recurrent");
  EXPECT_EQ(kinds_of(read("functional.h5", options_of("inside"))), "recurrent");
  EXPECT_EQ(refusal_of("branches.keras", options_of("three")),
            "'branches.keras' has no recurrent layer 'three'; its layers: input_layer_8 "
            "(InputLayer), one (LSTM), sum (Add), two (LSTM)");
}

TEST(KerasReader, AsksForWhatWeightsAloneDoNotSay) {
  EXPECT_EQ(refusal_of("alone.weights.h5"),
            "'alone.weights.h5' has weights alone, which do not say the activation of the gates of "
            "layer 'bi'; say --set recurrent_activation=sigmoid (the default of tf.keras 2 and "
            "Keras 3) or --set recurrent_activation=hard_sigmoid (that of Keras 1 and 2)");
  const SourceModel model =
      read("alone.weights.h5", options_of("", {"recurrent_activation=sigmoid"}));
  EXPECT_LT(error_of_outputs(model, "alone"), kTolerance);
}

TEST(KerasReader, KnowsLayersOfCudnnByTheirBiases) {
  SourceModel model = read("cudnn.weights-alone.h5");
  EXPECT_EQ(kinds_of(model), "recurrent recurrent recurrent");
  model.layers.emplace_back(PoolingLayer{.name = "last", .kind = "last"});
  EXPECT_LT(error_of_outputs(model, "cudnn"), kTolerance);
}

TEST(KerasReader, AcceptsOtherPrecisions) { EXPECT_EQ(kinds_of(read("mixed.keras")), "recurrent"); }

TEST(KerasReader, RefusesByName) {
  EXPECT_EQ(
      refusal_of("branches.keras"),
      "'branches.keras': layer 'sum' (Add) reads several tensors, of 'one', 'input_layer_8', and "
      "only a single chain of layers is read; --subgraph NAME takes a recurrent layer alone; "
      "its layers: input_layer_8 (InputLayer), one (LSTM), sum (Add), two (LSTM)");
  EXPECT_EQ(
      refusal_of("lambda.keras"),
      "layer 'odd' (Lambda) is of a class that is not read; --subgraph NAME takes a recurrent "
      "layer alone; the layers: input_layer_9 (InputLayer), lstm_5 (LSTM), odd (Lambda)");
  EXPECT_EQ(refusal_of("sum.keras"),
            "layer 'sum' (Bidirectional) has merge_mode \"sum\"; 'concat' is read");
}

std::string sequential(const std::string& layers) {
  return R"({"class_name": "Sequential", "config": {"layers": [)" + layers + "]}}";
}

TEST(KerasReader, RefusesConfigurations) {
  EXPECT_EQ(refusal_of_config("[1]"), "'FILE': an entry of its configuration has no class_name");
  EXPECT_EQ(refusal_of_config(R"({"class_name": "Mine"})"),
            "'FILE' holds a model of the class 'Mine'; Sequential and Functional models are read");
  EXPECT_EQ(refusal_of_config(std::string(200, '[')),
            "'FILE': its configuration has more than 100 levels");
  EXPECT_EQ(refusal_of_config(
                sequential(R"({"class_name": "LSTM", "module": "mine", "config": {"name": "a"}})")),
            "layer 'a' (mine>LSTM) is of a class that is not read; --subgraph NAME takes a "
            "recurrent layer alone; the layers: a (mine>LSTM)");
  EXPECT_EQ(refusal_of_config(sequential(
                R"({"class_name": "Dense", "config": {"name": "a", "dtype": {"class_name":
                "QuantizedDTypePolicy", "config": {"mode": "int8"}}}})")),
            "layer 'a' (Dense) is quantized; convert the model from before its quantization");
  EXPECT_EQ(refusal_of_config(
                sequential(R"({"class_name": "LSTM", "config": {"name": "a", "units": 2}})")),
            "'FILE/model.weights.h5' has no weight 'layers/lstm/vars/0', the kernel of layer 'a' "
            "(LSTM)");
  EXPECT_EQ(refusal_of_config(sequential("")), "'FILE' has no layer with weights");
}

TEST(KerasReader, JoinsNamesThatKerasCutIntoSeveralAttributes) {
  const TemporaryFolder folder;
  RandomNumbers random(1);
  const io::HostTensor kernel = random.tensor({3, 8}), inner = random.tensor({2, 8}),
                       next = random.tensor({2, 8});
  io::formats::Hdf5Writer file;
  const auto put = [&](const std::string& layer, const io::HostTensor& tensor) {
    file.add_dataset(layer + "/kernel:0", tensor);
    file.add_dataset(layer + "/recurrent_kernel:0", inner);
    file.set_texts(layer, "weight_names0", std::vector<std::string>{"kernel:0"});
    file.set_texts(layer, "weight_names1", std::vector<std::string>{"recurrent_kernel:0"});
  };
  put("one", kernel);
  put("two", next);
  file.set_texts("", "layer_names0", std::vector<std::string>{"one"});
  file.set_texts("", "layer_names1", std::vector<std::string>{"two"});
  file.write(folder / "weights.h5");
  const SourceModel model =
      read_keras(folder / "weights.h5", options_of("", {"recurrent_activation=sigmoid"}));
  EXPECT_EQ(kinds_of(model), "recurrent recurrent");
  ASSERT_EQ(model.account.assumed.size(), 2U);
  EXPECT_EQ(model.account.assumed[0], "the activation tanh; --set activation=NAME says another");
}

}  // namespace
}  // namespace sluice::interchange
