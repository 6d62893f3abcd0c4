// The oracle against what torch computed in float64 (tests/oracle/write_goldens.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "oracle/attention_decoder.h"
#include "oracle/loss.h"
#include "oracle/recurrent.h"
#include "unit/support/source_path.h"

namespace sluice::oracle {
namespace {

using Json = nlohmann::json;
using Vector = std::vector<double>;

Json read_golden(const std::string& name) {
  const std::string path =
      sluice::testing::source_path("tests/oracle/goldens/" + name + ".json").string();
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  return Json::parse(file);
}

// Both compute in double; values are below 100 and sums have up to a few hundred terms through at
// most 20 recurrent steps, so they agree to about 1e-13. 1e-11 leaves room for other builds of
// torch; a wrong term is 1e-3 or more.
void expect_close(const std::string& name, const Vector& values, const Json& expected) {
  const Vector golden = expected.get<Vector>();
  ASSERT_EQ(values.size(), golden.size()) << name;
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], golden[i], 1e-11 * std::max(1.0, std::abs(golden[i])))
        << name << "[" << i << "]";
}

Cell cell_of(const Json& config) { return cell_named(config["cell"].get<std::string>()); }

Vector tensor(const Json& group, const std::string& name) {
  return group.contains(name) ? group[name].get<Vector>() : Vector();
}

std::string numbered(std::string name, size_t k) { return name.append(std::to_string(k)); }

std::vector<Vector> masks_of(const Json& inputs) {
  std::vector<Vector> masks;
  while (inputs.contains(numbered("mask", masks.size())))
    masks.push_back(tensor(inputs, numbered("mask", masks.size())));
  return masks;
}

std::vector<Weights> weights_of(const Json& inputs, size_t count) {
  std::vector<Weights> weights;
  for (size_t k = 0; k < count; ++k) {
    weights.push_back(
        {tensor(inputs, numbered("weight_ih.", k)), tensor(inputs, numbered("weight_hh.", k)),
         tensor(inputs, numbered("bias_ih.", k)), tensor(inputs, numbered("bias_hh.", k)),
         tensor(inputs, numbered("weight_hr.", k))});
  }
  return weights;
}

void expect_weights_close(const std::vector<Weights>& weights, const Json& expected) {
  for (size_t k = 0; k < weights.size(); ++k) {
    const Weights& w = weights[k];
    expect_close(numbered("weight_ih.", k), w.weight_ih, expected[numbered("weight_ih.", k)]);
    expect_close(numbered("weight_hh.", k), w.weight_hh, expected[numbered("weight_hh.", k)]);
    expect_close(numbered("bias_ih.", k), w.bias_ih, expected[numbered("bias_ih.", k)]);
    expect_close(numbered("bias_hh.", k), w.bias_hh, expected[numbered("bias_hh.", k)]);
    if (!w.weight_hr.empty())
      expect_close(numbered("weight_hr.", k), w.weight_hr, expected[numbered("weight_hr.", k)]);
  }
}

class StackGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(StackGoldens, EqualTorch) {
  const Json golden = read_golden(GetParam());
  const Json &config = golden["config"], &in = golden["in"], &out = golden["out"],
             &grad = golden["grad"];
  const int64_t projection = config["projection"], layers = config["layers"];
  const StackShape shape{
      cell_of(config),      config["time"],
      config["rows"],       config["input"],
      config["hidden"],     config["layers"],
      config["directions"], std::vector<int64_t>(projection > 0 ? layers : 0, projection)};
  const std::vector<Weights> weights = weights_of(in, shape.layers * shape.directions);
  const StackInput input{tensor(in, "x"), config["lengths"], tensor(in, "h0"), tensor(in, "c0"),
                         masks_of(in)};
  const StackOutput output = forward(shape, weights, input);
  expect_close("y", output.y, out["y"]);
  expect_close("hn", output.hn, out["hn"]);
  const StackGradients gradients =
      backward(shape, weights, input, output,
               {tensor(in, "d_y"), tensor(in, "d_hn"), tensor(in, "d_cn"), {}});
  expect_close("dx", gradients.dx, grad["x"]);
  expect_close("dh0", gradients.dh0, grad["h0"]);
  expect_weights_close(gradients.weights, grad);
  if (shape.cell != Cell::kLstm) return;
  expect_close("cn", output.cn, out["cn"]);
  expect_close("dc0", gradients.dc0, grad["c0"]);
}

INSTANTIATE_TEST_SUITE_P(Torch, StackGoldens,
                         ::testing::Values("lstm", "lstm_deep_bidirectional", "lstm_projection",
                                           "lstm_dropout", "gru", "gru_deep_bidirectional",
                                           "gru_dropout", "rnn_tanh", "rnn_relu"),
                         [](const auto& test) { return std::string(test.param); });

class DecoderGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(DecoderGoldens, EqualTorch) {
  const Json golden = read_golden(GetParam());
  const Json &config = golden["config"], &in = golden["in"], &out = golden["out"],
             &grad = golden["grad"];
  const bool additive = config["attention"] == "additive";
  const DecoderShape shape{
      cell_of(config),  additive ? Attention::kAdditive : Attention::kMultiplicative,
      config["time"],   config["source_time"],
      config["rows"],   config["embedding"],
      config["memory"], config["hidden"],
      config["layers"], config["output"],
      config["key"]};
  const DecoderWeights weights{weights_of(in, shape.layers),
                               {tensor(in, "attention.query"), tensor(in, "attention.memory"),
                                tensor(in, "attention.score"), tensor(in, "attention.general")},
                               tensor(in, "combine"),
                               tensor(in, "combine_bias")};
  const DecoderInput input{tensor(in, "embedded"),
                           tensor(in, "memory"),
                           config["memory_lengths"],
                           config["lengths"],
                           tensor(in, "h0"),
                           tensor(in, "c0"),
                           masks_of(in)};
  const DecoderOutput output = forward(shape, weights, input);
  expect_close("a", output.a, out["a"]);
  expect_close("alpha", output.alpha, out["alpha"]);
  expect_close("hn", output.hn, out["hn"]);
  const DecoderGradients g = backward(shape, weights, input, output,
                                      {tensor(in, "d_a"), tensor(in, "d_hn"), tensor(in, "d_cn")});
  expect_close("dembedded", g.dembedded, grad["embedded"]);
  expect_close("dmemory", g.dmemory, grad["memory"]);
  expect_close("dh0", g.dh0, grad["h0"]);
  expect_weights_close(g.weights.cells, grad);
  expect_close("combine", g.weights.combine, grad["combine"]);
  expect_close("combine_bias", g.weights.combine_bias, grad["combine_bias"]);
  if (additive) {
    expect_close("query", g.weights.attention.query, grad["attention.query"]);
    expect_close("memory weight", g.weights.attention.memory, grad["attention.memory"]);
    expect_close("score", g.weights.attention.score, grad["attention.score"]);
  } else {
    expect_close("general", g.weights.attention.general, grad["attention.general"]);
  }
  if (shape.cell != Cell::kLstm) return;
  expect_close("cn", output.cn, out["cn"]);
  expect_close("dc0", g.dc0, grad["c0"]);
}

INSTANTIATE_TEST_SUITE_P(Torch, DecoderGoldens,
                         ::testing::Values("decoder_lstm_additive", "decoder_lstm_multiplicative",
                                           "decoder_gru_additive", "decoder_gru_multiplicative"),
                         [](const auto& test) { return std::string(test.param); });

class LossGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(LossGoldens, EqualTorch) {
  const Json golden = read_golden(GetParam());
  const Json& config = golden["config"];
  const std::vector<int> targets = config["targets"];
  std::vector<bool> counts;
  for (const int target : targets) counts.push_back(target >= 0);
  const LossResult result = cross_entropy(config["vocabulary"], tensor(golden["in"], "logits"),
                                          targets, counts, config["smoothing"], 1.0);
  expect_close("sum", {result.sum}, golden["out"]["sum"]);
  expect_close("dlogits", result.dlogits, golden["grad"]["logits"]);
}

INSTANTIATE_TEST_SUITE_P(Torch, LossGoldens, ::testing::Values("loss", "loss_smoothed"),
                         [](const auto& test) { return std::string(test.param); });

// A golden that no test reads would look like coverage.
TEST(TorchGoldens, EveryFileIsRead) {
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(sluice::testing::source_path("tests/oracle/goldens")))
    files += entry.path().extension() == ".json";
  EXPECT_EQ(files, 15u);
}

}  // namespace
}  // namespace sluice::oracle
