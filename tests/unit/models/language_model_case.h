#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "kernels/loss/loss.h"
#include "models/language_model_training.h"

namespace sluice::models {

/// A language model to test, on some device.
struct LanguageModelCase {
  const char* device;
  const char* cell;
  std::int64_t layers;
  std::int64_t features = 0;
  std::int64_t projection = 0;
  bool tied = false;
  bool extras = false;  ///< whether the cells have more than their equations
};

inline std::string case_name(const testing::TestParamInfo<LanguageModelCase>& info) {
  return std::string(info.param.device) + "_" + info.param.cell + std::to_string(info.index);
}

/// A model in float64 with a ragged batch.
class LanguageModelFixture : public testing::TestWithParam<LanguageModelCase> {
 protected:
  static constexpr std::size_t kRows = 3, kTime = 5;
  static constexpr int kVocabulary = 9;

  LanguageModelFixture()
      : device_(runtime::open_device(GetParam().device)),
        context_(*device_),
        model_(config_of(GetParam())) {
    model_.parameters().allocate(context_, DType::kFloat64, true);
    model_.parameters().initialize(context_, 3);
    std::mt19937 random(5);
    fed_.resize(kTime * kRows);
    wanted_.resize(kTime * kRows);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      wanted_[i] = static_cast<std::int32_t>(4 + random() % (kVocabulary - 4));
      fed_[i] = i < kRows ? 2 : wanted_[i - kRows];
    }
    for (std::int64_t i = 0; i < std::int64_t{kRows} * GetParam().features; ++i) {
      features_.push_back(static_cast<float>(random() % 2001) / 1000 - 1);
    }
  }

  static LanguageModelConfig config_of(const LanguageModelCase& c) {
    LanguageModelConfig config;
    config.cell = c.cell;
    config.vocabulary = kVocabulary;
    config.hidden = 6;
    config.embedding = 5;
    config.layers = c.layers;
    config.projection = c.projection;
    config.features = c.features;
    config.dropout = 0.3;
    if (c.tied) {
      config.tie_embeddings = "decoder";
      config.embedding = config.width();
    }
    if (!c.extras) return config;
    config.peepholes = true;
    config.zoneout_h = 0.1;
    config.zoneout_c = 0.2;
    config.recurrent_dropout = 0.3;
    return config;
  }

  template <typename T>
  Tensor put(const Shape& shape, const std::vector<T>& values) {
    buffers_.emplace_back(*device_, values.size() * sizeof(T));
    const Tensor tensor = buffers_.back().tensor(base::dtype_of<T>(), shape);
    context_.upload<T>(tensor, values);
    return tensor;
  }

  // These columns and steps of a [kTime, kRows] table of tokens.
  Tensor put_tokens(const std::vector<std::int32_t>& table, std::int64_t first, std::int64_t end,
                    const std::vector<int>& rows) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t t = first; t < end; ++t) {
      for (const int row : rows) tokens.push_back(table[static_cast<std::size_t>(t * kRows + row)]);
    }
    return put<std::int32_t>({end - first, std::ssize(rows)}, tokens);
  }

  // Steps [first, end) of these rows; of the whole batch their lengths are lengths_.
  Batch part(std::int64_t first, std::int64_t end, const std::vector<int>& rows) {
    const std::int64_t count = std::ssize(rows);
    Batch batch;
    batch.extent = {count, 0, end - first};
    std::vector<std::int32_t> lengths, ids;
    std::vector<float> features;
    const auto width = static_cast<std::size_t>(GetParam().features);
    for (const int row : rows) {
      const auto r = static_cast<std::size_t>(row);
      lengths.push_back(
          static_cast<std::int32_t>(std::clamp<std::int64_t>(lengths_[r] - first, 0, end - first)));
      ids.push_back(ids_[r]);
      for (std::size_t f = 0; f < width; ++f) features.push_back(features_[r * width + f]);
    }
    if (width > 0) {
      batch.extent.source_time = 1;
      batch.source = put<float>({1, count, GetParam().features}, features);
    }
    batch.target_in = put_tokens(fed_, first, end, rows);
    batch.target_out = put_tokens(wanted_, first, end, rows);
    batch.target_lengths = put<std::int32_t>({count}, lengths);
    batch.row_ids = put<std::int32_t>({count}, ids);
    return batch;
  }
  Batch whole() { return part(0, kTime, {0, 1, 2}); }
  // A part of states that are carried; `from` says where its rows start.
  Batch carried_part(std::int64_t first, std::int64_t end, const std::vector<int>& rows,
                     const std::vector<std::int32_t>& from) {
    Batch batch = part(first, end, rows);
    batch.extent.source_time = 1;
    batch.source = put<std::int32_t>({1, std::ssize(from)}, from);
    return batch;
  }

  // The loss, with gradients of the parameters added if training.
  double loss(const Batch& batch, bool training, const Pass& pass) {
    runtime::ArenaPlanner planner;
    // A capacity beyond the extent: neither may show in results.
    LanguageModelTraining plan(context_, model_, planner, {4, 1, 7}, training);
    const runtime::Arena arena(*device_, planner);
    const Tensor sums = training ? plan.forward_backward(context_, arena, batch, pass)
                                 : plan.evaluate(context_, arena, batch, pass);
    return context_.download<double>(sums)[kernels::loss::kLoss];
  }
  std::vector<double> scores(const Batch& batch) {
    runtime::ArenaPlanner planner;
    LanguageModelTraining plan(context_, model_, planner, {4, 1, 7}, false);
    const runtime::Arena arena(*device_, planner);
    return context_.download<double>(plan.score(context_, arena, batch));
  }

  // Holds the gradients of `loss_of()`, which adds scale times them, against finite differences of
  // what it returns.
  template <typename LossOf>
  void expect_gradients(double scale, LossOf&& loss_of) {
    std::mt19937 random(1);
    const layers::Parameters& parameters = model_.parameters();
    for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
      context_.zero(parameters.gradients());
      loss_of();
      const std::vector<double> gradient = context_.download<double>(parameters.gradient(id));
      const std::vector<double> value = parameters.download<double>(context_, id);
      for (int probe = 0; probe < 3; ++probe) {
        const std::size_t i = random() % value.size();
        const auto loss_at = [&](double shift) {
          std::vector<double> moved = value;
          moved[i] += shift;
          parameters.upload<double>(context_, id, moved);
          return loss_of();
        };
        const double h = 1e-5;
        const double expected = scale * (loss_at(h) - loss_at(-h)) / (2 * h);
        parameters.upload<double>(context_, id, value);
        EXPECT_NEAR(gradient[i], expected, 1e-8 + 1e-6 * std::abs(expected))
            << parameters.specs()[id].name << "[" << i << "]";
      }
    }
  }

  std::unique_ptr<runtime::Device> device_;
  Context context_;
  LanguageModel model_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<std::int32_t> fed_, wanted_;  // [kTime, kRows]
  std::vector<float> features_;             // [kRows, features]
  std::vector<std::int32_t> lengths_{2, 5, 3};
  const std::vector<std::int32_t> ids_{70, 7, 100001};
};

}  // namespace sluice::models
