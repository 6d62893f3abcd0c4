#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "kernels/loss/loss.h"
#include "models/tagger_training.h"
#include "unit/support/on_device.h"

namespace sluice::models {
namespace {

struct Case {
  const char* name;
  const char* cell;
  const char* output;
  bool bidirectional;
  std::int64_t layers;
  double dropout;
  bool extras = false;
  std::vector<std::int64_t> widths = {};
  bool hard_sigmoid = false;
};

const Case kCases[] = {
    {"lstm_crf", "lstm", "crf", true, 1, 0.3},
    {"lstm_softmax", "lstm", "softmax", true, 2, 0.3},
    {"gru_crf_one_way", "gru", "crf", false, 2, 0},
    {"gru_softmax", "gru", "softmax", true, 1, 0.3},
    {"lstm_crf_extras", "lstm", "crf", true, 2, 0.2, true},
    {"lstm_softmax_uneven", "lstm", "softmax", true, 2, 0.3, true, {12, 8}, true},
    {"gru_crf_uneven_one_way", "gru", "crf", false, 3, 0.3, false, {5, 5, 9}, true},
};

TaggerConfig config_of(const Case& c) {
  TaggerConfig config;
  config.cell = c.cell;
  config.output = c.output;
  config.bidirectional = c.bidirectional;
  config.layers = c.layers;
  config.dropout = c.dropout;
  config.vocabulary = 13;
  config.labels = 5;
  config.embedding = 7;
  config.hidden = 6;
  config.widths = c.widths;
  config.hard_sigmoid = c.hard_sigmoid;
  if (c.extras) {
    config.peepholes = true;
    config.zoneout_h = config.zoneout_c = 0.2;
    config.recurrent_dropout = 0.3;
  }
  return config;
}

/// A ragged batch on the host.
struct Sentences {
  std::int64_t time;
  std::vector<std::int32_t> tokens, labels, lengths, row_ids;  // tokens and labels time-major

  std::int64_t rows() const { return static_cast<std::int64_t>(lengths.size()); }
  Sentences row(std::int64_t r) const {
    Sentences one{time,
                  {},
                  {},
                  {lengths[static_cast<std::size_t>(r)]},
                  {row_ids[static_cast<std::size_t>(r)]}};
    for (std::int64_t t = 0; t < time; ++t) {
      one.tokens.push_back(tokens[static_cast<std::size_t>(t * rows() + r)]);
      one.labels.push_back(labels[static_cast<std::size_t>(t * rows() + r)]);
    }
    return one;
  }
};

class TaggerTest : public sluice::testing::OnDevice {
 protected:
  std::unique_ptr<Tagger> make_model(const Case& c, DType dtype) {
    auto model = std::make_unique<Tagger>(config_of(c));
    model->parameters().allocate(context_, dtype, true);
    model->parameters().initialize(context_, 3);
    return model;
  }

  static Sentences draw(std::int64_t time, const std::vector<std::int32_t>& lengths) {
    std::mt19937 random(5);
    Sentences s{time, {}, {}, lengths, {}};
    for (std::int64_t n = 0; n < time * s.rows(); ++n) {
      const bool counts = n / s.rows() < lengths[static_cast<std::size_t>(n % s.rows())];
      s.tokens.push_back(counts ? static_cast<std::int32_t>(1 + random() % 12) : 0);
      s.labels.push_back(counts ? static_cast<std::int32_t>(random() % 5) : 0);
    }
    for (std::int64_t r = 0; r < s.rows(); ++r) {
      s.row_ids.push_back(static_cast<std::int32_t>(17 * r + 70));
    }
    return s;
  }

  Batch upload(const Sentences& s) {
    Batch batch;
    batch.extent = {s.rows(), s.time, s.time};
    batch.source = put(s.tokens, Shape{s.time, s.rows()});
    batch.source_lengths = put(s.lengths);
    batch.target_out = put(s.labels, Shape{s.time, s.rows()});
    batch.target_lengths = batch.source_lengths;
    batch.row_ids = put(s.row_ids);
    return batch;
  }

  struct Result {
    std::vector<double> sums;
    std::vector<std::int32_t> labels;
  };
  /// Adds to the gradients if training. The capacity is beyond the extent: it may not show.
  Result run(const Tagger& model, const Batch& batch, bool training, const Pass& pass) {
    runtime::ArenaPlanner planner;
    TaggerTraining plan(context_, model, planner, {5, 8, 8}, training);
    const runtime::Arena arena(*device_, planner);
    const Tensor sums = training ? plan.forward_backward(context_, arena, batch, pass)
                                 : plan.evaluate(context_, arena, batch, pass);
    Result result{get<double>(sums), {}};
    if (!training) result.labels = get<std::int32_t>(plan.labels(arena));
    return result;
  }
};

// Dropout masks depend on seed, step and row only, so the loss under one mask has a derivative.
TEST_P(TaggerTest, GradientEqualsFiniteDifference) {
  if (!device_->runs_host_kernels())
    GTEST_SKIP() << "this device has no recurrent layers in float64";
  constexpr double kScale = 0.5;
  for (const Case& c : kCases) {
    const auto model = make_model(c, DType::kFloat64);
    const Batch batch = upload(draw(4, {4, 1, 3}));
    Pass pass;
    pass.label_smoothing = std::string(c.output) == "softmax" ? 0.1 : 0;
    pass.scale = put_number(kScale);
    pass.dropout = put_key({11, 4, 0});
    std::mt19937 random(1);
    const layers::Parameters& parameters = model->parameters();
    for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
      context_.zero(parameters.gradients());
      EXPECT_EQ(run(*model, batch, true, pass).sums[kernels::loss::kTokens], 8);
      const std::vector<double> gradient = get<double>(parameters.gradient(id));
      const std::vector<double> value = parameters.download<double>(context_, id);
      for (int probe = 0; probe < 2; ++probe) {
        const std::size_t i = random() % value.size();
        const auto loss_at = [&](double shift) {
          std::vector<double> moved = value;
          moved[i] += shift;
          parameters.upload<double>(context_, id, moved);
          return run(*model, batch, true, pass).sums[kernels::loss::kLoss];
        };
        const double h = 1e-5;
        const double expected = kScale * (loss_at(h) - loss_at(-h)) / (2 * h);
        parameters.upload<double>(context_, id, value);
        EXPECT_NEAR(gradient[i], expected, 1e-8 + 1e-6 * std::abs(expected))
            << c.name << ", " << parameters.specs()[id].name << "[" << i << "]";
      }
    }
  }
}

TEST_P(TaggerTest, BatchEqualsSingleRows) {
  for (const Case& c : kCases) {
    const auto model = make_model(c, DType::kFloat32);
    const Sentences all = draw(6, {6, 2, 0, 5});
    Pass pass;
    const Result together = run(*model, upload(all), false, pass);
    std::vector<double> sums(kernels::loss::kSums, 0.0);
    for (std::int64_t r = 0; r < all.rows(); ++r) {
      const Result alone = run(*model, upload(all.row(r)), false, pass);
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += alone.sums[k];
      for (std::int64_t t = 0; t < all.time; ++t) {
        EXPECT_EQ(alone.labels[static_cast<std::size_t>(t)],
                  together.labels[static_cast<std::size_t>(t * all.rows() + r)]);
      }
    }
    // float32 products of matrices may sum in another order: some 1e-7 of each of 13 losses.
    EXPECT_NEAR(together.sums[kernels::loss::kLoss], sums[kernels::loss::kLoss], 1e-5);
    EXPECT_EQ(together.sums[kernels::loss::kTokens], 13);
    EXPECT_EQ(together.sums[kernels::loss::kCorrect], sums[kernels::loss::kCorrect]);
    release_memory();
  }
}

TEST_P(TaggerTest, CountsTheLabelsItAnswersAsCorrect) {
  for (const Case& c : kCases) {
    const auto model = make_model(c, DType::kFloat32);
    Sentences s = draw(7, {7, 3, 1});
    Batch batch = upload(s);
    const Result first = run(*model, batch, false, {});
    double right = 0;
    for (std::size_t n = 0; n < s.labels.size(); ++n) {
      const bool counts = static_cast<std::int32_t>(n) / 3 < s.lengths[n % 3];
      if (counts) {
        right += first.labels[n] == s.labels[n] ? 1 : 0;
      } else {
        EXPECT_EQ(first.labels[n], 0);
      }
    }
    EXPECT_EQ(first.sums[kernels::loss::kCorrect], right);
    s.labels = first.labels;
    EXPECT_EQ(run(*model, upload(s), false, {}).sums[kernels::loss::kCorrect], 11);

    // What nobody knows the labels of gets the same ones.
    batch.target_out = Tensor();
    const Result untold = run(*model, batch, false, {});
    EXPECT_EQ(untold.labels, first.labels);
    EXPECT_EQ(untold.sums, std::vector<double>(kernels::loss::kSums, 0.0));
    release_memory();
  }
}

TEST_P(TaggerTest, RefusesWhatDoesNotFit) {
  const auto model = make_model(kCases[0], DType::kFloat32);
  const Batch batch = upload(draw(3, {3, 2}));
  Pass smoothed;
  smoothed.label_smoothing = 0.1;
  EXPECT_THROW(run(*model, batch, false, smoothed), Error);  // a CRF has none
  EXPECT_THROW(run(*model, upload(draw(9, {9})), false, {}), Error);
  Batch bad = batch;
  bad.target_out = put(std::vector<std::int32_t>(4, 0), Shape{2, 2});
  EXPECT_THROW(run(*model, bad, false, {}), Error);
  bad.target_out = Tensor();
  EXPECT_THROW(run(*model, bad, true, {}), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, TaggerTest, sluice::testing::devices(),
                         sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
