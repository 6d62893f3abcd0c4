// The models that are a recurrent stack between an input and an output: classifier and features.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "kernels/loss/loss.h"
#include "models/classifier.h"
#include "models/features.h"
#include "models/stack_training.h"
#include "unit/support/on_device.h"

namespace sluice::models {
namespace {

namespace loss = kernels::loss;

constexpr std::int64_t kVocabulary = 11, kFeatures = 5, kOutputs = 4;

struct Case {
  const char* name;
  std::function<void(ClassifierConfig&)> classifier;  ///< either of the two
  std::function<void(FeaturesConfig&)> features;
};

const Case& case_of(std::size_t index) {
  static const std::vector<Case> cases{
      {"classifier_attention",
       [](ClassifierConfig& c) {
         c.pooling = "attention";
         c.stack.layers = 2;
       },
       {}},
      {"classifier_last_projected",
       [](ClassifierConfig& c) {
         c.pooling = "last";
         c.stack.layers = 2;
         c.stack.projections = {6, 4};
       },
       {}},
      {"classifier_mean_gru",
       [](ClassifierConfig& c) {
         c.pooling = "mean";
         c.stack.cell = "gru";
         c.stack.recurrent_dropout = 0.2;
       },
       {}},
      {"classifier_max", [](ClassifierConfig& c) { c.pooling = "max"; }, {}},
      {"features_projected_stack",
       {},
       [](FeaturesConfig& c) {
         c.stack.layers = 4;
         c.stack.projections = {3, 3, 3, kOutputs};
         c.output_layer = false;
       }},
      {"features_frame_classes",
       {},
       [](FeaturesConfig& c) {
         c.target = "classes";
         c.stack.bidirectional = true;
       }},
      {"features_frame_values",
       {},
       [](FeaturesConfig& c) {
         c.normalize = false;
         c.stack.cell = "gru";
         c.stack.layers = 2;
       }},
      {"features_sequence_values", {}, [](FeaturesConfig& c) { c.pooling = "attention"; }},
      {"features_sequence_classes",
       {},
       [](FeaturesConfig& c) {
         c.pooling = "max";
         c.target = "classes";
       }},
      {"classifier_uneven",
       [](ClassifierConfig& c) {
         c.pooling = "last";
         c.stack.bidirectional = true;
         c.stack.layers = 3;
         c.stack.widths = {8, 8, 4};
         c.stack.layer_norm = true;
       },
       {}},
      {"features_uneven_hard_sigmoid",
       {},
       [](FeaturesConfig& c) {
         c.stack.layers = 2;
         c.stack.widths = {12, 8};
         c.stack.peepholes = true;
         c.stack.hard_sigmoid = true;
       }},
      {"features_uneven_without_output_layer", {}, [](FeaturesConfig& c) {
         c.stack.cell = "gru_reset_before";
         c.stack.layers = 2;
         c.stack.widths = {5, kOutputs};
         c.stack.hard_sigmoid = true;
         c.output_layer = false;
       }}};
  return cases.at(index);
}
constexpr std::size_t kCases = 12;

std::unique_ptr<Model> make(const Case& c) {
  if (c.classifier) {
    ClassifierConfig config;
    config.vocabulary = kVocabulary;
    config.classes = kOutputs;
    config.embedding = 3;
    config.stack.hidden = 6;
    config.stack.dropout = 0.3;
    c.classifier(config);
    return std::make_unique<Classifier>(config);
  }
  FeaturesConfig config;
  config.features = kFeatures;
  config.outputs = kOutputs;
  config.stack.hidden = 6;
  config.stack.dropout = 0.3;
  c.features(config);
  return std::make_unique<Features>(config);
}

/// A batch on the host: the tokens or frames of every row, and what is wanted of them.
struct HostBatch {
  std::int64_t rows, time, target_time;
  bool has_tokens, has_labels;
  std::vector<std::int32_t> tokens, labels, lengths, target_lengths, row_ids;
  std::vector<float> frames, values;

  /// One row as a batch of its own.
  HostBatch row(std::int64_t r) const {
    HostBatch one{1, time, target_time, has_tokens, has_labels, {}, {}, {}, {}, {}, {}, {}};
    const auto pick = [&](const auto& all, std::int64_t width, auto& out) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (static_cast<std::int64_t>(i) / width % rows == r) out.push_back(all[i]);
      }
    };
    pick(tokens, 1, one.tokens);
    pick(labels, 1, one.labels);
    pick(lengths, 1, one.lengths);
    pick(target_lengths, 1, one.target_lengths);
    pick(row_ids, 1, one.row_ids);
    pick(frames, kFeatures, one.frames);
    pick(values, kOutputs, one.values);
    return one;
  }
};

/// Rows of length 0 as well, which classes of a whole sequence have, too.
HostBatch draw(const Case& c) {
  const std::unique_ptr<Model> model = make(c);
  const auto* features = dynamic_cast<const Features*>(model.get());
  const bool per_frame = features != nullptr && features->config().is_per_frame();
  HostBatch b{4,
              5,
              per_frame ? 5 : 1,
              features == nullptr,
              features == nullptr || features->config().has_classes(),
              {},
              {},
              {},
              {},
              {},
              {},
              {}};
  std::mt19937_64 engine(17);
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(count));
  };
  b.lengths = {5, 0, 1, 3};
  b.target_lengths = per_frame ? b.lengths : std::vector<std::int32_t>{1, 1, 1, 0};
  b.row_ids = {70, 7, 100001, 3};
  for (std::int64_t i = 0; i < b.rows * b.time; ++i) b.tokens.push_back(4 + below(kVocabulary - 4));
  for (std::int64_t i = 0; i < b.rows * b.target_time; ++i) b.labels.push_back(below(kOutputs));
  b.frames = testing::random_values<float>(engine, b.rows * b.time * kFeatures, 3);
  b.values = testing::random_values<float>(engine, b.rows * b.target_time * kOutputs, 1);
  return b;
}

class StackModels : public ::testing::TestWithParam<std::tuple<const char*, std::size_t>> {
 protected:
  StackModels()
      : case_(case_of(std::get<1>(GetParam()))),
        device_(runtime::open_device(std::get<0>(GetParam()))),
        context_(*device_),
        host_(draw(case_)) {}

  std::unique_ptr<Model> allocated(DType master, bool with_gradients) {
    std::unique_ptr<Model> model = make(case_);
    model->parameters().allocate(context_, master, with_gradients);
    model->parameters().initialize(context_, 3);
    Features::set_normalization(context_, model->parameters(),
                                std::vector<double>{0.1, -0.2, 0.3, 0, 1},
                                std::vector<double>{0.5, 2, 1, 0.1, 0.7});
    return model;
  }

  template <typename T>
  Tensor put(const std::vector<T>& values, const Shape& shape) {
    buffers_.emplace_back(*device_, std::max<std::size_t>(values.size() * sizeof(T), 1));
    const Tensor tensor = buffers_.back().tensor(base::dtype_of<T>(), shape);
    context_.upload<T>(tensor, values);
    return tensor;
  }

  Batch upload(const HostBatch& host) {
    Batch batch;
    batch.extent = {host.rows, host.time, host.target_time};
    batch.source = host.has_tokens ? put(host.tokens, {host.time, host.rows})
                                   : put(host.frames, {host.time, host.rows, kFeatures});
    batch.source_lengths = put(host.lengths, {host.rows});
    batch.target_out = host.has_labels ? put(host.labels, {host.target_time, host.rows})
                                       : put(host.values, {host.target_time, host.rows, kOutputs});
    batch.target_lengths = put(host.target_lengths, {host.rows});
    batch.row_ids = put(host.row_ids, {host.rows});
    return batch;
  }

  struct Evaluation {
    std::vector<double> sums;
    std::vector<double> answers;  ///< [target_time, rows, kOutputs]
  };
  Evaluation evaluate(const Model& model, const Batch& batch, const Extent& capacity) {
    runtime::ArenaPlanner planner;
    const auto plan = model.training_plan(context_, planner, capacity, false);
    const runtime::Arena arena(*device_, planner);
    const Tensor sums = plan->evaluate(context_, arena, batch, {});
    const Tensor answers = dynamic_cast<StackTraining&>(*plan).answers(arena);
    Evaluation result{context_.download<double>(sums), {}};
    result.answers = answers.dtype() == DType::kFloat64
                         ? context_.download<double>(answers)
                         : testing::widened(context_.download<float>(answers));
    return result;
  }

  const Case& case_;
  std::unique_ptr<runtime::Device> device_;
  Context context_;
  HostBatch host_;
  std::vector<runtime::Buffer> buffers_;
};

// Dropout masks depend on seed, step and row only, so the loss under one mask has a derivative.
TEST_P(StackModels, GradientEqualsFiniteDifference) {
  constexpr double kScale = 0.5;
  const std::unique_ptr<Model> model = allocated(DType::kFloat64, true);
  const layers::Parameters& parameters = model->parameters();
  const Batch batch = upload(host_);
  const Tensor step = put<std::int32_t>({4}, {1});
  const Pass pass{.label_smoothing = host_.has_labels ? 0.1 : 0,
                  .scale = put<double>({kScale}, {1}),
                  .dropout = {11, step.data_as<const std::int32_t>(), 0}};
  runtime::ArenaPlanner planner;
  // A capacity beyond the extent: neither may show in results.
  const auto plan =
      model->training_plan(context_, planner, {6, 8, host_.target_time == 1 ? 1 : 8}, true);
  const runtime::Arena arena(*device_, planner);
  const auto loss = [&] {
    return context_.download<double>(plan->forward_backward(context_, arena, batch, pass))
        .at(loss::kLoss);
  };
  std::mt19937 random(1);
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    const layers::ParameterSpec& spec = parameters.specs()[id];
    context_.zero(parameters.gradients());
    loss();
    const std::vector<double> gradient = context_.download<double>(parameters.gradient(id));
    const std::vector<double> value = parameters.download<double>(context_, id);
    for (int probe = 0; probe < 3; ++probe) {
      const std::size_t i = random() % value.size();
      if (!spec.trained) {
        EXPECT_EQ(gradient[i], 0) << spec.name;
        continue;
      }
      const auto loss_at = [&](double shift) {
        std::vector<double> moved = value;
        moved[i] += shift;
        parameters.upload<double>(context_, id, moved);
        return loss();
      };
      const double h = 1e-5;
      const double expected = kScale * (loss_at(h) - loss_at(-h)) / (2 * h);
      parameters.upload<double>(context_, id, value);
      EXPECT_NEAR(gradient[i], expected, 1e-8 + 1e-6 * std::abs(expected))
          << spec.name << "[" << i << "]";
    }
  }
}

TEST_P(StackModels, RowsOfABatchAreWhatTheyAreAlone) {
  const std::unique_ptr<Model> model = allocated(DType::kFloat64, false);
  const Evaluation all = evaluate(*model, upload(host_), {5, 7, host_.target_time == 1 ? 1 : 7});
  double sum = 0, targets = 0;
  for (std::int64_t r = 0; r < host_.rows; ++r) {
    const HostBatch one = host_.row(r);
    const Evaluation alone = evaluate(*model, upload(one), {1, one.time, one.target_time});
    sum += alone.sums[loss::kLoss];
    targets += alone.sums[loss::kTokens];
    const std::int64_t steps = host_.target_time == 1 ? 1 : one.lengths[0];
    for (std::int64_t i = 0; i < steps * kOutputs; ++i) {
      const std::int64_t t = i / kOutputs, j = i % kOutputs;
      EXPECT_NEAR(alone.answers[static_cast<std::size_t>(i)],
                  all.answers[static_cast<std::size_t>((t * host_.rows + r) * kOutputs + j)], 1e-12)
          << "row " << r;
    }
  }
  EXPECT_NEAR(all.sums[loss::kLoss], sum, 1e-11);
  EXPECT_EQ(all.sums[loss::kTokens], targets);
  std::int64_t expected = 0;
  for (const std::int32_t length : host_.target_lengths) expected += length;
  EXPECT_EQ(targets, expected);
}

TEST_P(StackModels, AnswersNeedNoTargets) {
  const std::unique_ptr<Model> model = allocated(DType::kFloat64, false);
  const Extent capacity{4, 5, host_.target_time};
  Batch batch = upload(host_);
  const Evaluation with = evaluate(*model, batch, capacity);
  batch.target_out = Tensor();
  batch.target_lengths = Tensor();
  batch.extent.target_time = 0;
  const Evaluation without = evaluate(*model, batch, capacity);
  EXPECT_EQ(without.sums, std::vector<double>(loss::kSums, 0.0));
  EXPECT_EQ(with.answers, without.answers);
  if (!host_.has_labels) return;
  // Log-probabilities, those of the labels as the loss has them.
  double nll = 0;
  for (std::int64_t n = 0; n < host_.target_time * host_.rows; ++n) {
    const double* row = with.answers.data() + n * kOutputs;
    double sum = 0;
    for (std::int64_t j = 0; j < kOutputs; ++j) sum += std::exp(row[j]);
    EXPECT_NEAR(sum, 1, 1e-12);
    const auto r = static_cast<std::size_t>(n % host_.rows);
    if (n / host_.rows < host_.target_lengths[r]) {
      nll -= row[host_.labels[static_cast<std::size_t>(n)]];
    }
  }
  EXPECT_NEAR(with.sums[loss::kNll], nll, 1e-11);
}

TEST_P(StackModels, BFloat16IsCloseToFloat32) {
  const std::unique_ptr<Model> model = allocated(DType::kFloat32, true);
  const Batch batch = upload(host_);
  const Extent capacity{4, 5, host_.target_time};
  const Evaluation exact = evaluate(*model, batch, capacity);
  context_.set_precision(runtime::Precision::parse("bfloat16"));
  const Evaluation rounded = evaluate(*model, batch, capacity);
  // Features up to 3, four layers, eight bits: a few hundredths; what rows hold past their end
  // means nothing.
  EXPECT_NEAR(rounded.sums[loss::kLoss], exact.sums[loss::kLoss],
              0.05 * (1 + exact.sums[loss::kLoss]));
  // Gradients flow, too.
  runtime::ArenaPlanner planner;
  const auto plan = model->training_plan(context_, planner, capacity, true);
  const runtime::Arena arena(*device_, planner);
  const Tensor step = put<std::int32_t>({4}, {1});
  const Pass pass{.scale = put<double>({1.0}, {1}),
                  .dropout = {11, step.data_as<const std::int32_t>(), 0}};
  plan->forward_backward(context_, arena, batch, pass);
  double squares = 0;
  for (const float g : context_.download<float>(model->parameters().gradients())) {
    squares += static_cast<double>(g) * static_cast<double>(g);
  }
  EXPECT_TRUE(squares > 1e-6 && std::isfinite(squares)) << squares;
}

// In parts, with the states carried from one to the next, into memory of either.
TEST_P(StackModels, PartsOfASequenceContinueIt) {
  const std::unique_ptr<Model> model = allocated(DType::kFloat64, false);
  const auto* features = dynamic_cast<const Features*>(model.get());
  if (features == nullptr || !features->config().is_per_frame() ||
      features->config().stack.bidirectional) {
    GTEST_SKIP() << "such a model needs whole sequences";
  }
  host_.lengths.assign(4, 5);
  const Evaluation whole = evaluate(*model, upload(host_), {4, 5, 5});
  runtime::ArenaPlanner planner;
  const auto plan = features->plan(context_, planner, {4, 3, 3}, false);
  const runtime::Arena arena(*device_, planner);
  const auto& stack = features->stack().architecture();
  const auto states = [&] {
    const Shape h = stack.h_shape(4), c = stack.c_shape(4);
    const bool has_c = stack.cell == kernels::recurrent::CellType::kLstm;
    return StackStates{
        put(std::vector<double>(static_cast<std::size_t>(h.element_count())), h),
        has_c ? put(std::vector<double>(static_cast<std::size_t>(c.element_count())), c)
              : Tensor()};
  };
  StackStates from = states(), to = states();
  plan->pack(context_, arena);
  std::vector<double> answers;
  const Tensor all = upload(host_).source;
  for (const auto& [begin, end] : {std::pair{0, 2}, {2, 3}, {3, 5}}) {
    Batch part;
    part.extent = {4, end - begin, 0};
    part.source = all.slice(0, begin, end);
    const auto more = context_.download<double>(plan->run_part(context_, arena, part, from, to));
    answers.insert(answers.end(), more.begin(), more.end());
    std::swap(from, to);
  }
  ASSERT_EQ(answers.size(), whole.answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_NEAR(answers[i], whole.answers[i], 1e-12);
}

TEST_P(StackModels, RefusesBatchesThatDoNotFit) {
  const std::unique_ptr<Model> model = allocated(DType::kFloat64, false);
  Batch batch = upload(host_);
  EXPECT_THROW(evaluate(*model, batch, {3, 5, host_.target_time}), Error);
  EXPECT_THROW(evaluate(*model, batch, {4, 4, host_.target_time}), Error);
  batch.extent.target_time = 2;
  EXPECT_THROW(evaluate(*model, batch, {4, 5, 5}), Error);
}

INSTANTIATE_TEST_SUITE_P(All, StackModels,
                         ::testing::Combine(testing::host_devices(),
                                            ::testing::Range(std::size_t{0}, kCases)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) + "_" +
                                  case_of(std::get<1>(tested.param)).name;
                         });

}  // namespace
}  // namespace sluice::models
