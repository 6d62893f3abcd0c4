#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "end_to_end/workplace.h"

/// Texts of a language model.
namespace sluice::end_to_end {
namespace {

using Arguments = std::vector<std::string>;

class Generate : public ::testing::Test {
 protected:
  Generate() { place_.train_texts(); }

  /// `sluice generate text/best ...` without errors.
  Arguments texts(const Arguments& options) const {
    return place_.lines_of({"generate", "text/best"}, options);
  }

  Workplace place_;
};

TEST_F(Generate, FollowsFromTheSeedAlone) {
  const Arguments drawn = texts({"--samples", "6"});
  ASSERT_EQ(drawn.size(), 6U);
  EXPECT_GT(std::set<std::string>(drawn.begin(), drawn.end()).size(), 3U);
  EXPECT_EQ(texts({"--samples", "6", "--batch", "4", "--seed", "1"}), drawn);  // and two more
  EXPECT_EQ(texts({}), Arguments{drawn[0]});
  EXPECT_NE(texts({"--samples", "6", "--seed", "2"}), drawn);
  for (const std::string& text : texts({"--samples", "4", "--prefix", "1 i"})) {
    EXPECT_TRUE(text.starts_with("1 i")) << text;
  }
  EXPECT_EQ(texts({"--temperature", "0"}), texts({"--beam", "1", "--length-penalty", "0"}));
}

TEST_F(Generate, ScoresAreThoseOfScore) {
  const Arguments lines = texts({"--samples", "8", "--format", "json", "--max-length", "30"});
  std::string drawn;
  std::vector<double> expected;
  for (const std::string& line : lines) {
    const nlohmann::json text = nlohmann::json::parse(line);
    if (!text["ended"]) continue;
    drawn += text["text"].get<std::string>() + '\n';
    expected.push_back(text["score"]);
  }
  ASSERT_GE(expected.size(), 4U);
  place_.write("drawn", drawn);
  const Arguments scored = split(place_.sluice({"score", "text/best", "drawn"}).out, '\n');
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // Both are float32 sums of thirty terms of order 1, printed with 5 digits or more.
    EXPECT_NEAR(std::stod(split(scored.at(i), '\t').at(0)), expected[i], 1e-4) << scored[i];
  }
}

TEST_F(Generate, HoldsTextsToWords) {
  const Arguments found = texts({"--beam", "8", "--nbest", "4", "--groups", "2", "--force", "is 1",
                                 "--ban", "a", "--no-repeat", "4", "--max-length", "20"});
  ASSERT_GE(found.size(), 2U);
  for (const std::string& text : found) {
    EXPECT_NE(text.find("is 1"), std::string::npos) << text;
    EXPECT_EQ(text.find('a'), std::string::npos) << text;
    for (std::size_t i = 0; i + 4 <= text.size(); ++i) {
      EXPECT_EQ(text.find(text.substr(i, 4), i + 1), std::string::npos) << text;
    }
  }
  for (const std::string& text : texts({"--samples", "20", "--ban", "is"})) {
    EXPECT_EQ(text.find("is"), std::string::npos) << text;
  }
  const Arguments once = texts({"--samples", "30", "--without-replacement", "--max-length", "12"});
  EXPECT_EQ(std::set<std::string>(once.begin(), once.end()).size(), 30U);
  const std::vector<Arguments> contradictions{{"--force", "1"},
                                              {"--ban", "1", "--save-state", "s"},
                                              {"--without-replacement", "--beam", "4"}};
  for (Arguments options : contradictions) {
    const std::string option = options.front();
    options.insert(options.begin(), {"generate", "text/best"});
    const Outcome outcome = place_.sluice(options);
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_NE(outcome.err.find(option), std::string::npos) << outcome.err;
  }
}

// In three pieces as in one: texts and scores.
TEST_F(Generate, GoesOnAsIfItHadNeverStopped) {
  const auto parsed = [&](const Arguments& options) {
    Arguments json = options;
    json.insert(json.end(), {"--format", "json"});
    std::vector<nlohmann::json> found;
    for (const std::string& line : texts(json)) found.push_back(nlohmann::json::parse(line));
    return found;
  };
  const auto whole = parsed({"--samples", "5", "--seed", "4", "--max-length", "14"});
  auto pieces = parsed({"--samples", "5", "--seed", "4", "--max-length", "6", "--save-state", "s"});
  for (const Arguments& more : {Arguments{"--max-length", "5", "--state", "s", "--save-state", "s"},
                                Arguments{"--max-length", "3", "--state", "s"}}) {
    const auto rest = parsed(more);
    ASSERT_EQ(rest.size(), 5U);
    for (std::size_t i = 0; i < 5; ++i) {
      pieces[i]["text"] = pieces[i]["text"].get<std::string>() + rest[i]["text"].get<std::string>();
      pieces[i]["score"] = rest[i]["score"];
      pieces[i]["ended"] = rest[i]["ended"];
    }
  }
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(pieces[i]["text"], whole[i]["text"]);
    EXPECT_EQ(pieces[i]["score"], whole[i]["score"]);
    EXPECT_EQ(pieces[i]["ended"], whole[i]["ended"]);
  }
}

TEST_F(Generate, RefusesWhatContradictsItself) {
  for (const Arguments& options : std::vector<Arguments>{{"--beam", "3", "--samples", "2"},
                                                         {"--beam", "3", "--top-k", "2"},
                                                         {"--beam", "3", "--save-state", "s"},
                                                         {"--nbest", "3"},
                                                         {"--state", "s", "--seed", "2"},
                                                         {"--state", "s", "--samples", "2"},
                                                         {"--state", "s", "--prefix", "a"}}) {
    Arguments arguments{"generate", "text/best"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = place_.sluice(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(options[0]), std::string::npos) << outcome.err;
  }
  place_.expect_error({"generate", "text/best", "--prefix", "#"},
                      {"the prefix '#': the model can't write its token 1", "characters", "lacks"});
  place_.expect_error({"generate", "text/best", "--samples", "999999999999"},
                      {"samples is 999999999999", "1..100000000"});
  place_.expect_error({"generate", "text/best", "--top-p", "2"}, {"top_p is 2"});
}

// Or the texts of a part would be lost: it can't be written again.
TEST_F(Generate, DoesNotGoOnWithoutItsTexts) {
  texts({"--max-length", "3", "--save-state", "s"});
  const std::string before = place_.read("s");
  const Arguments again{"generate", "text/best", "--state", "s", "--save-state", "s", "-o"};
  for (const std::string output : {"none/out.txt", "/dev/full"}) {
    Arguments arguments = again;
    arguments.push_back(output);
    place_.expect_error(arguments, {"'" + output});
    EXPECT_EQ(place_.read("s"), before) << output;
    EXPECT_FALSE(std::filesystem::exists(place_.path() / "s.waiting"));
  }
  Arguments arguments = again;
  arguments.push_back("s");
  place_.expect_error(arguments, {"'s' is to hold the answers and the state"});
  EXPECT_EQ(place_.read("s"), before);
  arguments.back() = "written";
  EXPECT_EQ(place_.sluice(arguments).code, 0);
  EXPECT_NE(place_.read("s"), before);
}

TEST_F(Generate, RefusesStatesThatAreNotItsOwn) {
  texts({"--max-length", "3", "--save-state", "s"});
  place_.train_texts({"training.max_steps=5", "output.directory=other"});
  place_.expect_error({"generate", "other/best", "--state", "s"},
                      {"'s' is a state of another language_model, of other weights ('language_mode",
                       "go on with the model that it was saved with"});
  const auto refused = [&](const std::string& state, const std::string& said) {
    place_.expect_error({"generate", "text/best", "--state", state}, {"'" + state + "'" + said});
  };
  const std::string wanted = "; give a file that --save-state or save() wrote";
  refused("text/best/model.safetensors", " holds the weights of a model" + wanted);
  refused("text/last/training_state.safetensors", " holds where a training run stands" + wanted);
  refused("text/best", " is a folder" + wanted);
  for (const std::string text : {"", "some words of text, no state\n"}) {
    place_.write("words", text);
    refused("words", " is not a safetensors file" + wanted);
  }
  place_.expect_error({"generate", "text/best", "--state", "none"}, {"none"});
  // And a state where a model is wanted.
  place_.expect_error({"generate", "s"},
                      {"'s' holds a state that --save-state or save() wrote; give a "
                       "checkpoint folder, its model.safetensors"});
  place_.train();
  place_.expect_error({"generate", "run/best"}, {"seq2seq", "language_model"});
}

}  // namespace
}  // namespace sluice::end_to_end
