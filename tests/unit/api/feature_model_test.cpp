#include "sluice/feature_model.h"

#include <cmath>
#include <limits>

#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using testing::error_of;

/// Frames of two numbers.
Frames frames(std::int64_t time, float seed) {
  Frames result{2, {}};
  for (std::int64_t i = 0; i < 2 * time; ++i) {
    result.values.push_back(std::sin(seed + 1.7F * static_cast<float>(i)));
  }
  return result;
}

class FeatureModelTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    folder_->write("in.npy", testing::npy_file({12, 2}, frames(12, 0).values));
    const std::vector<std::int32_t> classes{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2};
    folder_->write("classes.npy", testing::npy_file({12}, classes));
    folder_->write("many.npy", testing::npy_file({4, 3, 2}, frames(12, 0).values));
    folder_->write("one_each.npy", testing::npy_file({4}, std::vector<std::int32_t>{0, 1, 1, 0}));
    const std::string data =
        "[training]\nmax_steps = 5\n[data]\nfeatures = \"" + at("in.npy") + "\"\ntargets = \"";
    const std::string model = "\"\n[model]\nkind = \"features\"\nhidden = 6\nlayers = 2\n";
    train("values", data + at("in.npy") + model + "bidirectional = false\n");
    train("classes", data + at("classes.npy") + model + "target = \"classes\"\n");
    train("pooled", "[training]\nmax_steps = 5\n[data]\nfeatures = \"" + at("many.npy") +
                        "\"\ntargets = \"" + at("one_each.npy") + model +
                        "target = \"classes\"\npooling = \"mean\"\n");
  }
  FeatureModel load(const std::string& name) {
    return FeatureModel::load(checkpoint(name), placement());
  }
};

void expect_near(const Frames& found, const Frames& expected) {
  EXPECT_EQ(found.width, expected.width);
  ASSERT_EQ(found.values.size(), expected.values.size());
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    EXPECT_NEAR(found.values[i], expected.values[i], 1e-5) << i;
  }
}

TEST_P(FeatureModelTest, AnswersEachSequenceInItsPlace) {
  FeatureModel model = load("values");
  EXPECT_EQ(model.features(), 2);
  EXPECT_EQ(model.outputs(), 2);
  EXPECT_TRUE(model.answers_each_frame());
  EXPECT_TRUE(model.labels().empty());
  const std::vector<Frames> sequences{frames(3, 1), frames(0, 0), frames(9, 2), frames(1, 3)};
  const std::vector<Frames> together = model.run(sequences);
  ASSERT_EQ(together.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(together[i].time(), sequences[i].time()) << i;
    expect_near(together[i], model.run({&sequences[i], 1}).at(0));
  }
  EXPECT_TRUE(model.run({}).empty());
}

TEST_P(FeatureModelTest, GivesProbabilitiesOfClasses) {
  FeatureModel model = load("classes");
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"0", "1", "2"}));
  const std::vector<Frames> sequences{frames(5, 1)};
  const Frames answers = model.run(sequences).at(0);
  ASSERT_EQ(answers.values.size(), 15U);
  for (std::size_t t = 0; t < 5; ++t) {
    double sum = 0;
    for (std::size_t c = 0; c < 3; ++c) sum += answers.values[3 * t + c];
    EXPECT_NEAR(sum, 1, 1e-5) << t;
  }
  EXPECT_NE(model.refuse_parts().find("bidirectional"), std::string::npos);
  EXPECT_EQ(error_of([&] { model.run_part(frames(1, 0)); }).code(), ErrorCode::kInvalidArgument);
}

TEST_P(FeatureModelTest, GivesOneAnswerToAPooledSequence) {
  FeatureModel model = load("pooled");
  EXPECT_FALSE(model.answers_each_frame());
  const std::vector<Frames> sequences{frames(5, 1), frames(2, 2)};
  const std::vector<Frames> answers = model.run(sequences);
  for (const Frames& answer : answers) {
    ASSERT_EQ(answer.values.size(), 2U);
    EXPECT_NEAR(answer.values[0] + answer.values[1], 1, 1e-5);
  }
}

TEST_P(FeatureModelTest, GivesOfPartsWhatItGivesOfTheWhole) {
  FeatureModel model = load("values");
  const std::vector<Frames> whole{frames(7, 1)};
  const Frames expected = model.run(whole).at(0);
  const auto part = [&](std::int64_t first, std::int64_t end) {
    const auto begin = whole[0].values.begin();
    return Frames{2, {begin + 2 * first, begin + 2 * end}};
  };
  Frames found{2, {}};
  for (const auto& [first, end] : {std::pair{0, 3}, {3, 3}, {3, 4}, {4, 7}}) {
    const Frames more = model.run_part(part(first, end));
    found.values.insert(found.values.end(), more.values.begin(), more.values.end());
  }
  expect_near(found, expected);
  model.begin_sequence();
  expect_near(model.run_part(part(0, 7)), expected);
}

// A remainder would shift every later sequence.
TEST_P(FeatureModelTest, RefusesNumbersThatMakeNoWholeFrames) {
  FeatureModel model = load("values");
  std::vector<Frames> sequences{frames(3, 1), frames(4, 2), frames(2, 3)};
  const std::vector<Frames> before = model.run(sequences);
  sequences[1].values.pop_back();
  const Error error = error_of([&] { model.run(sequences); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_STREQ(error.what(),
               "sequence 1 (counted from 0) holds 7 numbers, which make no whole frames of 2 "
               "features");
  sequences[1] = Frames{3, {1, 2, 3}};
  const Error width = error_of([&] { model.run(sequences); });
  EXPECT_EQ(width.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(std::string(width.what())
                  .starts_with("sequence 1 (counted from 0): its frames have 3 features, but '"))
      << width.what();
  sequences[1] = frames(4, 2);
  const std::vector<Frames> after = model.run(sequences);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(after[i].values, before[i].values);
}

TEST_P(FeatureModelTest, RefusesNumbersThatAreNotFinite) {
  FeatureModel model = load("values");
  std::vector<Frames> sequences{frames(3, 1), frames(4, 2), frames(2, 3)};
  sequences[2].values[3] = std::numeric_limits<float>::quiet_NaN();
  const Error nan = error_of([&] { model.run(sequences); });
  EXPECT_EQ(nan.code(), ErrorCode::kInvalidArgument);
  EXPECT_STREQ(nan.what(),
               "sequence 2 (counted from 0): frame 1, column 1 (counted from 0) is nan; features "
               "must be finite numbers");
  sequences[2] = frames(2, 3);
  sequences[0].values[4] = -std::numeric_limits<float>::infinity();
  const Error infinite = error_of([&] { model.run(sequences); });
  EXPECT_TRUE(std::string(infinite.what())
                  .starts_with("sequence 0 (counted from 0): frame 2, column 0 (counted from 0) is "
                               "infinite"))
      << infinite.what();
}

TEST_P(FeatureModelTest, LeavesTheSequenceWhereAPartIsRefused) {
  FeatureModel model = load("values");
  const auto rest = [&] { return model.run_part(frames(2, 5)).values; };
  model.run_part(frames(3, 1));
  const std::vector<float> expected = rest();
  for (const Frames& bad :
       {Frames{2, {1, 2, 3}}, Frames{2, {1, std::nanf(""), 1, 1}}, Frames{1, {1, 2}}}) {
    model.begin_sequence();
    model.run_part(frames(3, 1));
    const std::string state = model.state();
    const Error error = error_of([&] { model.run_part(bad); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(std::string(error.what()).starts_with("the part")) << error.what();
    EXPECT_EQ(model.state(), state);
    EXPECT_EQ(rest(), expected);
  }
}

// A sequence with a reset answers as two sequences would.
TEST_P(FeatureModelTest, StartsAfreshAtResets) {
  for (const char* name : {"values", "classes"}) {  // of one direction, and of two
    FeatureModel model = load(name);
    std::vector<Frames> sequences{frames(7, 1), frames(4, 2), frames(3, 3)};
    const std::vector<Frames> plain = model.run(sequences);
    const auto piece = [&](std::int64_t first, std::int64_t end) {
      const auto begin = sequences[0].values.begin();
      return Frames{2, {begin + 2 * first, begin + 2 * end}};
    };
    const std::vector<Frames> pieces{piece(0, 3), piece(3, 6), piece(6, 7)};
    Frames expected{model.outputs(), {}};
    for (const Frames& answer : model.run(pieces)) {
      expected.values.insert(expected.values.end(), answer.values.begin(), answer.values.end());
    }
    sequences[0].resets = {1, 0, 0, 1, 0, 0, 255};
    sequences[2].resets = {0, 0, 0};
    const std::vector<Frames> found = model.run(sequences);
    expect_near(found[0], expected);
    EXPECT_NE(found[0].values, plain[0].values);
    expect_near(found[1], plain[1]);
    expect_near(found[2], plain[2]);
    EXPECT_TRUE(found[0].resets.empty());
    if (!model.refuse_parts().empty()) continue;
    model.run_part(frames(2, 8));  // which the first reset makes it forget
    expect_near(model.run_part(sequences[0]), expected);
    const Frames after = model.run_part(frames(2, 5));
    model.begin_sequence();
    model.run_part(pieces[2]);
    expect_near(after, model.run_part(frames(2, 5)));
  }
}

TEST_P(FeatureModelTest, RefusesResetsThatDontFit) {
  FeatureModel model = load("values"), pooled = load("pooled");
  std::vector<Frames> sequences{frames(2, 0), frames(3, 1)};
  sequences[1].resets = {0, 1};
  const auto refused = [&](FeatureModel& by) {
    const Error error = error_of([&] { by.run(sequences); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_EQ(refused(model),
            "sequence 1 (counted from 0) has 2 resets, but 3 frames; it needs one for each frame");
  sequences[1].resets = {0, 1, 0};
  EXPECT_NE(refused(pooled).find("answers whole sequences"), std::string::npos);
}

TEST_P(FeatureModelTest, RunsFilesWithResets) {
  FeatureModel model = load("values");
  const std::vector<std::int32_t> resets{0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0};
  folder_->write("resets.npy", testing::npy_file({12}, resets));
  std::vector<Frames> whole{frames(12, 0)};
  whole[0].resets.assign(resets.begin(), resets.end());
  const Frames expected = model.run(whole).at(0);
  for (const std::int64_t part : {0, 5}) {
    run_file(model, at("in.npy"), at("out.npy"), {.part = part, .resets = at("resets.npy")});
    expect_near({2, io::read_npy(at("out.npy")).floats}, expected);
  }
  folder_->write("short.npy", testing::npy_file({11}, std::vector<std::int32_t>(11)));
  const Error error =
      error_of([&] { run_file(model, at("in.npy"), at("out.npy"), {.resets = at("short.npy")}); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_NE(std::string(error.what()).find("has resets of 11 frames, but "), std::string::npos);
}

TEST_P(FeatureModelTest, RunsFiles) {
  FeatureModel model = load("values");
  run_file(model, at("in.npy"), at("out.npy"));
  const io::NpyArray out = io::read_npy(at("out.npy"));
  const std::vector<Frames> whole{frames(12, 0)};
  EXPECT_EQ(out.shape, (std::vector<std::int64_t>{12, 2}));
  EXPECT_EQ(out.floats, model.run(whole).at(0).values);
  EXPECT_EQ(error_of([&] { run_file(model, at("none.npy"), at("out.npy")); }).code(),
            ErrorCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Devices, FeatureModelTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
