#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

/// Empty if `text` is one XML element in which tags nest, attributes are quoted and '&' begins an
/// entity; else what is wrong.
std::string xml_fault(std::string text) {
  text = std::regex_replace(text, std::regex(R"(^<\?xml[^>]*\?>\s*)"), "");
  const std::regex tag(R"~(<(/?)([A-Za-z][\w:-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>)~");
  const std::regex entity(R"(&(amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)");
  std::vector<std::string> open;
  std::size_t elements = 0;
  std::string rest = text;
  std::smatch match;
  while (std::regex_search(rest, match, tag)) {
    if (match.prefix().str().find_first_of("<>") != std::string::npos) {
      return "stray bracket in " + match.prefix().str();
    }
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return "unexpected </" + match[2].str();
      open.pop_back();
    } else {
      if (open.empty() && elements > 0) return "a second root";
      ++elements;
      if (match[4].length() == 0) open.push_back(match[2]);
    }
    rest = match.suffix();
  }
  if (elements == 0 || !open.empty()) return "unclosed";
  if (rest.find_first_not_of(" \n") != std::string::npos) return "text after the root: " + rest;
  if (std::regex_replace(text, entity, "").find('&') != std::string::npos) return "a bare &";
  return "";
}

/// Long enough to answer, not to be good at it.
const std::vector<std::string> kTraining{"training.max_epochs=5", "training.learning_rate=0.01"};

TEST(Decode, AnswersFilesPipesAndEmptyLines) {
  const Workplace place;
  place.train(kTraining);
  const std::string input = "a b c\n\nd\nunseen words here\n";
  place.write("in.txt", input);
  const Outcome piped = place.sluice({"decode", "run/best", "--max-length", "8"}, {.input = input});
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_NE(piped.err.find("warning: 3 of 7 tokens in the input"), std::string::npos);
  const std::vector<std::string> answers = split(piped.out, '\n');
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_NE(answers[0], "");
  EXPECT_EQ(answers[1], "");

  const Outcome from_file = place.sluice({"decode", "run/best/model.safetensors", "in.txt",
                                          "--max-length", "8", "--batch", "1", "-o", "out.txt"});
  ASSERT_EQ(from_file.code, 0) << from_file.err;
  EXPECT_EQ(from_file.out, "");
  EXPECT_EQ(place.read("out.txt"), piped.out);
  EXPECT_EQ(place.sluice({"decode", "run/best"}).out, "");
}

std::string long_line(int words) {
  std::string line = "a";
  for (int i = 1; i < words; ++i) line += i % 3 == 0 ? " b" : " c";
  return line + '\n';
}

TEST(Decode, OneEnormousLineCostsTheOthersNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs its address space";
#endif
  const Workplace place;
  place.train(kTraining);
  // Sixty-four lines planned for the length of the longest would take 64 x 40000 x 32 floats and
  // more for each of several buffers: some gigabytes.
  const Setting small{.largest_memory = rlim_t{2} << 30};
  std::string input = "a b c\n" + long_line(40000), expected;
  for (int i = 0; i < 62; ++i) input += "d e\n";
  const auto answers_to = [&](const std::string& text) {
    Setting setting = small;
    setting.input = text;
    const Outcome outcome =
        place.sluice({"decode", "run/best", "--max-length", "8", "--batch", "64"}, setting);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  expected = answers_to("a b c\n") + answers_to(long_line(40000));
  const std::string last = answers_to("d e\n");
  for (int i = 0; i < 62; ++i) expected += last;
  EXPECT_EQ(answers_to(input), expected);
}

TEST(Decode, SaysWhichLineDoesNotFit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs its address space";
#endif
  const Workplace place;
  place.train(kTraining);
  place.write("in.txt", "a b c\n" + long_line(3'000'000));
  place.expect_error({"decode", "run/best", "in.txt", "--max-length", "8"},
                     {"input 2 with its 3000000 tokens", "out of memory", "bytes", "split it"},
                     {.largest_memory = rlim_t{2} << 30});
}

TEST(Decode, ScoresAreThoseOfScore) {
  const Workplace place;
  place.train(kTraining);
  std::string input;
  std::vector<std::string> sources;
  for (const auto& [source, target] : reversals(20, 3)) {
    sources.push_back(source);
    input += source + '\n';
  }
  const Outcome decoded = place.sluice(
      {"decode", "run/best", "--scores", "--nbest", "3", "--beam", "4", "--max-length", "30"},
      {.input = input});
  ASSERT_EQ(decoded.code, 0) << decoded.err;
  std::string pairs;
  std::vector<double> expected;
  for (const std::string& line : split(decoded.out, '\n')) {
    const std::vector<std::string> columns = split(line, '\t');
    if (columns.size() < 4) continue;  // the empty answer is no example to score
    pairs += sources.at(std::stoul(columns[0]) - 1) + '\t' + columns[3] + '\n';
    expected.push_back(std::stod(columns[2]));
  }
  ASSERT_GE(expected.size(), 20U);
  place.write("answers.tsv", pairs);
  const Outcome scored = place.sluice({"score", "run/best", "answers.tsv"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  const std::vector<std::string> lines = split(scored.out, '\n');
  ASSERT_EQ(lines.size(), expected.size() + 1);
  double total = 0, tokens = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<std::string> columns = split(lines[i], '\t');
    // Both are float32 sums of a few dozen terms of order 1, printed with 5 digits or more.
    EXPECT_NEAR(std::stod(columns.at(0)), expected[i], 1e-4) << lines[i];
    total += std::stod(columns.at(0));
    tokens += std::stod(columns.at(1));
  }
  std::smatch perplexity;
  ASSERT_TRUE(std::regex_search(scored.out, perplexity, std::regex("perplexity ([0-9.e+-]+)")));
  EXPECT_NEAR(std::stod(perplexity[1]) / std::exp(-total / tokens), 1, 1e-4);
}

TEST(Decode, ScoreReadsTwoFiles) {
  const Workplace place;
  place.train();
  std::string sources, targets;
  for (const auto& [source, target] : reversals(40, 2)) {
    sources += source + '\n';
    targets += target + '\n';
  }
  place.write("s", sources);
  place.write("t", targets);
  const Outcome two = place.sluice({"score", "run/best", "s", "t"});
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(two.out, place.sluice({"score", "run/best", "valid.tsv"}).out);
  const Outcome quiet =
      place.sluice({"score", "run/best", "-", "--quiet"}, {.input = place.read("valid.tsv")});
  EXPECT_EQ(quiet.out, two.out.substr(two.out.find('#')));
}

TEST(Decode, DrawsAttention) {
  const Workplace place;
  place.write("train.tsv", place.read("train.tsv") + "a < & \" >\t< & \" > a\n");
  place.train(kTraining);
  const Outcome outcome = place.sluice(
      {"decode", "run/best", "--attention", "look.svg", "--min-length", "3", "--max-length", "8"},
      {.input = "a < & \" >\n"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string picture = place.read("look.svg");
  EXPECT_EQ(xml_fault(picture), "") << picture;
  EXPECT_NE(picture.find("<svg xmlns=\"http://www.w3.org/2000/svg\""), std::string::npos);
}

TEST(Decode, HoldsAnswersToWords) {
  const Workplace place;
  place.train(kTraining);
  const std::string input = "a b c\n\nd e\n";
  place.write("in.txt", input);
  place.write("forced.txt", "b b\tc\n\ne\n");
  place.write("banned.txt", "a\n\nd d\n");
  const auto answers = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"decode", "run/best", "in.txt", "--max-length", "8"});
    const Outcome outcome = place.sluice(options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return split(outcome.out, '\n');
  };
  const auto forced = answers({"--forced", "forced.txt", "--force", "h", "--banned", "banned.txt",
                               "--ban", "e d", "--beam", "8"});
  ASSERT_EQ(forced.size(), 3U);
  for (const char* word : {" b b ", " c ", " h "}) {
    EXPECT_NE((" " + forced[0] + " ").find(word), std::string::npos) << forced[0];
  }
  for (const char* word : {" e ", " h "}) {
    EXPECT_NE((" " + forced[2] + " ").find(word), std::string::npos) << forced[2];
  }
  for (const std::string& line : forced) {
    for (const char* word : {" a ", " d d ", " e d "}) {
      EXPECT_EQ((" " + line + " ").find(word), std::string::npos) << line;
    }
  }
  // Lines stay in step where there is no answer.
  const Outcome none = place.sluice({"decode", "run/best", "in.txt", "--no-repeat", "1",
                                     "--min-length", "20", "--max-length", "20"});
  EXPECT_EQ(none.out, "\n\n\n");
  EXPECT_NE(none.err.find("2 of 3 inputs have no answer (the first is input 1)"), std::string::npos)
      << none.err;
  const Outcome chat =
      place.sluice({"chat", "run/best", "--force", "g", "--max-length", "4"}, {.input = "a b\n"});
  EXPECT_NE(chat.out.find('g'), std::string::npos) << chat.out << chat.err;

  const std::vector<std::string> all{"decode", "run/best", "in.txt"};
  const auto refuses = [&](std::vector<std::string> options, const std::string& reason) {
    options.insert(options.begin(), all.begin(), all.end());
    place.expect_error(options, {reason});
  };
  refuses({"--force", "unseen"}, "the forced 'unseen' of input 1: the model can't write");
  refuses({"--force", "a b", "--ban", "b"},
          "the forced 'a b' of input 1 holds 'b', which is banned");
  refuses({"--force", "a b c", "--max-length", "2"},
          "input 1 take 3 tokens one after the other, but answers have at most 2");
  refuses({"--forced", "banned.txt", "--groups", "2"}, "beam is 5, which 2 groups");
  place.write("short.txt", "a\n");
  refuses({"--forced", "short.txt"}, "lines of --forced: 1, of the input: 3");
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--sample", "--groups", "2"}, {"--without-replacement"}}) {
    std::vector<std::string> contradiction = all;
    contradiction.insert(contradiction.end(), options.begin(), options.end());
    const Outcome outcome = place.sluice(contradiction);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("--sample"), std::string::npos) << outcome.err;
  }
}

TEST(Decode, DrawsEachAnswerOnce) {
  const Workplace place;
  place.train(kTraining);
  const auto drawn = [&](const std::string& batch) {
    const Outcome outcome =
        place.sluice({"decode", "run/best", "--sample", "--samples", "9", "--without-replacement",
                      "--seed", "4", "--max-length", "5", "--batch", batch},
                     {.input = "a b c\nd\n"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return split(outcome.out, '\n');
  };
  auto lines = drawn("8");
  EXPECT_EQ(lines.size(), 18U);
  EXPECT_EQ(drawn("1"), lines);
  std::ranges::sort(lines);
  EXPECT_EQ(std::ranges::adjacent_find(lines), lines.end());
}

TEST(Decode, ChatAnswersEachLineBeforeTheNext) {
  const Workplace place;
  place.train(kTraining);
  std::array<int, 2> to{}, from{};
  ASSERT_EQ(pipe2(to.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(from.data(), O_CLOEXEC), 0);
  Running chat(place.path(), {"chat", "run/best", "--max-length", "8"},
               {.input_descriptor = to[0], .output_descriptor = from[1]});
  close(to[0]);
  close(from[1]);
  for (const std::string line : {"a b\n", "c d e\n"}) {
    ASSERT_EQ(::write(to[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
    std::string answer;
    for (char letter = 0; letter != '\n' && ::read(from[0], &letter, 1) == 1;) answer += letter;
    EXPECT_EQ(answer,
              place.sluice({"decode", "run/best", "--max-length", "8"}, {.input = line}).out);
  }
  close(to[1]);
  const Outcome outcome = chat.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  close(from[0]);
}

TEST(Decode, InfoListsTensors) {
  const Workplace place;
  place.train();
  const Outcome outcome = place.sluice({"info", "run/last", "--explain"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"\"cell\":\"lstm\"", "words, ", "weight_ih", "weight_hh", "[64, "}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in " << outcome.out;
  }
}

TEST(Decode, WarnsOfTokensThatSayNothingToTheModel) {
  const Workplace place;
  place.train({"training.max_steps=4"});
  const auto said = [&](const std::string& input) {
    const Outcome decoded = place.sluice({"decode", "run"}, {.input = input});
    EXPECT_EQ(decoded.code, 0) << decoded.err;
    EXPECT_EQ(split(decoded.out, '\n').size(), split(input, '\n').size());
    return decoded.err;
  };
  EXPECT_EQ(said("a b\n\nc\n"), "");
  const std::string warned = said("a b\nun heard\nc d\nof\n");
  EXPECT_TRUE(warned.starts_with(
      "sluice: warning: 3 of 7 tokens in the input are not in the model's vocabulary (words, "))
      << warned;
  EXPECT_TRUE(warned.ends_with("; 2 of 4 inputs hold no other (the first is input 2)\n")) << warned;
  EXPECT_EQ(split(warned, '\n').size(), 1U) << warned;
  const std::string one = said("a unheard\n");
  EXPECT_TRUE(one.starts_with("sluice: warning: 1 of 2 tokens in the input is not in the model's"))
      << one;
  EXPECT_TRUE(one.ends_with(
      ", so the model reads it as unknown; if it matters, train with examples that have it\n"))
      << one;
}

TEST(Decode, LeavesItsInputAsItIs) {
  const Workplace place;
  place.train({"training.max_steps=4"});
  place.write("in.txt", "a b\n");
  std::filesystem::create_symlink("in.txt", place / "link");
  for (const std::string output : {"in.txt", "./in.txt", "link"}) {
    place.expect_error({"decode", "run", "in.txt", "-o", output},
                       {"'" + output + "' is the input, which would be replaced"});
  }
  EXPECT_EQ(place.read("in.txt"), "a b\n");
}

TEST(Decode, TakesTheFolderOfARun) {
  const Workplace place;
  const auto answers = [&](const std::string& model) {
    const Outcome decoded = place.sluice({"decode", model}, {.input = "a b\nc\n"});
    EXPECT_EQ(decoded.code, 0) << decoded.err;
    EXPECT_EQ(decoded.err, "");
    return decoded.out;
  };
  place.train({"training.max_steps=4"});
  EXPECT_EQ(answers("run"), answers("run/best"));
  EXPECT_EQ(place.sluice({"score", "run", "valid.tsv"}).out,
            place.sluice({"score", "run/best", "valid.tsv"}).out);
  // A link goes on to lead where it did.
  place.write("answers", "of long ago\n");
  std::filesystem::create_symlink("answers", place / "link");
  const Outcome written = place.sluice({"decode", "run", "-o", "link"}, {.input = "a b\nc\n"});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_TRUE(std::filesystem::is_symlink(place / "link"));
  EXPECT_EQ(place.read("answers"), answers("run"));
  std::filesystem::create_symlink("link2", place / "link1");
  std::filesystem::create_symlink("later", place / "link2");
  EXPECT_EQ(place.sluice({"decode", "run", "-o", "link1"}, {.input = "a b\nc\n"}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(place / "link2"));
  EXPECT_EQ(place.read("later"), answers("run"));
  std::filesystem::create_symlink("round", place / "round");
  place.expect_error({"decode", "run", "-o", "round"}, {"'round': its links lead on"});
  const Outcome info = place.sluice({"info", "run"});
  EXPECT_TRUE(info.out.starts_with("run/best/model.safetensors\n")) << info.out;
  place.train({"training.max_steps=4", "data.validation_tsv=", "output.directory=unvalidated"});
  EXPECT_EQ(answers("unvalidated"), answers("unvalidated/last"));
}

}  // namespace
}  // namespace sluice::end_to_end
