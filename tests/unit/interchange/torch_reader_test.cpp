#include "interchange/torch/torch_reader.h"

#include <gtest/gtest.h>

#include "unit/interchange/fixtures.h"
#include "unit/interchange/random_cell.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

using testing::message_of;

// The expected outputs are float32 roundings of torch's float64 results.
constexpr double kTolerance = 1e-6;

ReadOptions answers(std::initializer_list<const char*> texts) {
  ReadOptions options;
  for (const char* text : texts) options.answer(text);
  return options;
}

SourceModel read(const std::string& name, const ReadOptions& options = {}) {
  return read_torch(open_torch_arrays(fixture_path("torch/" + name + ".pt")), options);
}

/// The chain computes what torch did, by torch's equations and through Sluice's cells.
void expect_torchs_output(const SourceModel& model, const std::string& name) {
  const NamedArrays expected = open_npz_arrays(fixture_path("torch/" + name + ".npz"));
  const Sequence output = sequence_of(expected, "output");
  EXPECT_LT(largest_difference(run_on_input(model, expected), output), kTolerance);
  EXPECT_LT(largest_difference(run_on_input(in_torch_convention(model), expected), output),
            kTolerance);
}

TEST(TorchReader, ComputesWhatTorchDoes) {
  for (const char* name :
       {"lstm_tagger", "gru_language_model", "projected_lstm", "gru_without_biases"}) {
    SCOPED_TRACE(name);
    expect_torchs_output(read(name), name);
  }
}

TEST(TorchReader, TakesAnswersWhereTheFileIsSilent) {
  expect_torchs_output(read("relu_rnn", answers({"nonlinearity=relu"})), "relu_rnn");
  expect_torchs_output(read("classifier", answers({"pooling=mean"})), "classifier");
  EXPECT_NE(message_of([] { read("relu_rnn"); }).find("--set nonlinearity=tanh"),
            std::string::npos);
}

TEST(TorchReader, TellsWhatItFoundAndAssumed) {
  const Account account = read("lstm_tagger").account;
  ASSERT_EQ(account.found.size(), 1U);
  EXPECT_EQ(account.found[0],
            "module 'rnn': LSTM with 4 units, 2 layers, both directions, told by the shapes; gates "
            "i f g o");
  ASSERT_EQ(account.assumed.size(), 3U);
  EXPECT_EQ(account.assumed[0],
            "embedding: 'embedding.weight', the matrix that is as wide as the first layer's input "
            "(say otherwise by --set embedding=NAME or embedding=none)");
  EXPECT_TRUE(account.left_out.empty());
}

TEST(TorchReader, TakesTheRecurrentPartAlone) {
  ReadOptions options;
  options.subgraph = "rnn";
  const SourceModel model = read("lstm_tagger", options);
  EXPECT_EQ(model.layers.size(), 2U);
  options.subgraph = "lstm";
  EXPECT_EQ(message_of([&] { read("lstm_tagger", options); }),
            "'" + fixture_path("torch/lstm_tagger.pt").native() +
                "' has no recurrent module 'lstm'; it has: rnn");
}

/// A state dict in memory.
NamedArrays arrays_of(std::vector<std::pair<std::string, base::Shape>> tensors) {
  std::vector<NamedArrays::Entry> entries;
  for (const auto& [name, shape] : tensors) entries.push_back({name, {shape.begin(), shape.end()}});
  const auto read = [tensors](const std::string& wanted) {
    for (const auto& [name, shape] : tensors) {
      if (name == wanted) return io::HostTensor::make(base::DType::kFloat32, shape);
    }
    return io::HostTensor();
  };
  return {"arrays", "x", std::move(entries), read, true};
}

TEST(TorchReader, RefusesTensorsWithoutAPlace) {
  const NamedArrays arrays = arrays_of({{"rnn.weight_ih_l0", {8, 3}},
                                        {"rnn.weight_hh_l0", {8, 2}},
                                        {"norm.weight", {2}},
                                        {"optimizer.state.0", {8, 3}}});
  EXPECT_EQ(message_of([&] { read_torch(arrays, {}); }),
            "'x' has tensors whose place is not known: norm.weight; take the recurrent part alone "
            "by --subgraph rnn, or leave them out by --set ignore=NAME,NAME: the "
            "model then computes something else than the source");
  const SourceModel model = read_torch(arrays, answers({"ignore=norm"}));
  EXPECT_EQ(model.account.left_out.size(), 2U);
}

TEST(TorchReader, AsksWhichMatrixIsTheOutput) {
  const NamedArrays arrays = arrays_of({{"rnn.weight_ih_l0", {8, 3}},
                                        {"rnn.weight_hh_l0", {8, 2}},
                                        {"a.weight", {5, 2}},
                                        {"a.bias", {5}},
                                        {"b.weight", {6, 2}},
                                        {"b.bias", {6}}});
  EXPECT_EQ(message_of([&] { read_torch(arrays, {}); }),
            "'x' has several matrices that may be the output: a.weight, b.weight; say which by "
            "--set output=NAME, or output=none");
  const SourceModel model = read_torch(arrays, answers({"output=b", "ignore=a."}));
  EXPECT_EQ(std::get<LinearLayer>(model.layers.back()).weight.shape[0], 6);
}

/// A matrix before the recurrent module in the file is not taken for its output.
TEST(TorchReader, KeepsToTheOrderOfTheFile) {
  const NamedArrays arrays = arrays_of({{"first.weight", {2, 2}},
                                        {"first.bias", {2}},
                                        {"rnn.weight_ih_l0", {8, 2}},
                                        {"rnn.weight_hh_l0", {8, 2}}});
  EXPECT_EQ(
      message_of([&] { read_torch(arrays, {}); }),
      "'x' has tensors whose place is not known: first.weight, first.bias; take the recurrent "
      "part alone by --subgraph rnn, or leave them out by --set ignore=NAME,NAME: the "
      "model then computes something else than the source");
}

TEST(TorchReader, RefusesShapesThatDoNotFit) {
  EXPECT_EQ(
      message_of([] {
        read_torch(arrays_of({{"rnn.weight_ih_l0", {8, 3}}, {"rnn.weight_hh_l0", {8, 3}}}), {});
      }),
      "'x': module 'rnn' has 8 rows for 3 units in layer 'rnn.l0', which is no LSTM (4 "
      "times), GRU (3) or RNN (1)");
  EXPECT_EQ(message_of([] {
              read_torch(arrays_of({{"rnn.weight_ih_l0", {8, 3}}}), {});
            }),
            "'x': module 'rnn' lacks weight_hh of layer 'rnn.l0'");
  EXPECT_EQ(message_of([] {
              read_torch(arrays_of({{"a.weight_ih_l0", {8, 3}},
                                    {"a.weight_hh_l0", {8, 2}},
                                    {"b.weight_ih_l0", {8, 3}},
                                    {"b.weight_hh_l0", {8, 2}}}),
                         {});
            }),
            "'x': 'b.l0' reads 3 numbers, but 'a.l0' puts out 2; say the order by --set order=A,B, "
            "or take one by --subgraph");
}

}  // namespace
}  // namespace sluice::interchange
