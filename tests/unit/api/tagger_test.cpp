#include "sluice/tagger.h"

#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

class TaggerApiTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    const std::string sentences =
        "mr\tO\nann\tB-per\nlee\tI-per\n\nin\tO\nrome\tB-loc\nann\tB-per\n\nann\tB-per\n";
    train("crf", "conll", sentences, "kind = \"tagger\"\n");
    train("softmax", "conll", sentences,
          "kind = \"tagger\"\noutput = \"softmax\"\nbidirectional = false\n");
  }
  Tagger load(const std::string& name) { return Tagger::load(checkpoint(name), placement()); }
};

TEST_P(TaggerApiTest, LabelsEachSentenceInItsPlace) {
  Tagger model = load("crf");
  EXPECT_EQ(model.labels().size(), 4U);
  const std::vector<Words> sentences{{"mr", "ann", "lee"}, {}, {"in", "rome"}, {"ann"}};
  const auto together = model.tag(sentences);
  ASSERT_EQ(together.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(together[i].tokens, sentences[i]);
    EXPECT_EQ(together[i].labels.size(), sentences[i].size());
    EXPECT_EQ(model.tag({&sentences[i], 1}, {.batch = 1}).at(0).labels, together[i].labels);
  }
  // What it was trained on it has learnt.
  EXPECT_EQ(together[0].labels, (Words{"O", "B-per", "I-per"}));
  ASSERT_EQ(together[0].entities.size(), 1U);
  EXPECT_EQ(together[0].entities[0].type, "per");
  EXPECT_EQ(together[0].entities[0].begin, 1);
  EXPECT_EQ(together[0].entities[0].end, 3);
  EXPECT_TRUE(model.tag({}).empty());
}

TEST_P(TaggerApiTest, TakesPartsIfItReadsForward) {
  EXPECT_NE(load("crf").refuse_parts(), "");
  Tagger model = load("softmax");
  EXPECT_EQ(model.refuse_parts(), "");
  const std::vector<Words> whole{{"in", "rome", "ann", "lee"}};
  const Words expected = model.tag(whole).at(0).labels;
  model.tag_part(Words{"lee"});
  model.begin_sentence();
  Words found = model.tag_part(Words{"in", "rome"}).labels;
  EXPECT_TRUE(model.tag_part(Words{}).labels.empty());
  for (const std::string& label : model.tag_part(Words{"ann", "lee"}).labels) {
    found.push_back(label);
  }
  EXPECT_EQ(found, expected);
}

TEST_P(TaggerApiTest, RefusesWithItsPlace) {
  Tagger model = load("crf");
  for (const char* token : {"", "two words", "\xff"}) {
    const std::vector<Words> sentences{{"ann"}, {"in", token}};
    const Error error = error_of([&] { model.tag(sentences); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find("token 2 of sentence 2"), std::string::npos)
        << error.what();
  }
  const std::vector<Words> good{{"ann"}};
  EXPECT_EQ(error_of([&] { model.tag(good, {.batch = -1}); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(model.tag(good).at(0).labels.size(), 1U);
}

TEST_P(TaggerApiTest, WarnsWhoItWasTold) {
  Tagger model = load("softmax");
  const std::vector<Words> sentences{{"ann", "unseen"}};
  model.tag(sentences);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("1 of 2 tokens in the input"), std::string::npos) << warnings_[0];
  model.tag_part(sentences[0]);
  EXPECT_EQ(warnings_.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Devices, TaggerApiTest, testing::devices(), testing::device_name);

TEST(ReadConll, WarnsOfWhatLooksLikePlainText) {
  const testing::TemporaryFolder folder;
  const std::string plain = folder.write("plain.txt", "mr ann sees\nrome in may\n").native();
  std::vector<std::string> warnings;
  const WarningHandler handler = [&](std::string_view said) { warnings.emplace_back(said); };
  const auto read = read_conll(plain, {}, handler);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].tokens, (Words{"mr", "rome"}));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("plain.txt' line 1 has 3 columns between spaces"), std::string::npos)
      << warnings[0];
  read_conll(folder.write("columns.conll", "mr\tO\n").native(), {}, handler);
  EXPECT_EQ(warnings.size(), 1U);
}

TEST(ScoreEntities, CountsWholeEntitiesAlone) {
  const std::vector<TaggedSentence> expected{
      {{"a", "b", "c"}, {"B-per", "I-per", "O"}, {{"per", 0, 2}}},
      {{"d"}, {"B-loc"}, {{"loc", 0, 1}}}};
  std::vector<TaggedSentence> predicted = expected;
  predicted[0].labels = {"B-per", "O", "O"};
  predicted[0].entities = {{"per", 0, 1}};
  const EntityScores scores = score_entities(predicted, expected);
  EXPECT_EQ(scores.tokens, 4);
  EXPECT_EQ(scores.correct_tokens, 3);
  EXPECT_EQ(scores.all.correct, 1);
  EXPECT_EQ(scores.all.predicted, 2);
  EXPECT_EQ(scores.all.expected, 2);
  EXPECT_DOUBLE_EQ(scores.all.f1, 0.5);
  predicted.pop_back();
  EXPECT_EQ(error_of([&] { score_entities(predicted, expected); }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
