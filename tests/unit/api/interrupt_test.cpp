#include "sluice/interrupt.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "sluice/feature_model.h"
#include "sluice/language_model.h"
#include "sluice/sequence_model.h"
#include "sluice/train.h"
#include "unit/api/trained_models.h"
#include "unit/support/message_of.h"

/// Calls that their caller ends, and what a run tells of itself.
namespace sluice {
namespace {

struct Interrupted {};

const std::string kPairs = "a b\tb a\nc\tc\nb a c\tc a b\n";

class InterruptTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    train("pairs", "tsv", kPairs, "embedding = 4\n");
    train("texts", "text", "a b c\nb c\nc a b b\n", "kind = \"language_model\"\nembedding = 4\n");
    const std::vector<float> frames(24, 0.5F);
    folder_->write("in.npy", testing::npy_file({12, 2}, frames));
    train("frames", "[training]\nmax_steps = 5\n[data]\nfeatures = \"" + at("in.npy") +
                        "\"\ntargets = \"" + at("in.npy") +
                        "\"\n[model]\nkind = \"features\"\nhidden = 6\nbidirectional = false\n");
  }

  /// A placement whose models count the checks of a call and end it at number `end_at_`.
  Placement interrupted() {
    Placement placement = TrainedModels::placement();
    placement.interrupt = [this] {
      if (++checks_ == end_at_) throw Interrupted{};
    };
    return placement;
  }

  /// Ends `work` at each check that it makes, of which there must be `least`; after each, `work`
  /// gives what it gave before.
  void expect_ends(int least, const std::function<std::string()>& work) {
    end_at_ = 0;
    const std::string expected = counted(work);
    const int checks = checks_;
    EXPECT_GE(checks, least);
    for (int at = 1; at <= checks; ++at) {
      end_at_ = at;
      EXPECT_THROW(counted(work), Interrupted) << at;
      end_at_ = 0;
      EXPECT_EQ(counted(work), expected) << at;
    }
  }
  std::string counted(const std::function<std::string()>& work) {
    checks_ = 0;
    return work();
  }

  int checks_ = 0, end_at_ = 0;
};

TEST_P(InterruptTest, EndsSearches) {
  auto model = SequenceModel::load(checkpoint("pairs"), interrupted());
  const std::vector<std::string> inputs{"a b", "c", "b a c"};
  DecodeOptions options;
  options.min_length = 4;
  options.batch = 2;
  expect_ends(8, [&] {
    std::string text;
    for (const Decoded& decoded : model.decode(inputs, options)) {
      text += decoded.hypotheses.at(0).text + std::to_string(decoded.hypotheses[0].score) + "|";
    }
    return text;
  });
  const std::vector<std::pair<std::string, std::string>> pairs{{"a b", "b"}};
  expect_ends(1, [&] { return std::to_string(model.score(pairs).at(0).log_probability); });
}

TEST_P(InterruptTest, EndsDrawing) {
  auto model = LanguageModel::load(checkpoint("texts"), interrupted());
  GenerateOptions options;
  options.sample.samples = 3;
  options.min_length = options.max_length = 6;
  options.batch = 2;
  expect_ends(4, [&] {
    std::string text;
    for (const Hypothesis& drawn : model.generate(options)) text += drawn.text + "|";
    return text;
  });
}

TEST_P(InterruptTest, EndsRunsAndPartsBeforeTheyBegin) {
  auto model = FeatureModel::load(checkpoint("frames"), interrupted());
  const Frames frames{2, {1, 2, 3, 4, 5, 6}};
  expect_ends(1, [&] { return std::to_string(model.run({&frames, 1}).at(0).values.back()); });
  model.run_part(frames);
  const std::string before = model.state();
  checks_ = 0;
  end_at_ = 1;
  EXPECT_THROW(model.run_part(frames), Interrupted);
  EXPECT_EQ(model.state(), before);
}

TEST_P(InterruptTest, ProfilesRecordAllCalls) {
  auto model = FeatureModel::load(checkpoint("frames"), placement());
  const Frames frames{2, {1, 2, 3, 4, 5, 6}};
  ProfileRequest request;
  const auto refusal = [&] { return testing::message_of([&] { model.begin_profile(request); }); };
  EXPECT_NE(refusal().find("needs"), std::string::npos);
  request.trace = at(std::string("trace-") + GetParam());
  model.begin_profile(request);
  EXPECT_NE(refusal().find("already"), std::string::npos);
  model.run({&frames, 1});
  model.run_part(frames);
  EXPECT_FALSE(std::filesystem::exists(request.trace));
  model.end_profile();
  EXPECT_TRUE(std::filesystem::exists(request.trace));
  model.end_profile();  // does nothing
  model.run({&frames, 1});
}

class RunTest : public InterruptTest {
 protected:
  TrainRequest request(const std::string& name) {
    TrainRequest request;
    for (const std::string& setting :
         {"data.tsv=" + at("pairs.data"), "data.validation_tsv=" + at("pairs.data"),
          "output.directory=" + at(name)}) {
      request.overrides.push_back(setting);
    }
    for (const char* setting :
         {"tokenizer.kind=words", "model.hidden=6", "model.embedding=4", "training.max_epochs=4"}) {
      request.overrides.emplace_back(setting);
    }
    request.quiet = true;
    return request;
  }
};

TEST_P(RunTest, TellsOfStepsAndValidations) {
  std::filesystem::remove_all(at("told"));
  TrainRequest request = this->request("told");
  std::vector<TrainMetrics> steps, validations;
  request.metrics = [&](const TrainMetrics& told) {
    (told.is_validation ? validations : steps).push_back(told);
  };
  const TrainReport report = sluice::train(request);
  EXPECT_EQ(report.directory, at("told"));
  ASSERT_EQ(std::ssize(steps), report.steps);
  ASSERT_EQ(validations.size(), 4);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_GT(steps[i].target_tokens, 0);
    EXPECT_EQ(steps[i].values.at(0).first, "loss");
  }
  EXPECT_EQ(validations.back().epoch, 4);
  EXPECT_EQ(validations.back().fraction, 1);
  double best = validations[0].values.at(0).second;
  for (const TrainMetrics& told : validations) best = std::min(best, told.values.at(0).second);
  EXPECT_EQ(report.best_metric, best);
}

TEST_P(RunTest, EndsAtOnceWithFilesWhole) {
  std::filesystem::remove_all(at("ended"));
  TrainRequest request = this->request("ended");
  request.interrupt = [this] {
    if (++checks_ == end_at_) throw Interrupted{};
  };
  std::int64_t last = 0;
  for (end_at_ = 1; end_at_ < 12; end_at_ += 3) {
    checks_ = 0;
    EXPECT_THROW(sluice::train(request), Interrupted);
  }
  end_at_ = 0;
  request.metrics = [&](const TrainMetrics& told) { last = told.step; };
  EXPECT_EQ(sluice::train(request).steps, last);
}

INSTANTIATE_TEST_SUITE_P(Devices, InterruptTest, testing::devices(), testing::device_name);
// Runs are on the CPU whatever the device: one suffices.
INSTANTIATE_TEST_SUITE_P(Cpu, RunTest, ::testing::Values("cpu"), testing::device_name);

}  // namespace
}  // namespace sluice
