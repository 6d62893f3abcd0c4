#include "sluice/classifier.h"

#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

class ClassifierTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    const std::string table = "text,label\na b,x\nc,y\nb b c,x\nc a,y\na a b,x\nc c,y\n";
    folder_->write("reviews.csv", table);
    const std::string config =
        "[tokenizer]\nkind = \"words\"\n[training]\nmax_steps = 60\n"
        "learning_rate = 0.05\n[data]\ntable = \"" +
        at("reviews.csv") + "\"\n[model]\nkind = \"classifier\"\nhidden = 6\n";
    train("whole", config);
    train("live", config + "pooling = \"last\"\nbidirectional = false\n");
  }
  Classifier load(const std::string& name) {
    return Classifier::load(checkpoint(name), placement());
  }
};

TEST_P(ClassifierTest, LabelsEachTextInItsPlace) {
  Classifier model = load("whole");
  EXPECT_EQ(model.labels(), (Words{"x", "y"}));
  EXPECT_EQ(model.columns(), std::make_pair(std::string("text"), std::string("label")));
  const Words texts{"a b", "", "c c", "b c a b"};
  const std::vector<Classified> together = model.classify(texts);
  ASSERT_EQ(together.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Classified alone = model.classify({&texts[i], 1}).at(0);
    EXPECT_EQ(alone.label, together[i].label);
    ASSERT_EQ(together[i].probabilities.size(), 2U);
    EXPECT_NEAR(together[i].probabilities[0] + together[i].probabilities[1], 1, 1e-5);
    EXPECT_GE(together[i].probabilities[together[i].label], 0.5);
    EXPECT_NEAR(alone.probabilities[0], together[i].probabilities[0], 1e-5);
  }
  // What it was trained on it has learnt.
  EXPECT_EQ(together[0].label, 0U);
  EXPECT_EQ(together[2].label, 1U);
  EXPECT_TRUE(model.classify({}).empty());
}

TEST_P(ClassifierTest, TakesPartsIfItReadsForward) {
  Classifier whole = load("whole");
  EXPECT_NE(whole.refuse_parts(), "");
  EXPECT_EQ(error_of([&] { whole.classify_part("a"); }).code(), ErrorCode::kInvalidArgument);
  Classifier live = load("live");
  EXPECT_EQ(live.refuse_parts(), "");
  const Words text{"a b c c"};
  const double expected = live.classify(text).at(0).probabilities[0];
  live.classify_part("c");
  live.begin_text();
  live.classify_part("a b");
  EXPECT_NEAR(live.classify_part("c c").probabilities[0], expected, 1e-5);
}

TEST_P(ClassifierTest, RefusesWithItsPlace) {
  Classifier model = load("whole");
  const Words texts{"a", "\xff"};
  const Error error = error_of([&] { model.classify(texts); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_TRUE(std::string(error.what()).starts_with("text 2: ")) << error.what();
}

TEST_P(ClassifierTest, WarnsWhoItWasTold) {
  Classifier model = load("live");
  const Words texts{"a unseen", "unseen"};
  model.classify(texts);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("2 of 3 tokens in the input"), std::string::npos) << warnings_[0];
  model.classify_part("unseen");
  EXPECT_EQ(warnings_.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Devices, ClassifierTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
