#include "models/output_loss.h"

#include <cmath>
#include <memory>

#include "kernels/elementwise/elementwise.h"
#include "kernels/loss/loss.h"
#include "unit/support/on_device.h"

namespace sluice::models {
namespace {

using testing::random_values;

class OutputLossTest : public testing::OnDevice {
 protected:
  struct Outcome {
    std::vector<double> sums;
    std::vector<float> gradients, d_activations;
  };

  /// Loss and gradients of a layer of `vocabulary` in a precision; always the same numbers, but for
  /// what storing them rounds.
  Outcome run(std::string_view precision, std::int64_t time, std::int64_t rows, std::int64_t width,
              std::int64_t vocabulary, DType storage = DType::kFloat32, double loss_scale = 1) {
    context_.set_precision(runtime::Precision::parse(precision));
    std::mt19937_64 engine(3);
    layers::Parameters parameters;
    const layers::Linear layer(parameters, "output", width, vocabulary);
    parameters.allocate(context_, DType::kFloat32, true);
    parameters.initialize(context_, 5);
    runtime::ArenaPlanner planner;
    const auto scope = std::make_unique<runtime::ScratchScope>(planner);
    OutputLoss output(context_, layer, planner, time, rows, storage, DType::kFloat32, true);
    const runtime::Arena arena(*device_, planner);
    context_.zero(parameters.gradients());
    OutputLoss::Input input;
    input.activations = stored(
        put(random_values<float>(engine, time * rows * width), Shape{time, rows, width}), storage);
    std::vector<std::int32_t> targets(static_cast<std::size_t>(time * rows)), lengths;
    for (auto& target : targets) {
      target = static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(vocabulary));
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      lengths.push_back(static_cast<std::int32_t>(time - r % 2));
    }
    input.targets = put(targets, Shape{time, rows});
    input.lengths = put(lengths);
    const Tensor d_activations = poisoned(storage, input.activations.shape());
    Pass pass;
    pass.label_smoothing = 0.1;
    pass.scale = put(std::vector<double>{1.0 / static_cast<double>(time * rows)});
    if (loss_scale != 1) pass.loss_scale = put(std::vector<double>{loss_scale});
    output.pack(context_, arena, parameters);
    const Tensor sums = output.loss(context_, arena, parameters, input, pass, d_activations);
    return {context_.download<double>(sums), context_.download<float>(parameters.gradients()),
            context_.download<float>(stored(d_activations, DType::kFloat32))};
  }

  Tensor stored(const Tensor& values, DType dtype) {
    const Tensor converted = poisoned(dtype, values.shape());
    kernels::elementwise::convert(context_, values, converted);
    return converted;
  }
};

/// How far two are apart, over the length of the first.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    apart += (x - y) * (x - y);
    length += x * x;
  }
  return std::sqrt(apart / length);
}

// On a GPU large layers are products of float16 in TF32, in more than one part.
TEST_P(OutputLossTest, Tf32IsCloseToFloat32) {
  const bool small = device_->runs_host_kernels();
  const std::int64_t time = small ? 3 : 17, rows = small ? 5 : 300, width = small ? 16 : 256;
  const std::int64_t vocabulary = small ? 40 : 32000;
  const Outcome exact = run("float32", time, rows, width, vocabulary);
  const Outcome rounded = run("tf32", time, rows, width, vocabulary);
  const double loss = exact.sums[kernels::loss::kLoss];
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_NEAR(rounded.sums[kernels::loss::kLoss], loss, 1e-4 * loss);
  EXPECT_EQ(rounded.sums[kernels::loss::kTokens], exact.sums[kernels::loss::kTokens]);
  // Eleven bits of each factor: 2^-12 in the mean.
  EXPECT_LT(distance(exact.gradients, rounded.gradients), 1e-3);
  EXPECT_LT(distance(exact.d_activations, rounded.d_activations), 1e-3);
  const Outcome again = run("tf32", time, rows, width, vocabulary);
  EXPECT_EQ(again.gradients, rounded.gradients);
  EXPECT_EQ(again.d_activations, rounded.d_activations);
}

// Rows of 35 logits and gradients lie in 40 columns there.
TEST_P(OutputLossTest, BFloat16OfAnOddVocabularyIsCloseToFloat32) {
  const Outcome exact = run("float32", 4, 9, 24, 35);
  const Outcome rounded = run("bfloat16", 4, 9, 24, 35, DType::kBFloat16);
  const double loss = exact.sums[kernels::loss::kLoss];
  EXPECT_NEAR(rounded.sums[kernels::loss::kLoss], loss, 2e-3 * loss);
  EXPECT_EQ(rounded.sums[kernels::loss::kTokens], exact.sums[kernels::loss::kTokens]);
  // Eight bits of each factor, of the gradient of logits and of the result: 2^-9 at most of each.
  EXPECT_LT(distance(exact.gradients, rounded.gradients), 4 * 0x1p-9);
  EXPECT_LT(distance(exact.d_activations, rounded.d_activations), 4 * 0x1p-9);
  const Outcome again = run("bfloat16", 4, 9, 24, 35, DType::kBFloat16);
  EXPECT_EQ(again.gradients, rounded.gradients);
  EXPECT_EQ(again.d_activations, rounded.d_activations);
}

// On a GPU logits of so many classes are of 16 bits themselves, with their gradient in their place;
// the last but one has rows that don't end with a piece of memory.
TEST_P(OutputLossTest, ManyClassesIn16BitsAreCloseToFloat32) {
  const bool small = device_->runs_host_kernels();
  struct Case {
    std::int64_t time, rows, width, vocabulary;
  };
  const std::vector<Case> cases =
      small ? std::vector<Case>{{3, 5, 16, 1030}}
            : std::vector<Case>{{5, 33, 64, 1032}, {3, 17, 128, 5003}, {30, 450, 64, 32000}};
  for (const Case& c : cases) {
    const auto run_in = [&](std::string_view precision, DType storage) {
      constexpr double kLossScale = 1 << 20;  // so that float16 has all of a gradient
      return run(precision, c.time, c.rows, c.width, c.vocabulary, storage, kLossScale);
    };
    const Outcome exact = run_in("float32", DType::kFloat32);
    const double loss = exact.sums[kernels::loss::kLoss];
    const auto check = [&](std::string_view precision, DType storage, double unit) {
      const Outcome rounded = run_in(precision, storage);
      EXPECT_NEAR(rounded.sums[kernels::loss::kLoss], loss, unit * loss);
      EXPECT_EQ(rounded.sums[kernels::loss::kTokens], exact.sums[kernels::loss::kTokens]);
      // Half a unit at most of each factor, of the logits, of their gradient and of the result.
      EXPECT_LT(distance(exact.gradients, rounded.gradients), 5 * unit);
      EXPECT_LT(distance(exact.d_activations, rounded.d_activations), 5 * unit);
      const Outcome again = run_in(precision, storage);
      EXPECT_EQ(again.gradients, rounded.gradients);
      EXPECT_EQ(again.d_activations, rounded.d_activations);
    };
    check("bfloat16", DType::kBFloat16, 0x1p-9);
    if (!small) check("float16", DType::kFloat16, 0x1p-12);
  }
}

// Predictions are of logits in float32, in memory that is booked for those of training: on a GPU as
// many of 16 bits.
TEST_P(OutputLossTest, PredictsInputsOfManyClassesIn16Bits) {
  constexpr std::int64_t kTime = 5, kRows = 33, kWidth = 8, kVocabulary = 1032;
  context_.set_precision(runtime::Precision::parse("bfloat16"));
  layers::Parameters parameters;
  const layers::Linear layer(parameters, "output", kWidth, kVocabulary);
  parameters.allocate(context_, DType::kFloat32, true);
  parameters.initialize(context_, 5);
  runtime::ArenaPlanner planner;
  const auto scope = std::make_unique<runtime::ScratchScope>(planner);
  OutputLoss output(context_, layer, planner, kTime, kRows, DType::kBFloat16, DType::kFloat32,
                    true);
  const runtime::Arena arena(*device_, planner);
  output.pack(context_, arena, parameters);
  // Each row has a one, so that its logits are a column of the weights.
  std::vector<float> ones(kTime * kRows * kWidth);
  for (std::size_t n = 0; n < kTime * kRows; ++n) ones[n * kWidth + n % kWidth] = 1;
  const auto weight = get<float>(parameters.value(layer.weight()));
  const auto bias = get<float>(parameters.value(layer.bias()));
  std::vector<std::int32_t> best(kWidth, 1);
  for (std::size_t i = 0; i < kWidth; ++i) {
    const auto logit = [&](std::int32_t token) {
      const auto j = static_cast<std::size_t>(token);
      return static_cast<float>(base::BFloat16(weight[j * kWidth + i])) + bias[j];
    };
    for (std::int32_t token = 2; token < kVocabulary; ++token) {
      if (logit(token) > logit(best[i])) best[i] = token;
    }
  }
  std::vector<std::int32_t> expected(kTime * kRows, 3);
  const Tensor tokens = put(expected, Shape{kTime, kRows});
  for (std::size_t n = kRows; n < expected.size(); ++n) expected[n] = best[(n - kRows) % kWidth];
  Batch batch;
  batch.target_lengths = put(std::vector<std::int32_t>(kRows, kTime));
  Pass pass;
  pass.sampling = put_number(1.0);
  pass.dropout = put_key({7, 2, 0});
  output.schedule_inputs(context_, arena, parameters,
                         stored(put(ones, Shape{kTime, kRows, kWidth}), DType::kBFloat16), tokens,
                         batch, pass, 2);
  EXPECT_EQ(get<std::int32_t>(tokens), expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, OutputLossTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::models
