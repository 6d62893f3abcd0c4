#include <gtest/gtest.h>

#include <fstream>

#include "sluice/classifier.h"
#include "sluice/feature_model.h"
#include "sluice/language_model.h"
#include "sluice/tagger.h"
#include "unit/api/trained_models.h"

/// States in memory: many sequences on one model, and one sequence on many models.
namespace sluice {
namespace {

using testing::error_of;

const std::string kLayers = "layers = 2\n";

/// Models that take parts, trained once on the cpu.
class PartStates : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    train("tags", "conll", "mr\tO\nann\tB-per\n\nin\tO\nrome\tB-loc\nann\tB-per\n",
          kLayers + "kind = \"tagger\"\noutput = \"softmax\"\nbidirectional = false\n");
    train("live", "table", "text,label\na b,x\nc,y\nb b c,x\nc a,y\n",
          kLayers + "kind = \"classifier\"\npooling = \"last\"\nbidirectional = false\n");
    train("text", "text", "a b c a b c\nb c a b\nc a b c a\n",
          kLayers + "kind = \"language_model\"\n");
    std::vector<float> frames;
    for (int i = 0; i < 24; ++i) frames.push_back(static_cast<float>(i * 7 % 11) / 5 - 1);
    folder_->write("frames.npy", testing::npy_file({12, 2}, frames));
    train("sensor", "[training]\nmax_steps = 5\n[data]\nfeatures = \"" + at("frames.npy") +
                        "\"\ntargets = \"" + at("frames.npy") + "\"\n[model]\nhidden = 6\n" +
                        kLayers + "kind = \"features\"\nbidirectional = false\n");
  }
  static Tagger tagger(const std::string& device) {
    return Tagger::load(at("tags/last"), {device});
  }
  static Classifier classifier(const std::string& device) {
    return Classifier::load(at("live/last"), {device});
  }
  static LanguageModel language_model(const std::string& device) {
    return LanguageModel::load(at("text/last"), {device});
  }
};

using Words = std::vector<std::string>;

const Words kFirst{"a", "b c", "", "a a b"}, kSecond{"c", "c b", "b", "c"};

TEST_P(PartStates, OfTwoTextsTakeTurnsOnOneClassifier) {
  Classifier model = classifier(GetParam());
  const auto alone = [&](const Words& parts) {
    model.begin_text();
    std::vector<std::vector<double>> all;
    for (const std::string& part : parts) all.push_back(model.classify_part(part).probabilities);
    return all;
  };
  const auto first = alone(kFirst), second = alone(kSecond);
  EXPECT_NE(first, second);
  model.begin_text();
  std::string of_first = model.state(), of_second = of_first;
  for (std::size_t i = 0; i < kFirst.size(); ++i) {
    model.set_state(of_first);
    EXPECT_EQ(model.classify_part(kFirst[i]).probabilities, first[i]) << i;
    of_first = model.state();
    model.set_state(of_second);
    EXPECT_EQ(model.classify_part(kSecond[i]).probabilities, second[i]) << i;
    of_second = model.state();
  }
  EXPECT_NE(of_first, of_second);
}

TEST_P(PartStates, OfTwoSentencesTakeTurnsOnOneTagger) {
  Tagger model = tagger(GetParam());
  const std::vector<Words> first{{"mr"}, {"ann", "in"}, {"rome"}}, second{{"in", "in"}, {}, {"mr"}};
  const auto alone = [&](const std::vector<Words>& parts) {
    model.begin_sentence();
    std::vector<Words> all;
    for (const Words& part : parts) all.push_back(model.tag_part(part).labels);
    return std::make_pair(all, model.state());
  };
  const auto [labels_first, end_first] = alone(first);
  const auto [labels_second, end_second] = alone(second);
  EXPECT_NE(end_first, end_second);
  model.begin_sentence();
  std::string of_first = model.state(), of_second = of_first;
  for (std::size_t i = 0; i < first.size(); ++i) {
    model.set_state(of_first);
    EXPECT_EQ(model.tag_part(first[i]).labels, labels_first[i]) << i;
    of_first = model.state();
    model.set_state(of_second);
    EXPECT_EQ(model.tag_part(second[i]).labels, labels_second[i]) << i;
    of_second = model.state();
  }
  // Every bit of where they stand, not labels alone.
  EXPECT_EQ(of_first, end_first);
  EXPECT_EQ(of_second, end_second);
}

TEST_P(PartStates, OfTwoSequencesTakeTurnsOnOneFeatureModel) {
  FeatureModel model = FeatureModel::load(at("sensor/last"), {GetParam()});
  const std::vector<Frames> first{{2, {1, 2}}, {2, {0, -1, 3, 1}}},
      second{{2, {-2, 0}}, {2, {1, 1}}};
  const auto alone = [&](const std::vector<Frames>& parts) {
    model.begin_sequence();
    model.run_part(parts[0]);
    return model.run_part(parts[1]).values;
  };
  const auto rest_first = alone(first), rest_second = alone(second);
  model.begin_sequence();
  model.run_part(first[0]);
  const std::string of_first = model.state();
  model.begin_sequence();
  model.run_part(second[0]);
  const std::string of_second = model.state();
  model.set_state(of_first);
  EXPECT_EQ(model.run_part(first[1]).values, rest_first);
  EXPECT_NE(model.run_part(first[1]).values, rest_first);  // or states would not matter
  model.set_state(of_second);
  EXPECT_EQ(model.run_part(second[1]).values, rest_second);
}

// A GPU sums in another order.
TEST_P(PartStates, GoFromOneDeviceToAnotherAndBack) {
  Classifier home = classifier("cpu"), away = classifier(GetParam());
  std::vector<double> whole;
  for (const std::string& part : kFirst) whole = home.classify_part(part).probabilities;
  home.begin_text();
  home.classify_part(kFirst[0]);
  away.classify_part("c c c");  // to be forgotten
  away.set_state(home.state());
  away.classify_part(kFirst[1]);
  // What all so far is comes with the state, without a token of its own.
  home.set_state(away.state());
  const auto so_far = home.classify_part(kFirst[2]).probabilities;
  EXPECT_EQ(so_far, away.classify_part("").probabilities);
  const auto found = home.classify_part(kFirst[3]).probabilities;
  ASSERT_EQ(found.size(), whole.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], whole[i], 1e-4);
}

TEST_P(PartStates, AreTheBytesOfTheFiles) {
  Classifier model = classifier(GetParam());
  model.classify_part("a b");
  const std::string state = model.state();
  model.save_state(at("classifier.state"));
  std::ifstream file(at("classifier.state"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), state);
  folder_->write("written.state", state);
  model.begin_text();
  model.load_state(at("written.state"));
  EXPECT_EQ(model.state(), state);
}

Words texts_of(const std::vector<Hypothesis>& hypotheses) {
  Words texts;
  for (const Hypothesis& found : hypotheses) texts.push_back(found.text);
  return texts;
}

// To the bit on a device of one kind, whoever holds the state in between.
TEST_P(PartStates, OfTextsTakeTurnsOnOneLanguageModel) {
  LanguageModel model = language_model(GetParam()), other = language_model(GetParam());
  GenerateOptions options;
  options.sample.samples = 3;
  options.max_length = 14;
  const auto whole = [&](std::uint64_t seed) {
    GenerateOptions all = options;
    all.sample.seed = seed;
    return model.generate(all);
  };
  const auto first = whole(5), second = whole(9);
  ASSERT_NE(texts_of(first), texts_of(second));
  options.max_length = 6;
  const auto begin = [&](std::uint64_t seed) {
    options.sample.seed = seed;
    return model.generate_part(options);
  };
  const TextParts begun_first = begin(5), begun_second = begin(9);
  options.max_length = 8;
  const TextParts rest_second = other.generate_part(options, begun_second.state);
  const TextParts rest_first = model.generate_part(options, begun_first.state);
  const auto check = [](const TextParts& begun, const TextParts& rest,
                        const std::vector<Hypothesis>& all) {
    ASSERT_EQ(rest.texts.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      Words pieces = begun.texts[i].pieces;
      pieces.insert(pieces.end(), rest.texts[i].pieces.begin(), rest.texts[i].pieces.end());
      EXPECT_EQ(pieces, all[i].pieces);
      EXPECT_EQ(rest.texts[i].score, all[i].score);
    }
  };
  check(begun_first, rest_first, first);
  check(begun_second, rest_second, second);
}

INSTANTIATE_TEST_SUITE_P(Devices, PartStates, testing::devices(), testing::device_name);

class HostilePartStates : public PartStates {};

TEST_P(HostilePartStates, AreRefusedAndChangeNothing) {
  Tagger model = tagger(GetParam());
  model.tag_part(Words{"mr", "ann"});
  const std::string good = model.state();
  const auto refused = [&](const std::string& bytes) -> std::string {
    const Error error = error_of([&] { model.set_state(bytes); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    EXPECT_EQ(model.state(), good);
    return error.what();
  };
  for (std::size_t size = 0; size < good.size(); ++size) refused(good.substr(0, size));
  refused(good + 'x');
  EXPECT_NE(refused("no state").find("give what this model gave as its state"), std::string::npos);
  // A header that states more than there is takes no memory.
  std::string huge = good;
  huge[5] = '\x7f';
  EXPECT_NE(refused(huge).find("the header states a length"), std::string::npos);
  std::string nan = good;
  nan.replace(nan.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  EXPECT_NE(refused(nan).find("not finite"), std::string::npos);
  Classifier other = classifier(GetParam());
  EXPECT_NE(refused(other.state()).find("state of another kind of model, classifier"),
            std::string::npos);
  model.set_state(good);
  EXPECT_EQ(model.state(), good);
}

TEST_P(HostilePartStates, OfTextsAreRefused) {
  LanguageModel model = language_model(GetParam());
  GenerateOptions options;
  options.max_length = 2;
  const TextParts begun = model.generate_part(options);
  for (std::size_t size = 1; size < begun.state.size(); size += 7) {
    EXPECT_EQ(error_of([&] { model.generate_part(options, begun.state.substr(0, size)); }).code(),
              ErrorCode::kFormat);
  }
  options.save_state = at("file");
  const Error error = error_of([&] { model.generate_part(options, begun.state); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("files of states are for generate"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Hosts, HostilePartStates, ::testing::Values("cpu"), testing::device_name);

}  // namespace
}  // namespace sluice
