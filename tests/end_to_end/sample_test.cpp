#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "end_to_end/workplace.h"

/// Answers that are drawn, that begin with a prefix, that are printed as JSON.
namespace sluice::end_to_end {
namespace {

using Arguments = std::vector<std::string>;

/// A place with a model that answers, not well, and a file of inputs.
class Sample : public ::testing::Test {
 protected:
  Sample() {
    place_.train({"training.max_epochs=4", "training.learning_rate=0.01"});
    place_.write("in.txt", "a b c\nd\n\nh g f e\n");
  }

  /// Answers of `sluice decode run/best in.txt ...` without errors.
  Arguments answers(const Arguments& options) const {
    return place_.lines_of({"decode", "run/best", "in.txt", "--max-length", "9"}, options);
  }

  Workplace place_;
};

TEST_F(Sample, FollowsFromTheSeedAlone) {
  const Arguments drawn = answers({"--sample"});
  ASSERT_EQ(drawn.size(), 4U);
  EXPECT_EQ(drawn[2], "");  // the answer to an empty line
  EXPECT_EQ(answers({"--sample", "--seed", "1", "--batch", "1"}), drawn);
  std::set<Arguments> different{drawn};
  for (const char* seed : {"2", "3", "18446744073709551615"}) {
    different.insert(answers({"--sample", "--seed", seed}));
  }
  EXPECT_GT(different.size(), 2U);

  const Arguments three = answers({"--sample", "--samples", "3"});
  ASSERT_EQ(three.size(), 10U);
  EXPECT_EQ(three[0], "1\t" + drawn[0]);  // a sample is the same among others
  EXPECT_EQ(three[3], "2\t" + drawn[1]);
  EXPECT_EQ(three[6], "3\t");
  EXPECT_EQ(three[7], "4\t" + drawn[3]);
}

TEST_F(Sample, WithoutAChoiceIsGreedySearch) {
  const Arguments greedy = answers({"--beam", "1"});
  EXPECT_EQ(answers({"--sample", "--temperature", "0"}), greedy);
  EXPECT_EQ(answers({"--sample", "--top-k", "1", "--temperature", "3"}), greedy);
  EXPECT_EQ(answers({"--sample", "--top-p", "1e-9"}), greedy);
}

TEST_F(Sample, ScoresAreThoseOfScore) {
  std::string pairs;
  std::vector<double> expected;
  const Arguments sources{"a b c", "d", "", "h g f e"};
  for (const std::string& line : answers(
           {"--sample", "--samples", "4", "--scores", "--prefix", "b", "--temperature", "1.5"})) {
    const Arguments columns = split(line, '\t');
    if (columns.size() < 4) continue;  // the empty line's
    EXPECT_EQ(columns[1], columns[2]);
    EXPECT_TRUE(columns[3].starts_with("b")) << line;
    pairs += sources.at(std::stoul(columns[0]) - 1) + '\t' + columns[3] + '\n';
    expected.push_back(std::stod(columns[2]));
  }
  ASSERT_EQ(expected.size(), 12U);
  place_.write("answers.tsv", pairs);
  const Arguments lines = split(place_.sluice({"score", "run/best", "answers.tsv"}).out, '\n');
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // Both are float32 sums of a dozen terms of order 1, printed with 5 digits or more.
    EXPECT_NEAR(std::stod(split(lines.at(i), '\t').at(0)), expected[i], 1e-4) << lines[i];
  }
}

TEST_F(Sample, PrefixesHoldForSearchAndDraws) {
  place_.write("prefixes.txt", "h h\n\ng\nd a b\n");
  for (const Arguments& how : {Arguments{"--beam", "3"}, Arguments{"--sample"}}) {
    Arguments options = how;
    options.insert(options.end(), {"--prefixes", "prefixes.txt"});
    const Arguments found = answers(options);
    const Arguments free = answers(how);
    ASSERT_EQ(found.size(), 4U);
    EXPECT_TRUE(found[0].starts_with("h h")) << found[0];
    EXPECT_EQ(found[1], free[1]);
    EXPECT_EQ(found[2], "");
    EXPECT_TRUE(found[3].starts_with("d a b")) << found[3];
  }
}

TEST_F(Sample, RefusesPrefixesThatCannotBe) {
  place_.expect_error({"decode", "run/best", "in.txt", "--prefix", "a zebra"},
                      {"the prefix 'a zebra' of input 1", "token 2", "words", "lacks"});
  place_.expect_error(
      {"decode", "run/best", "in.txt", "--prefix", "a b c", "--max-length", "2"},
      {"the prefix 'a b c' of input 1 has 3 tokens, more than the 2 of max_length"});
  place_.write("prefixes.txt", "a\n");
  place_.expect_error({"decode", "run/best", "in.txt", "--prefixes", "prefixes.txt"},
                      {"lines of --prefixes: 1, of the input: 4;"});
  place_.write("prefixes.txt", "");
  place_.expect_error({"decode", "run/best", "in.txt", "--prefixes", "prefixes.txt"},
                      {"lines of --prefixes: 0, of the input: 4;"});
}

TEST_F(Sample, NamesTheOptionThatIsOutOfRange) {
  const auto refused = [&](const std::string& option, const std::string& value,
                           const std::string& said) {
    place_.expect_error({"decode", "run/best", "in.txt", "--sample", option, value}, {said});
  };
  refused("--temperature", "-1", "temperature is -1");
  refused("--top-k", "-1", "top_k is -1");
  refused("--top-p", "0", "top_p is 0");
  refused("--top-p", "1.5", "top_p is 1.5");
  refused("--samples", "0", "samples is 0");
}

TEST_F(Sample, RefusesContradictionsByName) {
  const auto said = [&](const Arguments& options) {
    Arguments arguments{"decode", "run/best", "in.txt"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = place_.sluice(arguments);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_EQ(said({"--sample", "--beam", "3"}),
            "sluice: error: --beam excludes --sample; see sluice decode --help\n");
  EXPECT_EQ(said({"--top-k", "3"}),
            "sluice: error: --top-k requires --sample; see sluice decode --help\n");
}

TEST_F(Sample, PrintsJson) {
  const Arguments text = answers({"--nbest", "2", "--beam", "4", "--scores"});
  const Arguments json = answers({"--nbest", "2", "--beam", "4", "--format", "json"});
  ASSERT_EQ(json.size(), 4U);
  std::size_t line = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const nlohmann::json object = nlohmann::json::parse(json[i]);
    EXPECT_EQ(object["input"], i + 1);
    for (const auto& answer : object["answers"]) {
      const Arguments columns = split(text.at(line++), '\t');
      EXPECT_EQ(columns.at(0), std::to_string(i + 1));
      EXPECT_NEAR(answer["normalised_score"].get<double>(), std::stod(columns.at(1)), 5.1e-6);
      EXPECT_NEAR(answer["score"].get<double>(), std::stod(columns.at(2)), 5.1e-6);
      std::string joined;
      for (const std::string piece : answer["pieces"]) {
        joined += (joined.empty() ? "" : " ") + piece;
      }
      EXPECT_EQ(answer["text"], joined);
      EXPECT_EQ(joined, columns.size() > 3 ? columns[3] : "");
    }
  }
  EXPECT_EQ(line, text.size());
  EXPECT_EQ(nlohmann::json::parse(json[2])["answers"].size(), 1U);
}

TEST_F(Sample, ChatDrawsAnewForEveryLine) {
  const Arguments chat{"chat", "run/best", "--sample", "--temperature", "2", "--max-length", "9"};
  const std::string same = "a b c\na b c\na b c\na b c\n";
  const Outcome first = place_.sluice(chat, {.input = same});
  ASSERT_EQ(first.code, 0) << first.err;
  const Arguments lines = split(first.out, '\n');
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_GT(std::set<std::string>(lines.begin(), lines.end()).size(), 1U);
  EXPECT_EQ(place_.sluice(chat, {.input = same}).out, first.out);
}

}  // namespace
}  // namespace sluice::end_to_end
