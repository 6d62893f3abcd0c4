#include "interchange/onnx/onnx_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "interchange/evaluate/evaluate.h"
#include "io/npy.h"
#include "unit/interchange/random_cell.h"
#include "unit/support/message_of.h"
#include "unit/support/source_path.h"

namespace sluice::interchange {
namespace {

using testing::message_of;

// ONNX Runtime and PyTorch compute in float32.
constexpr double kTolerance = 2e-6;

std::filesystem::path fixture(const std::string& name) {
  // A name begins with its folder's.
  const std::string group = name.substr(0, name.find('_'));
  return testing::source_path("tests/unit/interchange/fixtures/onnx/" + group + "/" + name);
}

Sequence sequence_of(const io::NpyArray& array) {
  const std::int64_t width = array.shape.back();
  Sequence sequence = make_sequence(array.element_count() / width, width);
  std::ranges::copy(array.floats, sequence.values.begin());
  return sequence;
}

/// The last layer's output for the fixture's input.
Sequence run(const SourceModel& model, const std::string& name) {
  const io::NpyArray input = io::read_npy(fixture(name + ".in.npy"));
  if (input.is_integer) return evaluate(model, input.integers).back().value;
  return evaluate(model, sequence_of(input)).back().value;
}

ReadOptions subgraph(std::string name) {
  ReadOptions options;
  options.subgraph = std::move(name);
  return options;
}

std::string refusal(const std::string& name, const ReadOptions& options = {}) {
  return message_of([&] { read_onnx_model(fixture(name + ".onnx"), options); });
}

/// Whether a line of the account has this text.
bool has(const std::vector<std::string>& lines, std::string_view text) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

class OnnxFixtures : public ::testing::TestWithParam<std::string> {};

/// The source's equations, and the same model in Sluice's form, give what ONNX Runtime gave, or
/// what ONNX's own test expects.
TEST_P(OnnxFixtures, GiveWhatTheyGiveInOnnx) {
  const SourceModel model = read_onnx_model(fixture(GetParam() + ".onnx"), {});
  const Sequence expected = sequence_of(io::read_npy(fixture(GetParam() + ".out.npy")));
  EXPECT_LT(largest_difference(run(model, GetParam()), expected), kTolerance);
  EXPECT_LT(largest_difference(run(in_torch_convention(model), GetParam()), expected), kTolerance);
}

/// All models with an expected output.
std::vector<std::string> fixtures() {
  std::set<std::string> names;
  const std::string end = ".out.npy";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           testing::source_path("tests/unit/interchange/fixtures/onnx"))) {
    const std::string name = entry.path().filename();
    if (name.ends_with(end)) names.insert(name.substr(0, name.size() - end.size()));
  }
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxFixtures, ::testing::ValuesIn(fixtures()),
                         [](const auto& tested) { return tested.param; });

TEST(OnnxReader, SaysWhatItFound) {
  const SourceModel model = read_onnx_model(fixture("torch_lstm_bidirectional.onnx"), {});
  EXPECT_TRUE(has(model.account.found, "the input 'x' has the axes [batch, time]"));
  EXPECT_TRUE(has(model.account.found, "the output 'y' has the axes [batch, features]"));
  EXPECT_TRUE(has(model.account.found, "direction 'bidirectional', gates i o f c"));
  ASSERT_EQ(model.layers.size(), 5);
  EXPECT_EQ(std::get<PoolingLayer>(model.layers[3]).kind, "last");
  EXPECT_EQ(std::get<LinearLayer>(model.layers[4]).activation.name, "softmax");

  const SourceModel states = read_onnx_model(fixture("hand_two_nodes.onnx"), {});
  EXPECT_TRUE(has(states.account.found, "the input 'lengths' holds the lengths of rows"));
  EXPECT_TRUE(has(states.account.found, "the input 'h0' holds the state that Sluice carries"));
}

TEST(OnnxReader, ReadsActivationsOfEachDirection) {
  const SourceModel model = read_onnx_model(fixture("hand_peepholes_hard.onnx"), {});
  const auto& layer = std::get<RecurrentLayer>(model.layers[0]);
  EXPECT_EQ(layer.forward->gate, (Activation{"hard_sigmoid", 0.25, 0.4}));
  EXPECT_EQ(layer.backward->gate, (Activation{"hard_sigmoid", 0.2, 0.5}));
}

TEST(OnnxReader, RefusesWhatANodeHasAndSluiceLacks) {
  EXPECT_EQ(refusal("refused_clip"), "the LSTM node 'a.y' has clip = 3; Sluice does not clip");
  EXPECT_EQ(refusal("refused_input_forget"),
            "the LSTM node 'a.y' couples its input and forget gates (input_forget), which Sluice "
            "lacks");
  EXPECT_EQ(refusal("refused_lengths"),
            "the GRU node 'y' ends its rows at constant lengths (sequence_lens); Sluice takes "
            "lengths with each batch");
  EXPECT_EQ(refusal("refused_state"),
            "the GRU node 'y' begins with constants that are not zero (initial_h); Sluice begins "
            "with zeros or a state that it carries");
}

TEST(OnnxReader, RefusesAxesThatMakeAnotherModel) {
  EXPECT_EQ(refusal("refused_over_batch"),
            "the LSTM node 'b.y' reads a tensor with the axes [batch, time, features], but takes "
            "axis 0 as time; that is another model than a chain of layers");
  EXPECT_EQ(refusal("refused_mixed"),
            "the Reshape node 'y' mixes the axes [time, directions, batch, features], which is not "
            "read");
  EXPECT_EQ(refusal("refused_last_of_both"),
            "the output 'y' joins different time steps, so the graph is no chain of layers");
  EXPECT_EQ(refusal("refused_residual"),
            "the Add node 'y' joins two branches, or a constant in a way that is no layer of "
            "Sluice");
}

TEST(OnnxReader, NamesTheNodesThatItDoesNotRead) {
  const std::string file = fixture("refused_conv.onnx").native();
  EXPECT_EQ(refusal("refused_conv"),
            "'" + file +
                "' has nodes that Sluice does not read: Conv ('c'); --subgraph NAME takes a "
                "recurrent node alone: a.y, y");
  const std::string branches = fixture("refused_branches.onnx").native();
  EXPECT_EQ(refusal("refused_branches"),
            "'" + branches +
                "' has nodes that Sluice does not read: If ('y'); --subgraph NAME takes a "
                "recurrent node alone: y/else_branch/inner, y/then_branch/inner");
}

TEST(OnnxReader, TakesARecurrentNodeAloneWithThoseThatFollowIt) {
  const SourceModel two = read_onnx_model(fixture("refused_conv.onnx"), subgraph("a.y"));
  ASSERT_EQ(two.layers.size(), 2);
  EXPECT_EQ(std::get<RecurrentLayer>(two.layers[0]).forward->kind, CellKind::kGru);
  EXPECT_EQ(std::get<RecurrentLayer>(two.layers[1]).forward->kind, CellKind::kLstm);
  const SourceModel one = read_onnx_model(fixture("refused_conv.onnx"), subgraph("y"));
  EXPECT_EQ(one.layers.size(), 1);
}

TEST(OnnxReader, TakesARecurrentNodeOfABranch) {
  const SourceModel taken =
      read_onnx_model(fixture("refused_branches.onnx"), subgraph("y/else_branch/inner"));
  ASSERT_EQ(taken.layers.size(), 1);
  EXPECT_EQ(std::get<RecurrentLayer>(taken.layers[0]).forward->hidden, 4);
  const std::string file = fixture("refused_branches.onnx").native();
  EXPECT_EQ(refusal("refused_branches", subgraph("inner")),
            "'" + file +
                "' has 2 recurrent nodes 'inner'; name one by its path: y/else_branch/inner, "
                "y/then_branch/inner");
  EXPECT_EQ(refusal("refused_branches", subgraph("gru")),
            "'" + file +
                "' has no recurrent node 'gru'; it has: y/else_branch/inner, y/then_branch/inner");
}

TEST(OnnxReader, TakesTheOutputThatIsAskedFor) {
  ReadOptions options;
  options.answer("output=elsewhere");
  const std::string file = fixture("torch_lstm.onnx").native();
  EXPECT_EQ(refusal("torch_lstm", options), "'" + file + "' has no output 'elsewhere'; it has: y");
}

}  // namespace
}  // namespace sluice::interchange
