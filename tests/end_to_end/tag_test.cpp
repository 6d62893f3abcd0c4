#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

constexpr const char* kTagger = R"([data]
conll = "train.conll"
validation_conll = "dev.conll"

[tokenizer]
kind = "words"

[model]
kind = "tagger"
embedding = 12
hidden = 16
dropout = 0.1

[training]
learning_rate = 0.02
max_tokens = 300
max_epochs = 5
keep_best = "f1"

[output]
directory = "run"
)";

/// Sentences in which the word before says what a name is; separated by empty lines and by lines of
/// a lone tab.
std::string sentences(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  const auto name = [&] { return std::string("n") + static_cast<char>('a' + random() % 6); };
  for (int i = 0; i < count; ++i) {
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::string first = name(), second = name();
      const unsigned what = random() % 3;
      if (what == 0) text += "mr\tO\n" + first + "\tB-per\n" + second + "\tI-per\n";
      if (what == 1) text += "in\tO\n" + first + "\tB-loc\n";
      if (what == 2) text += "the\tO\n" + first + "\tO\n";
    }
    text += i % 2 == 0 ? "\n" : "\t\n";
  }
  return text;
}

class Tag : public ::testing::Test {
 protected:
  Tag() {
    place_.write("task.toml", kTagger);
    place_.write("train.conll", sentences(150, 1));
    place_.write("dev.conll", sentences(40, 2));
    place_.write("test.conll", sentences(40, 3));
  }

  Workplace place_;
};

// The answers of the page are those of `sluice tag`.
TEST_F(Tag, ReportShowsLabels) {
  place_.train();
  ASSERT_EQ(place_.sluice({"report", "run"}).code, 0);
  const std::string page = place_.read("run/report.html");
  const Outcome tagged = place_.sluice({"tag", "run/best", "dev.conll"});
  std::string words, labelled;
  for (const std::string& line : split(tagged.out, '\n')) {
    if (line.empty()) break;
    const std::vector<std::string> columns = split(line, '\t');
    const std::string space = words.empty() ? "" : " ";
    words += space + columns.at(0);
    labelled += space + columns.at(0) + (columns.at(1) == "O" ? "" : "/" + columns.at(1));
  }
  const std::string row = "<tr><td class=\"answer\">" + words + "</td><td class=\"answer";
  const std::size_t at = page.find(row);
  ASSERT_NE(at, std::string::npos) << words;
  EXPECT_NE(labelled.find("/B-"), std::string::npos) << labelled;
  const std::string rest = page.substr(at + row.size(), labelled.size() + 20);
  EXPECT_NE(rest.find(">" + labelled + "</td>"), std::string::npos)
      << rest << " lacks " << labelled;
}

TEST_F(Tag, WritesTokensAndLabelsAsIds) {
  place_.write("train.conll", "b Y\nb X\n\na Y\n");
  place_.write("dev.conll", "c X\n");
  const Outcome outcome =
      place_.sluice({"data", "ids", "--set", "training.keep_best=loss", "task.toml", "-o", "ids"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(place_.read("ids/train.ids"), "# vocabulary 6 2\n4 4\t1 0\n5\t1\n");
  EXPECT_EQ(place_.read("ids/valid.ids"), "# vocabulary 6 2\n1\t0\n");
  EXPECT_EQ(place_.read("ids/labels.txt"), "X\nY\n");
  EXPECT_EQ(place_.read("ids/source.vocab"), "<pad>\n<unk>\n<s>\n</s>\nb\na\n");
  EXPECT_EQ(outcome.out,
            "ids/train.ids: 2 rows, 3 and 3 ids\nids/valid.ids: 1 row, 1 and 1 id\n"
            "ids/source.vocab: what ids 0 to 5 stand for\n"
            "ids/labels.txt: what ids 0 to 1 stand for\n");
}

TEST_F(Tag, LearnsOfUnknownWordsWhatTheyLookLike) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("to O\nRome{} B-loc\n\nsee O\nit{} O\n\n", i, i);
  }
  place_.write("train.conll", text);
  place_.write("dev.conll", "to O\nOslo9 B-loc\nit7 O\n\n");
  place_.train({"tokenizer.kind=word_shapes", "tokenizer.min_count=2", "training.max_epochs=40"});
  place_.write("test.conll", "to O\nLima3 B-loc\nit4 O\n");
  const Outcome scored = place_.sluice({"tag", "run/best", "test.conll", "--score"});
  EXPECT_NE(scored.out.find("F1 100.00%"), std::string::npos) << scored.out << scored.err;
}

TEST_F(Tag, LabelsTokensAndScoresThem) {
  place_.train();
  const Outcome tagged = place_.sluice({"tag", "run/best", "test.conll"});
  ASSERT_EQ(tagged.code, 0) << tagged.err;
  EXPECT_EQ(tagged.err, "");
  const std::string expected =
      std::regex_replace(place_.read("test.conll"), std::regex("\n\t\n"), "\n\n");
  const std::vector<std::string> lines = split(tagged.out, '\n'), right = split(expected, '\n');
  ASSERT_EQ(lines.size(), right.size());
  int same = 0, tokens = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].substr(0, lines[i].find('\t')), right[i].substr(0, right[i].find('\t')));
    if (right[i].empty()) continue;
    ++tokens;
    same += lines[i] == right[i] ? 1 : 0;
  }
  EXPECT_GT(same, 0.95 * tokens);

  const Outcome scored = place_.sluice({"tag", "run/best", "test.conll", "--score"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  std::smatch f1;
  ASSERT_TRUE(std::regex_search(scored.out, f1, std::regex(R"(all .* F1 +([0-9.]+)%)")))
      << scored.out;
  EXPECT_GT(std::stod(f1[1]), 95);
  EXPECT_TRUE(std::regex_search(scored.out, std::regex(R"(per .* F1 )"))) << scored.out;
  // What was tagged is what it answers, so all of it is right.
  place_.write("tagged.conll", tagged.out);
  const Outcome itself = place_.sluice({"tag", "run/best", "tagged.conll", "--score"});
  EXPECT_NE(itself.out.find("F1 100.00%"), std::string::npos) << itself.out;
  EXPECT_NE(itself.out.find("100.00% of labels right"), std::string::npos) << itself.out;
}

TEST_F(Tag, WarnsOfTokensThatTheModelDoesNotKnow) {
  place_.train({"training.max_epochs=1"});
  const Outcome tagged =
      place_.sluice({"tag", "run/best"}, {.input = "mr\nunheard\n\nin\nna\n\nof\n"});
  EXPECT_EQ(tagged.code, 0);
  EXPECT_TRUE(tagged.err.starts_with("sluice: warning: 2 of 5 tokens in the input are not in the"))
      << tagged.err;
  EXPECT_TRUE(tagged.err.ends_with("; 1 of 3 inputs hold no other (the first is input 3)\n"))
      << tagged.err;
}

// It is in no answer, so it is missed: what can't be found counts as much as what wasn't.
TEST_F(Tag, ALabelThatTheModelLacksIsMissedInScores) {
  place_.train();
  const std::string known = "mr\tO\nna\tB-per\nnb\tI-per\n\nin\tO\nnb\tB-loc\n\n";
  place_.write("known.conll", known);
  const Outcome before = place_.sluice({"tag", "run/best", "known.conll", "--score"});
  EXPECT_NE(before.out.find("2 found, 2 expected, 2 right"), std::string::npos) << before.out;
  place_.write("new.conll", known + "the\tO\nna\tB-ship\n\n");
  const Outcome scored = place_.sluice({"tag", "run/best", "new.conll", "--score"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  EXPECT_TRUE(std::regex_search(
      scored.out,
      std::regex("ship +precision +0.00%  recall +0.00%  F1 +0.00%  0 found, 1 expected")))
      << scored.out;
  EXPECT_NE(scored.out.find("2 found, 3 expected, 2 right"), std::string::npos) << scored.out;
  EXPECT_NE(scored.out.find("# 3 sentences, 7 tokens, 85.71% of labels right"), std::string::npos)
      << scored.out;
}

TEST_F(Tag, ReadsTokensAloneAndWritesJson) {
  place_.train();
  const std::string input = "mr\nna\nunseen\n\nin\nnb\n";
  const Outcome conll = place_.sluice({"tag", "run/best"}, {.input = input});
  ASSERT_EQ(conll.code, 0) << conll.err;
  EXPECT_TRUE(std::regex_match(
      conll.out, std::regex("mr\t\\S+\nna\t\\S+\nunseen\t\\S+\n\nin\t\\S+\nnb\t\\S+\n\n")))
      << conll.out;
  const Outcome json = place_.sluice(
      {"tag", "run/best", "--format", "json", "--batch", "1", "-o", "out.jsonl"}, {.input = input});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.out, "");
  const std::vector<std::string> lines = split(place_.read("out.jsonl"), '\n');
  ASSERT_EQ(lines.size(), 2U);
  const auto first = nlohmann::json::parse(lines[0]), second = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(first.at("tokens"), (std::vector<std::string>{"mr", "na", "unseen"}));
  std::string relabelled;
  for (const auto& sentence : {first, second}) {
    for (std::size_t i = 0; i < sentence.at("tokens").size(); ++i) {
      relabelled += sentence.at("tokens")[i].get<std::string>() + '\t' +
                    sentence.at("labels")[i].get<std::string>() + '\n';
    }
    relabelled += '\n';
  }
  EXPECT_EQ(relabelled, conll.out);
  EXPECT_EQ(second.at("entities"),
            nlohmann::json::parse(R"([{"type":"loc","begin":1,"end":2,"text":"nb"}])"));
  // Other columns, as many as one likes.
  const Outcome columns =
      place_.sluice({"tag", "run/best", "--token-column", "-2"},
                    {.input = "1 mr X\n2 na X\n3 unseen X\n\n1 in X\n2 nb X\n"});
  EXPECT_EQ(columns.out, conll.out);
  EXPECT_EQ(place_.sluice({"tag", "run/best"}).out, "");
}

TEST_F(Tag, WarnsOfWordsThatAreReadAsColumns) {
  place_.train({"training.max_epochs=1"});
  const Outcome words = place_.sluice({"tag", "run"}, {.input = "\nmr na here\nin nb now\n"});
  EXPECT_EQ(words.code, 0);
  EXPECT_EQ(split(words.out, '\n').size(), 3U) << words.out;
  EXPECT_EQ(words.err.find(
                "sluice: warning: standard input line 2 has 3 columns between spaces, of which the "
                "first is the token and the others are left out (lines of tokens: 2); "),
            0U)
      << words.err;
  EXPECT_EQ(split(words.err, '\n').size(), 1U) << words.err;
  for (const std::string meant : {"mr\tna\nin\tnb\n", "mr\nna\n", ""}) {
    EXPECT_EQ(place_.sluice({"tag", "run"}, {.input = meant}).err, "") << meant;
  }
  EXPECT_EQ(place_.sluice({"tag", "run", "--token-column", "-2"}, {.input = "1 mr O\n"}).err, "");
  EXPECT_EQ(place_.sluice({"tag", "run", "--score"}, {.input = "mr 1 O\n"}).err, "");
}

TEST_F(Tag, GoesOnAfterAnInterruptionAsIfThereHadBeenNone) {
  place_.train({"output.directory=whole"});
  place_.train({"training.max_epochs=2"});
  place_.train();
  for (const std::string model : {"last", "best"}) {
    const Outcome resumed = place_.sluice({"tag", "run/" + model, "test.conll"});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(resumed.out, place_.sluice({"tag", "whole/" + model, "test.conll"}).out);
  }
}

TEST_F(Tag, StartsFromWordVectors) {
  std::string vectors;
  for (const char* word : {"mr", "in", "the", "unheard"}) {
    vectors += word;
    for (int i = 0; i < 12; ++i) vectors += " 0." + std::to_string(i);
    vectors += '\n';
  }
  place_.write("vectors.txt", vectors);
  const Outcome outcome =
      place_.sluice({"train", "task.toml", "--set", "model.source_embeddings_from=vectors.txt",
                     "--set", "training.max_epochs=1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE((outcome.out + outcome.err).find("embedding.weight: 3 of 9 words"), std::string::npos)
      << outcome.out << outcome.err;
}

TEST_F(Tag, GoesOnThroughLayersOfDifferentWidths) {
  place_.train({"model.output=softmax", "model.bidirectional=false", "model.layers=2",
                "model.widths=12 8", "model.hard_sigmoid=true", "training.max_epochs=1"});
  const std::string whole = place_.sluice({"tag", "run/best"}, {.input = "mr\nna\nnb\n"}).out;
  std::string parts =
      place_.sluice({"tag", "run/best", "--save-state", "s"}, {.input = "mr\n"}).out;
  parts += place_.sluice({"tag", "run/best", "--state", "s"}, {.input = "na\nnb\n"}).out;
  EXPECT_EQ(parts, whole);
  EXPECT_FALSE(whole.empty());
}

TEST_F(Tag, GoesOnWithASentenceFromAState) {
  place_.train({"model.output=softmax", "model.bidirectional=false"});
  const auto lines = [&](const std::vector<std::string>& arguments, const std::string& input) {
    std::vector<std::string> all{"tag", "run/best"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome said = place_.sluice(all, {.input = input});
    EXPECT_EQ(said.code, 0) << said.err;
    return said.out;
  };
  const std::string whole = lines({}, "mr\nna\nnb\nin\nnc\n");
  EXPECT_NE(whole.find("nb\tI-per\nin\tO\nnc\tB-loc\n"), std::string::npos) << whole;
  std::string parts = lines({"--save-state", "s"}, "mr\n");
  parts += lines({"--state", "s", "--save-state", "s"}, "na\nnb\n");
  parts += lines({"--state", "s"}, "in\nnc\n");
  EXPECT_EQ(parts, whole);
  EXPECT_TRUE(whole.ends_with("nc\tB-loc\n\n")) << whole;  // a blank line after each sentence
  // A last part that is empty, or nothing but blank lines, ends the sentence.
  for (const std::string last : {"", "\n\n"}) {
    std::string ended = lines({"--save-state", "e"}, "");
    ended += lines({"--state", "e", "--save-state", "e"}, "mr\nna\nnb\nin\n");
    ended += lines({"--state", "e", "--save-state", "e"}, last);
    ended += lines({"--state", "e", "--save-state", "e"}, "nc\n");
    EXPECT_EQ(ended + "\n", whole);
    EXPECT_EQ(ended + lines({"--state", "e"}, last), whole);
  }
  // Or nothing would show that a state was taken up.
  lines({"--save-state", "in"}, "in\n");
  lines({"--save-state", "mr"}, "mr\n");
  EXPECT_EQ(lines({"--state", "in"}, "na\n"), "na\tB-loc\n\n");
  EXPECT_EQ(lines({"--state", "mr"}, "na\n"), "na\tB-per\n\n");

  // A state doesn't go on without the answers.
  const std::string before = place_.read("s");
  for (const std::string output : {"none/out.conll", "/dev/full"}) {
    place_.expect_error({"tag", "run/best", "--state", "s", "--save-state", "s", "-o", output},
                        {"'" + output}, {.input = "na\n"});
    EXPECT_EQ(place_.read("s"), before) << output;
  }
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  place_.expect_error({"tag", "run/best", "--state", "s", "--save-state", "s"},
                      {"cannot write to standard output: No space left"},
                      {.input = "na\n", .output_descriptor = full});
  close(full);
  EXPECT_EQ(place_.read("s"), before);
  place_.expect_error({"tag", "run/best", "--save-state", "s", "-o", "./s"},
                      {"'s' is to hold the answers and the state"}, {.input = "na\n"});
  // Nor where neither is there yet.
  std::filesystem::create_symlink("later", place_ / "link");
  place_.expect_error({"tag", "run/best", "--save-state", "later", "-o", "link"},
                      {"'later' is to hold the answers and the state"}, {.input = "na\n"});
  EXPECT_FALSE(std::filesystem::exists(place_ / "later"));
  const Outcome unnamed = place_.sluice({"tag", "run/best", "--state", ""}, {.input = "na\n"});
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_NE(unnamed.err.find("--state: the name of the file is empty"), std::string::npos);
  EXPECT_EQ(place_.read("s"), before);
  place_.write("bad", with_answer(before, {1}));
  place_.expect_error({"tag", "run/best", "--state", "bad"},
                      {"'bad' holds 1 number of an answer", "hold 0"}, {.input = "na\n"});

  place_.expect_error({"tag", "run/best", "--state", "s"},
                      {"one sentence", "standard input holds 2"}, {.input = "a\n\nb\n"});
  place_.expect_error({"tag", "run/best", "--state", "none"}, {"'none'"}, {.input = "a\n"});
  place_.train_texts();
  ASSERT_EQ(place_.sluice({"generate", "text/best", "--max-length", "2", "--save-state", "t"}).code,
            0);
  place_.expect_error(
      {"tag", "run/best", "--state", "t"},
      {"'t' is a state of another kind of model, language_model, and this one is of "
       "kind tagger: give one that was saved with this model"},
      {.input = "a\n"});
  place_.expect_error({"generate", "text/best", "--state", "s"},
                      {"'s' is a state of another kind of model, tagger, and this one is of kind "
                       "language_model"});
  for (const std::vector<std::string>& option :
       std::vector<std::vector<std::string>>{{"--score"},
                                             {"--batch", "3"},
                                             {"--breakdown"},
                                             {"--trace", "t.json"},
                                             {"--trace-steps", "1:2"}}) {
    for (const std::string state : {"--state", "--save-state"}) {
      std::vector<std::string> all{"tag", "run/best", state, "s"};
      all.insert(all.end(), option.begin(), option.end());
      const Outcome said = place_.sluice(all, {.input = "na\n"});
      EXPECT_EQ(said.code, 2);
      EXPECT_NE(said.err.find(" excludes "), std::string::npos) << said.err;
      EXPECT_NE(said.err.find(option.front()), std::string::npos) << said.err;
    }
  }
  EXPECT_EQ(place_.read("s"), before);
  place_.train({"model.output=softmax", "output.directory=both", "training.max_epochs=1"});
  place_.expect_error({"tag", "both/best", "--save-state", "t"}, {"bidirectional"},
                      {.input = "a\n"});
  place_.train({"model.bidirectional=false", "output.directory=crf", "training.max_epochs=1"});
  place_.expect_error({"tag", "crf/best", "--save-state", "t"}, {"CRF"}, {.input = "a\n"});
  place_.expect_error({"tag", "crf/best", "--state", "s"}, {"CRF"}, {.input = "a\n"});
}

TEST_F(Tag, RefusesBadInput) {
  place_.expect_train_error({"training.class_weights=balanced"},
                            {"training.class_weights is 'balanced'", "CRF"});
  place_.write("bad.conll", "mr\tO\nna\n");
  place_.expect_train_error({"data.conll=bad.conll"},
                            {"'bad.conll' line 2", "has 1 column,", "has 2"});
  place_.write("bad.conll", "mr\tO\n\nna\tB-org\n");
  place_.expect_train_error({"data.validation_conll=bad.conll"},
                            {"'bad.conll' line 3", "'B-org'", "B-loc, B-per, I-per, O"});
  place_.write("bad.conll", "\n\t\n");
  place_.expect_train_error({"data.conll=bad.conll"}, {"'bad.conll' holds no sentence"});
  place_.expect_train_error({"data.conll=none.conll"}, {"there is no file 'none.conll'"});
  place_.expect_train_error({"model.attention=multiplicative"}, {"no use for model.attention"});
  place_.expect_train_error({"data.tag_column=4"}, {"line 1", "no column 4"});

  place_.train({"training.max_epochs=1"});
  place_.write("bad.conll", "mr\tO\nna\n");
  place_.expect_error({"tag", "run/best", "bad.conll"}, {"'bad.conll' line 2", "has 1 column,"});
  place_.write("bad.conll", "mr\xff\n");
  place_.expect_error({"tag", "run/best", "bad.conll"}, {"'bad.conll' line 1", "UTF-8"});
  place_.write("bad.conll", "mr\n");
  place_.expect_error({"tag", "run/best", "bad.conll", "--label-column", "2", "--score"},
                      {"line 1", "no column 2"});
  place_.expect_error({"tag", "run/best", "test.conll", "--batch=-1"}, {"batch is -1"});
  place_.expect_error({"decode", "run/best"}, {"kind tagger", "sluice tag"});
}

TEST_F(Tag, StreamsItsSentences) { place_.expect_streams(); }

}  // namespace
}  // namespace sluice::end_to_end
