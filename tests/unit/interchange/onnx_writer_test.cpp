#include "interchange/onnx/onnx_writer.h"

#include <gtest/gtest.h>

#include "interchange/evaluate/evaluate.h"
#include "interchange/onnx/onnx_reader.h"
#include "io/formats/onnx/onnx_file.h"
#include "unit/interchange/random_cell.h"
#include "unit/io/temporary_folder.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

using kernels::recurrent::CellType;
using testing::message_of;

constexpr double kTolerance = 1e-6;

SourceCell random_cell(RandomNumbers& random, CellType type, std::int64_t input,
                       std::int64_t hidden, bool is_hard = false, bool peeps = false) {
  CanonicalCell cell;
  cell.type = type;
  cell.input = input;
  cell.hidden = cell.output = hidden;
  cell.hard_sigmoid = is_hard;
  const auto numbers = [&](std::int64_t count) {
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& value : result) value = static_cast<float>(random.number());
    return result;
  };
  const std::int64_t rows = cell.gates() * hidden;
  cell.weight_ih = numbers(rows * input);
  cell.weight_hh = numbers(rows * hidden);
  cell.bias_ih = numbers(rows);
  cell.bias_hh = numbers(rows);
  if (peeps) cell.weight_peephole = numbers(3 * hidden);
  return from_canonical(cell, Convention::kOnnx, "layer");
}

/// Embedding, two recurrent layers, an affine layer, a pooling and a linear layer.
SourceModel chain(RandomNumbers& random, const std::string& pooling) {
  SourceModel model;
  model.layers.emplace_back(EmbeddingLayer{"embedding", random.tensor({9, 3})});
  model.layers.emplace_back(RecurrentLayer{"lower",
                                           random_cell(random, CellType::kLstm, 3, 4, false, true),
                                           random_cell(random, CellType::kLstm, 3, 4, true)});
  model.layers.emplace_back(
      RecurrentLayer{"upper", random_cell(random, CellType::kGruResetBefore, 8, 5), std::nullopt});
  model.layers.emplace_back(AffineLayer{"norm", random.tensor({5}), random.tensor({5})});
  if (!pooling.empty()) {
    PoolingLayer layer{"pool", pooling};
    if (pooling == "attention") layer.query = random.tensor({5});
    model.layers.emplace_back(layer);
  }
  model.layers.emplace_back(
      LinearLayer{"hidden", random.tensor({6, 5}), random.tensor({6}), {"relu"}});
  model.layers.emplace_back(LinearLayer{"out", random.tensor({2, 6}), {}, {"softmax"}});
  return model;
}

class OnnxWriter : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(OnnxWriter, WritesWhatIsReadBackAsTheSameModel) {
  const auto& [pooling, lengths] = GetParam();
  RandomNumbers random(3);
  io::TemporaryFolder folder;
  const SourceModel model = chain(random, pooling);
  const auto path = folder.path() / "model.onnx";
  write_onnx_model(model, path, {.lengths = lengths});
  const SourceModel back = read_onnx_model(path, {});
  const std::vector<std::int64_t> ids = random.ids(7, 9);
  EXPECT_LT(largest_difference(evaluate(back, ids).back().value, evaluate(model, ids).back().value),
            kTolerance);
  ASSERT_EQ(back.layers.size(), model.layers.size());
  EXPECT_EQ(std::get<LinearLayer>(back.layers.back()).activation.name, "softmax");
}

INSTANTIATE_TEST_SUITE_P(Poolings, OnnxWriter,
                         ::testing::Combine(::testing::Values("", "last", "mean", "max",
                                                              "attention"),
                                            ::testing::Bool()),
                         [](const auto& tested) {
                           const std::string kind = std::get<0>(tested.param);
                           return (kind.empty() ? "none" : kind) +
                                  (std::get<1>(tested.param) ? "_of_rows" : "");
                         });

TEST(OnnxWriterOfFrames, WritesEveryCellAndDirection) {
  RandomNumbers random(4);
  io::TemporaryFolder folder;
  for (const CellType type : kernels::recurrent::kCellTypes) {
    for (const bool is_hard : {false, true}) {
      const bool has_gates = type != CellType::kRnnTanh && type != CellType::kRnnRelu;
      const auto cell = [&](std::int64_t hidden) {
        return random_cell(random, type, 3, hidden, is_hard && has_gates);
      };
      for (const int directions : {1, 2, 3, 4}) {
        RecurrentLayer layer{"layer"};
        if (directions != 2) layer.forward = cell(4);
        // 4: directions of two sizes become two nodes.
        if (directions != 1) layer.backward = cell(directions == 4 ? 2 : 4);
        SourceModel model;
        model.layers.emplace_back(layer);
        model.layers.emplace_back(PoolingLayer{"pool", "last"});
        const auto path = folder.path() / "model.onnx";
        write_onnx_model(model, path);
        const SourceModel back = read_onnx_model(path, {});
        const Sequence x = random.frames(5, 3);
        for (const std::size_t index : {0, 1}) {
          EXPECT_LT(largest_difference(evaluate(back, x).at(index).value,
                                       evaluate(model, x)[index].value),
                    kTolerance)
              << directions;
        }
      }
    }
  }
}

TEST(OnnxWriterOfFrames, GivesALanguageModelItsStates) {
  RandomNumbers random(5);
  io::TemporaryFolder folder;
  SourceModel model;
  model.layers.emplace_back(EmbeddingLayer{"embedding", random.tensor({9, 3})});
  for (const char* name : {"a", "b"}) {
    const CellType type = *name == 'a' ? CellType::kLstm : CellType::kGru;
    model.layers.emplace_back(RecurrentLayer{name, random_cell(random, type, 3, 3), std::nullopt});
  }
  const auto path = folder.path() / "model.onnx";
  write_onnx_model(model, path, {.lengths = false, .states = true});
  const io::formats::OnnxModel file = io::formats::read_onnx(path);
  std::vector<std::string> inputs, outputs;
  for (const auto& input : file.graph.inputs) inputs.push_back(input.name);
  for (const auto& output : file.graph.outputs) outputs.push_back(output.name);
  EXPECT_EQ(inputs, (std::vector<std::string>{"input", "h0_l0", "c0_l0", "h0_l1"}));
  EXPECT_EQ(outputs, (std::vector<std::string>{"output", "hn_l0", "cn_l0", "hn_l1"}));
  const SourceModel back = read_onnx_model(path, {});
  EXPECT_EQ(back.layers.size(), 3);
  EXPECT_EQ(back.account.left_out.at(0), "the outputs hn_l0, cn_l0, hn_l1");
}

TEST(OnnxWriterOfFrames, RefusesWhatOnnxLacks) {
  io::TemporaryFolder folder;
  const auto path = folder.path() / "model.onnx";
  RandomNumbers random(6);
  const auto refusal = [&](const SourceModel& model, OnnxWriteOptions options = {}) {
    return message_of([&] { write_onnx_model(model, path, options); });
  };
  EXPECT_EQ(refusal({}), "a model without layers cannot be written");
  SourceModel model = chain_of(random_cell(random, CellType::kLstm, 2, 2));
  auto& layer = std::get<RecurrentLayer>(model.layers[0]);
  layer.forward->output = 1;
  EXPECT_EQ(refusal(model), "layer has a projection, which ONNX lacks");
  layer.forward->convention = Convention::kTorch;
  EXPECT_EQ(refusal(model),
            "layer has the layout of PyTorch; convert its cells to that of ONNX first");
  model.layers.clear();
  model.layers.emplace_back(
      RecurrentLayer{"layer", std::nullopt, random_cell(random, CellType::kLstm, 2, 2)});
  EXPECT_EQ(refusal(model, {.states = true}),
            "layer runs backward, so a sequence cannot be run in parts");
}

}  // namespace
}  // namespace sluice::interchange
