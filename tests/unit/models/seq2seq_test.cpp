#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/loss/loss.h"
#include "models/seq2seq_decoding.h"
#include "models/seq2seq_training.h"

namespace sluice::models {
namespace {

struct Case {
  const char* device;
  const char* cell;
  const char* attention;
  bool bidirectional;
  std::int64_t encoder_layers, decoder_layers;
  /// Whether the encoder's cells have more than their equations.
  bool extras = false;
  bool layer_norm = false;
  const char* tied = "none";
};

Seq2SeqConfig config_of(const Case& c) {
  Seq2SeqConfig config;
  config.cell = c.cell;
  config.attention = c.attention;
  config.bidirectional = c.bidirectional;
  config.encoder_layers = c.encoder_layers;
  config.decoder_layers = c.decoder_layers;
  config.source_vocabulary = 9;
  config.target_vocabulary = 8;
  config.embedding = 5;
  config.hidden = 6;
  config.dropout = 0.3;
  config.encoder_layer_norm = c.layer_norm;
  config.tie_embeddings = c.tied;
  if (config.tie_embeddings != "none") config.embedding = 6;
  if (config.tie_embeddings == "all") config.source_vocabulary = 8;
  if (!c.extras) return config;
  config.encoder_peepholes = true;
  config.encoder_zoneout_h = 0.1;
  config.encoder_zoneout_c = 0.2;
  config.encoder_recurrent_dropout = 0.3;
  return config;
}

// A model in float64 with a ragged batch on some device.
class Seq2SeqTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr Extent kExtent{3, 4, 5};

  Seq2SeqTest()
      : device_(runtime::open_device(GetParam().device)),
        context_(*device_),
        model_(config_of(GetParam())) {
    model_.parameters().allocate(context_, DType::kFloat64, true);
    model_.parameters().initialize(context_, 3);
    std::mt19937 random(5);
    const auto draw = [&](std::int64_t count, std::int64_t below) {
      std::vector<std::int32_t> values(static_cast<std::size_t>(count));
      for (auto& value : values) value = static_cast<std::int32_t>(4 + random() % (below - 4));
      return values;
    };
    const auto [rows, source_time, target_time, resets] = kExtent;
    batch_.extent = kExtent;
    batch_.source = put<std::int32_t>({source_time, rows},
                                      draw(source_time * rows, model_.config().source_vocabulary));
    batch_.source_lengths = put<std::int32_t>({rows}, {4, 1, 3});
    target_in_ = draw(target_time * rows, 8);
    target_out_ = draw(target_time * rows, 8);
    // Feed what is expected, so that decoding step by step can be compared.
    for (std::int64_t i = 0; i < target_time * rows; ++i) {
      target_in_[static_cast<std::size_t>(i)] =
          i < rows ? 2 : target_out_[static_cast<std::size_t>(i - rows)];
    }
    batch_.target_in = put<std::int32_t>({target_time, rows}, target_in_);
    batch_.target_out = put<std::int32_t>({target_time, rows}, target_out_);
    batch_.target_lengths = put<std::int32_t>({rows}, {2, 5, 3});
    batch_.row_ids = put<std::int32_t>({rows}, {70, 7, 100001});
  }

  template <typename T>
  Tensor put(const Shape& shape, const std::vector<T>& values) {
    buffers_.emplace_back(*device_, values.size() * sizeof(T));
    const Tensor tensor = buffers_.back().tensor(base::dtype_of<T>(), shape);
    context_.upload<T>(tensor, values);
    return tensor;
  }

  // The loss, with gradients of the parameters added if training.
  double loss(bool training, const Pass& pass) {
    runtime::ArenaPlanner planner;
    // A capacity beyond the extent: neither may show in results.
    Seq2SeqTraining plan(context_, model_, planner, {4, 6, 7}, training);
    const runtime::Arena arena(*device_, planner);
    const Tensor sums = training ? plan.forward_backward(context_, arena, batch_, pass)
                                 : plan.evaluate(context_, arena, batch_, pass);
    const std::vector<double> values = context_.download<double>(sums);
    EXPECT_EQ(values[kernels::loss::kTokens], 10);
    return values[kernels::loss::kLoss];
  }

  std::unique_ptr<runtime::Device> device_;
  Context context_;
  Seq2Seq model_;
  std::vector<runtime::Buffer> buffers_;
  Batch batch_;
  std::vector<std::int32_t> target_in_, target_out_;
};

// Dropout masks depend on seed, step and row only, so the loss under one mask has a derivative; and
// what a step predicts changes by leaps alone.
TEST_P(Seq2SeqTest, GradientEqualsFiniteDifference) {
  constexpr double kScale = 0.5;
  const Tensor step = put<std::int32_t>({1}, {4});
  const Pass pass{.label_smoothing = 0.1,
                  .scale = put<double>({1}, {kScale}),
                  .dropout = {11, step.data_as<const std::int32_t>(), 0},
                  .sampling = put<double>({1}, {0.4})};
  std::mt19937 random(1);
  const layers::Parameters& parameters = model_.parameters();
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    context_.zero(parameters.gradients());
    loss(true, pass);
    const std::vector<double> gradient = context_.download<double>(parameters.gradient(id));
    const std::vector<double> value = parameters.download<double>(context_, id);
    for (int probe = 0; probe < 3; ++probe) {
      const std::size_t i = random() % value.size();
      const auto loss_at = [&](double shift) {
        std::vector<double> moved = value;
        moved[i] += shift;
        parameters.upload<double>(context_, id, moved);
        return loss(true, pass);
      };
      const double h = 1e-5;
      const double expected = kScale * (loss_at(h) - loss_at(-h)) / (2 * h);
      parameters.upload<double>(context_, id, value);
      EXPECT_NEAR(gradient[i], expected, 1e-8 + 1e-6 * std::abs(expected))
          << parameters.specs()[id].name << "[" << i << "]";
    }
  }
}

TEST_P(Seq2SeqTest, TiedMatricesAreOneParameter) {
  const std::string tied = GetParam().tied;
  std::vector<std::string> matrices;
  for (const layers::ParameterSpec& spec : model_.parameters().specs()) {
    if (spec.name.find("embedding") != std::string::npos || spec.name == "output.weight") {
      matrices.push_back(spec.name);
    }
  }
  using Names = std::vector<std::string>;
  EXPECT_EQ(matrices,
            tied == "all" ? Names{"embedding.weight"}
            : tied == "decoder"
                ? Names({"source_embedding.weight", "target_embedding.weight"})
                : Names({"source_embedding.weight", "target_embedding.weight", "output.weight"}));
}

TEST_P(Seq2SeqTest, StepsScoreAsTeacherForcing) {
  runtime::ArenaPlanner planner;
  Seq2SeqTraining plan(context_, model_, planner, kExtent, false);
  const runtime::Arena arena(*device_, planner);
  const std::vector<double> expected =
      context_.download<double>(plan.score(context_, arena, batch_));

  // Rows in another order than the inputs, and moved at every step.
  const auto [rows, source_time, target_time, resets] = kExtent;
  Seq2SeqDecoding decoding(context_, model_, {rows, source_time, rows});
  decoding.encode(context_, batch_.source, batch_.source_lengths);
  runtime::Buffer memory(*device_, 4096);
  const Tensor index = memory.tensor(DType::kInt32, {rows});
  const Tensor logits = memory.tensor(DType::kFloat64, {rows, 8}, 64);
  std::vector<std::int32_t> input_of_row{2, 0, 1};
  context_.upload<std::int32_t>(index, input_of_row);
  decoding.start(context_, index, rows);
  for (std::int64_t t = 0; t < target_time; ++t) {
    std::vector<std::int32_t> tokens;
    for (const std::int32_t input : input_of_row) {
      tokens.push_back(target_in_[static_cast<std::size_t>(t * rows + input)]);
    }
    context_.upload<std::int32_t>(index, tokens);
    decoding.step(context_, index, logits, Tensor());
    const std::vector<double> values = context_.download<double>(logits);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int32_t input = input_of_row[static_cast<std::size_t>(r)];
      const auto place = static_cast<std::size_t>(t * rows + input);
      if (expected[place] == 0) continue;  // past the row's end
      const double* row = values.data() + r * 8;
      double sum = 0;
      for (int v = 0; v < 8; ++v) sum += std::exp(row[v]);
      EXPECT_NEAR(row[target_out_[place]] - std::log(sum), expected[place], 1e-12);
    }
    const std::vector<std::int32_t> parents{1, 2, 0};
    context_.upload<std::int32_t>(index, parents);
    decoding.reorder(context_, index);
    input_of_row = {input_of_row[1], input_of_row[2], input_of_row[0]};
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Seq2SeqTest,
    testing::Values(Case{"cpu", "lstm", "additive", true, 1, 1},
                    Case{"cpu", "lstm", "multiplicative", true, 2, 1},
                    Case{"cpu", "gru", "additive", false, 1, 2},
                    Case{"test", "lstm", "additive", true, 2, 2},
                    Case{"cpu", "gru_reset_before", "multiplicative", true, 1, 2},
                    Case{"test", "gru_reset_before", "additive", false, 1, 1},
                    Case{"test", "gru", "multiplicative", true, 1, 1},
                    Case{"cpu", "rnn_tanh", "additive", true, 2, 2},
                    Case{"test", "rnn_relu", "multiplicative", false, 1, 1},
                    Case{"cpu", "lstm", "additive", true, 2, 1, true},
                    Case{"test", "lstm", "additive", false, 2, 1, true},
                    Case{"cpu", "lstm", "additive", false, 2, 1, false, true},
                    Case{"cpu", "lstm", "additive", true, 1, 1, false, false, "decoder"},
                    Case{"test", "gru", "multiplicative", true, 1, 2, false, false, "all"},
                    Case{"cpu", "lstm", "additive", true, 2, 1, false, false, "all"},
                    Case{"cpu", "lstm", "none", true, 2, 2},
                    Case{"test", "lstm", "none", false, 1, 2, true},
                    Case{"cpu", "gru", "none", false, 1, 1, false, false, "decoder"},
                    Case{"test", "gru_reset_before", "none", true, 2, 2},
                    Case{"cpu", "rnn_tanh", "none", true, 1, 2, false, false, "all"}),
    [](const auto& tested) {
      return std::string(tested.param.device) + "_" + tested.param.cell + "_" +
             tested.param.attention + std::to_string(tested.index);
    });

}  // namespace
}  // namespace sluice::models
