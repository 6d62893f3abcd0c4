// Episodes within sequences of frames, from files to gradients.
#include "training/feature_resets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "kernels/loss/loss.h"
#include "models/features.h"
#include "models/stack_training.h"
#include "training/feature_files.h"
#include "training/features_data.h"
#include "training/streamed_data.h"
#include "training/task.h"
#include "training/training_step.h"
#include "unit/support/npy_file.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/support/zip_file.h"

namespace sluice::training {
namespace {

using Ints = std::vector<std::int32_t>;

/// Sequences of frames of three numbers with two values each.
class FeatureResetsTest : public testing::OnDevice {
 protected:
  static constexpr std::int64_t kFeatures = 3, kValues = 2;

  void append(data::FrameSequences& to, std::int64_t time, std::int64_t width) {
    to.width = width;
    to.names.emplace_back();
    for (const float number : testing::random_values<float>(random_, time * width)) {
      to.values.push_back(number);
    }
    to.first_frame.push_back(to.first_frame.back() + time);
  }
  /// Sequences of these episodes, joined.
  data::FrameCorpus draw(const std::vector<std::vector<std::int64_t>>& episodes) {
    data::FrameCorpus corpus;
    for (const auto& lengths : episodes) {
      const std::int64_t time = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
      append(corpus.frames, time, kFeatures);
      append(corpus.values, time, kValues);
      Ints& resets = corpus.resets.emplace_back(static_cast<std::size_t>(time));
      std::size_t at = 0;
      for (const std::int64_t length : lengths) {
        // Of the first frame it makes no difference: nothing is before it.
        if (at > 0 || corpus.resets.size() % 2 == 0) resets[at] = 1;
        at += static_cast<std::size_t>(length);
      }
    }
    return corpus;
  }
  /// Each episode as a sequence of its own.
  static data::FrameCorpus split(const data::FrameCorpus& joined) {
    data::FrameCorpus corpus = joined;
    corpus.resets.clear();
    std::vector<std::int64_t> first{0};
    for (std::int64_t i = 0; i < joined.size(); ++i) {
      const std::int64_t begin = joined.frames.first_frame[static_cast<std::size_t>(i)];
      for (std::int64_t t = 1; t < joined.frames.length(i); ++t) {
        const auto at = static_cast<std::size_t>(t);
        if (joined.resets[static_cast<std::size_t>(i)][at] != 0) first.push_back(begin + t);
      }
      first.push_back(begin + joined.frames.length(i));
    }
    corpus.frames.first_frame = corpus.values.first_frame = first;
    corpus.frames.names.resize(first.size() - 1);
    corpus.values.names.resize(first.size() - 1);
    return corpus;
  }
  static data::Batch all_of(const data::FrameCorpus& corpus) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(corpus.size()));
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
    return corpus.assemble(rows);
  }

  std::unique_ptr<models::Features> make(const models::StackConfig& stack) {
    models::FeaturesConfig config;
    config.features = kFeatures;
    config.outputs = kValues;
    config.normalize = false;
    config.stack = stack;
    config.stack.hidden = 8;
    config.stack.dropout = 0;
    auto model = std::make_unique<models::Features>(config);
    model->parameters().allocate(context_, runtime::DType::kFloat32, true);
    model->parameters().initialize(context_, 3);
    return model;
  }

  struct Gradients {
    double loss;
    std::vector<float> values;
  };
  Gradients gradients_of(const models::Features& model, const data::FrameCorpus& corpus) {
    const data::Batch host = all_of(corpus);
    model_files::PlanCache plans(model);
    model_files::BatchUpload uploads;
    models::TrainingPlan& plan = plans.plan(context_, model_files::extent_of(host), true);
    const model_files::UploadedStep uploaded =
        uploads.upload(context_, host, model_files::extent_of(host), {.scale = 0.1});
    context_.zero(model.parameters().gradients());
    models::Pass pass;
    pass.scale = uploaded.scale;
    pass.dropout = {1, uploaded.step.data_as<const std::int32_t>(), 0};
    const auto sums =
        get<double>(plan.forward_backward(context_, plans.arena(), uploaded.batch, pass));
    return {sums.at(static_cast<std::size_t>(kernels::loss::Sum::kLoss)),
            get<float>(model.parameters().gradients())};
  }

  std::mt19937_64 random_{5};
};

// In every direction of every layer no state passes, and no gradient.
TEST_P(FeatureResetsTest, TrainAsEpisodesThatAreSequencesOfTheirOwn) {
  const data::FrameCorpus joined = draw({{3, 1, 4}, {6}, {1, 1, 2}, {2, 5}});
  const data::FrameCorpus apart = split(joined);
  ASSERT_EQ(apart.size(), 9);
  data::FrameCorpus ignored = joined;
  ignored.resets.clear();
  for (const char* cell : {"lstm", "gru", "rnn_tanh"}) {
    for (const bool bidirectional : {false, true}) {
      SCOPED_TRACE(std::string(cell) + (bidirectional ? ", both directions" : ""));
      models::StackConfig stack;
      stack.cell = cell;
      stack.layers = 2;
      stack.bidirectional = bidirectional;
      const auto model = make(stack);
      const Gradients found = gradients_of(*model, joined), expected = gradients_of(*model, apart);
      EXPECT_NEAR(found.loss, expected.loss, 1e-4 * expected.loss);
      double difference = 0, size = 0, without = 0;
      const Gradients other = gradients_of(*model, ignored);
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        const double wanted = expected.values[i];
        difference = std::max(difference, std::abs(found.values[i] - wanted));
        without = std::max(without, std::abs(other.values[i] - wanted));
        size = std::max(size, std::abs(wanted));
      }
      // Rows differ, and with them the order of some 40 terms of float32.
      EXPECT_LT(difference, 1e-5 * size);
      EXPECT_GT(without, 1e-3 * size);
    }
  }
}

// What is captured reads the resets when it runs.
TEST_P(FeatureResetsTest, TrainTheSameInGraphs) {
  const auto train = [&](bool static_shapes) {
    random_.seed(9);
    models::StackConfig stack;
    stack.bidirectional = false;
    const auto model = make(stack);
    TrainingStep steps(context_, *model, {}, {.static_shapes = static_shapes});
    const data::FrameCorpus corpora[] = {draw({{3, 2}, {1, 3}}), draw({{4, 1}, {2, 2}}),
                                         draw({{2, 2, 1}, {4}}), draw({{1, 4}, {3}})};
    for (std::int64_t step = 1; step <= 8; ++step) {
      const data::Batch batch = all_of(corpora[step % 4]);
      steps.run(context_, {&batch, 1}, step, 1e-2);
    }
    if (static_shapes && context_.stream().can_capture()) {
      EXPECT_GT(steps.graphs(), 0U);
    }
    return get<float>(model->parameters().values());
  };
  // Padding changes the order of sums.
  const std::vector<float> found = train(true), expected = train(false);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST_P(FeatureResetsTest, ArePartOfWhatAPlanIsMadeFor) {
  const auto model = make({});
  model_files::PlanCache plans(*model);
  const models::Extent without{4, 8, 8}, with{4, 8, 8, true};
  EXPECT_NE(&plans.plan(context_, without, false), &plans.plan(context_, with, false));
  EXPECT_TRUE(model_files::PlanCache::capacity_of(with).resets);
  models::FeaturesConfig pooled = model->config();
  pooled.pooling = "mean";
  models::Features other(pooled);
  other.parameters().allocate(context_, runtime::DType::kFloat32, false);
  model_files::PlanCache refused(other);
  EXPECT_EQ(testing::error_of([&] { refused.plan(context_, with, false); }).code(),
            ErrorCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Devices, FeatureResetsTest, testing::devices(), testing::device_name);

/// Files of frames u0, u1 and u2, of so many frames and two, with a value a frame.
class ResetFilesTest : public ::testing::Test {
 protected:
  ResetFilesTest() {
    config_.model.kind = "features";
    config_.model.target = "values";
    config_.model.pooling = "none";
    config_.output.directory = (folder_ / "run").string();
    std::vector<testing::ZipMember> frames, targets;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::vector<float> numbers(static_cast<std::size_t>(2 + i), static_cast<float>(i));
      const std::string name = "u" + std::to_string(i) + ".npy";
      frames.push_back({name, testing::npy_file({2 + i, 1}, numbers), false});
      targets.push_back({name, testing::npy_file({2 + i, 1}, numbers), false});
    }
    config_.data.features = folder_.write("x.npz", testing::zip_file(frames)).string();
    config_.data.targets = folder_.write("y.npz", testing::zip_file(targets)).string();
    config_.data.resets = (folder_ / "r.npz").string();
    write({{"u0", {0, 1}}, {"u1", {1, 0, 1}}, {"u2", {0, 0, 0, 1}}});
  }
  void write(const std::vector<std::pair<std::string, Ints>>& arrays) {
    std::vector<testing::ZipMember> members;
    for (const auto& [name, resets] : arrays) {
      members.push_back({name + ".npy", testing::npy_file({std::ssize(resets)}, resets), false});
    }
    folder_.write("r.npz", testing::zip_file(members));
  }
  std::vector<Ints> read() const {
    const TrainData data = read_features_data(config_, nullptr);
    return dynamic_cast<const data::FrameCorpus&>(*data.train).resets;
  }
  void refuse(const std::vector<std::string>& said) const {
    const Error error = testing::error_of([&] { read(); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    for (const std::string& part : said) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << error.what() << "\nlacks " << part;
    }
    EXPECT_EQ(testing::error_of([&] { stream_features_data(config_, nullptr); }).what(),
              std::string(error.what()));
  }

  testing::TemporaryFolder folder_;
  TrainConfig config_;
};

const std::vector<Ints> kResets{{0, 1}, {1, 0, 1}, {0, 0, 0, 1}};

TEST_F(ResetFilesTest, GoByTheNamesOfTheFeatures) {
  EXPECT_EQ(read(), kResets);
  write({{"u2", {0, 0, 0, 1}}, {"u0", {0, 1}}, {"u1", {1, 0, 1}}});
  EXPECT_EQ(read(), kResets);
}

TEST_F(ResetFilesTest, AreOneForEachFrame) {
  write({{"u0", {0, 1}}, {"u1", {1, 0}}, {"u2", {0, 0, 0, 1}}});
  refuse({"array 'u1' has resets of 2 frames, but ", "x.npz' array 'u1' has 3 frames"});
  write({{"u0", {0, 1}}, {"u1", {1, 0, 2}}, {"u2", {0, 0, 0, 1}}});
  refuse({"array 'u1': the reset of frame 2 is 2; resets are 0 to 1"});
  write({{"u0", {0, 1}}, {"u1", {1, 0, 1}}});
  refuse({"r.npz' has no resets named 'u2'"});
  write({{"u0", {0, 1}}, {"u1", {1, 0, 1}}, {"u2", {0, 0, 0, 1}}, {"u3", {0}}});
  refuse({"x.npz' has no features named 'u3'", "as resets of"});
  write({{"u0", {0, 1}}});
  refuse({"has resets of 1 sequence, but there are more with features"});
  config_.data.resets = config_.data.targets;
  refuse({"y.npz' array 'u0': it holds floating-point numbers; resets are bools"});
}

TEST_F(ResetFilesTest, AreOfOneArrayInTheOrderOfSequences) {
  std::vector<float> numbers(12, 1);
  config_.data.features = config_.data.targets =
      folder_.write("x.npy", testing::npy_file({2, 3, 2}, numbers)).string();
  std::string bools = testing::npy_file({2, 3}, Ints(6, 0));
  bools = bools.replace(bools.find("<i4"), 3, "|b1").substr(0, bools.size() - 24) +
          std::string("\0\1\0\1\0\0", 6);
  config_.data.resets = folder_.write("r.npy", bools).string();
  EXPECT_EQ(read(), (std::vector<Ints>{{0, 1, 0}, {1, 0, 0}}));
  config_.data.resets = folder_.write("more.npy", testing::npy_file({3, 3}, Ints(9, 0))).string();
  refuse({"more.npy' has resets of more sequences than the 2 of "});
}

TEST_F(ResetFilesTest, AreTheSameWhenStreamed) {
  config_.data.hold_out_run = 1;
  config_.data.hold_out_every = 3;
  const TrainData read = read_features_data(config_, nullptr);
  const TrainData streamed = stream_features_data(config_, nullptr);
  EXPECT_EQ(streamed.train->fingerprint(), read.train->fingerprint());
  EXPECT_EQ(streamed.validation->fingerprint(), read.validation->fingerprint());
  const std::vector<std::int64_t> rows{1, 0};
  const data::Batch on_disk = streamed.train->assemble(rows),
                    in_memory = read.train->assemble(rows);
  EXPECT_FALSE(in_memory.resets.empty());
  EXPECT_EQ(on_disk.resets, in_memory.resets);
  EXPECT_EQ(on_disk.features, in_memory.features);
  EXPECT_EQ(on_disk.source_lengths, in_memory.source_lengths);
  config_.data.resets.clear();
  EXPECT_NE(read_features_data(config_, nullptr).train->fingerprint(), read.train->fingerprint());
}

TEST_F(ResetFilesTest, BelongToSequencesToTrainOnAndToValidateOnAlike) {
  config_.data.validation_features = config_.data.features;
  config_.data.validation_targets = config_.data.targets;
  const auto refusal = [&] { return std::string(testing::error_of([&] { read(); }).what()); };
  EXPECT_NE(refusal().find("data.resets and data.validation_resets belong together"),
            std::string::npos);
  config_.data.validation_resets = config_.data.resets;
  EXPECT_EQ(read(), kResets);
  config_.data.validation_features = config_.data.validation_targets = "";
  EXPECT_NE(refusal().find("data.validation_resets is set, but data.validation_features is not"),
            std::string::npos);
  config_.data.validation_resets = "";
  config_.model.pooling = "mean";
  EXPECT_NE(std::string(testing::error_of([&] { task_of(config_).check(config_); }).what())
                .find("data.resets is set, but model.pooling is mean"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::training
