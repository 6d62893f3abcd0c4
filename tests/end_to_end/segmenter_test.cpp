#include "end_to_end/workplace.h"

/// Texts without spaces, which a command from outside segments.
namespace sluice::end_to_end {
namespace {

constexpr const char* kSegmenter = "sed -u 's/./& /g'";

class SegmenterCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string lines;
    for (auto [source, target] : reversals(200, 3)) {
      std::erase(source, ' ');
      lines += source + "\t" + target + "\n";
    }
    place_.write("joined.tsv", lines);
    ASSERT_EQ(train(kSegmenter).code, 0) << train(kSegmenter).err;
  }

  Outcome train(const std::string& command, const std::string& directory = "joined") const {
    return place_.sluice(
        train_arguments({"data.tsv=joined.tsv", "data.validation_tsv=", "data.hold_out_run=1",
                         "data.hold_out_every=10", "tokenizer.kind=words", "training.max_epochs=1",
                         "data.source_segmenter=" + command, "output.directory=" + directory}));
  }
  Workplace place_;
};

TEST_F(SegmenterCommand, GivesTheModelWords) {
  const Outcome info = place_.sluice({"info", "joined/best"});
  EXPECT_NE(info.out.find("words, "), std::string::npos) << info.out;
  // Letters are words: as many ids as the alphabet has, not as there are lines.
  const Outcome answer = place_.sluice(
      {"decode", "joined/best", "--trust-segmenter", "--format", "json"}, {.input = "abc\n\nba\n"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out,
            place_
                .sluice({"decode", "joined/best", "--source-segmenter", "", "--format", "json"},
                        {.input = "a b c\n\nb a\n"})
                .out);
}

TEST_F(SegmenterCommand, OfACheckpointIsNotRunWithoutAWord) {
  // A checkpoint that names a command which leaves a trace.
  ASSERT_EQ(train("touch trace; cat", "traced").code, 0);
  const auto trace = place_ / "trace";
  ASSERT_TRUE(std::filesystem::remove(trace));
  place_.write("in.txt", "abc\n");
  place_.write("pairs.tsv", "abc\tc b a\n");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"decode", "traced/best", "in.txt"},
                                             {"score", "traced/best", "pairs.tsv"},
                                             {"chat", "traced/best"}}) {
    place_.expect_error(command, {"touch trace; cat", "--trust-segmenter", "--source-segmenter"},
                        {.input = "abc\n"});
  }
  EXPECT_EQ(place_.sluice({"info", "traced/best"}).code, 0);
  EXPECT_EQ(place_.sluice({"report", "traced"}).code, 0);
  EXPECT_NE(place_.read("traced/report.html").find("--trust-segmenter"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(trace));

  EXPECT_EQ(place_.sluice({"report", "traced", "--trust-segmenter"}).code, 0);
  EXPECT_TRUE(std::filesystem::remove(trace));
  EXPECT_EQ(
      place_.sluice({"decode", "traced/best", "in.txt", "--source-segmenter", kSegmenter}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(trace));
  EXPECT_EQ(place_.sluice({"score", "traced/best", "pairs.tsv", "--trust-segmenter"}).code, 0);
  EXPECT_TRUE(std::filesystem::remove(trace));
}

TEST_F(SegmenterCommand, SegmentsWhatAModelIsQuantizedBy) {
  const auto quantize = [](const std::string& data, const std::string& output) {
    return std::vector<std::string>{"quantize",   "joined/best", "--data",          data,
                                    "-o",         output,        "--metric",        "loss",
                                    "--max-loss", "50",          "--no-calibration"};
  };
  const auto with = [](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  place_.expect_error(quantize("joined.tsv", "none"), {"--trust-segmenter", "--source-segmenter"});
  const Outcome trusted = place_.sluice(with(quantize("joined.tsv", "q"), {"--trust-segmenter"}));
  ASSERT_EQ(trusted.code, 0) << trusted.err;

  // The same as of texts that are segmented already, but for the time it takes.
  std::string lines;
  for (const auto& [source, target] : reversals(200, 3)) lines += source + "\t" + target + "\n";
  place_.write("spaced.tsv", lines);
  const Outcome spaced =
      place_.sluice(with(quantize("spaced.tsv", "spaced"), {"--source-segmenter", ""}));
  ASSERT_EQ(spaced.code, 0) << spaced.err;
  const auto row_of = [](const std::string& table, const std::string& name) {
    for (const std::string& line : split(table, '\n')) {
      if (line.find(name) != std::string::npos) return line;
    }
    return std::string();
  };
  EXPECT_NE(row_of(trusted.out, "loss"), "") << trusted.out;
  EXPECT_EQ(row_of(trusted.out, "loss"), row_of(spaced.out, "loss"));

  // What was quantized still names its command.
  place_.expect_error({"decode", "q", "joined.tsv"}, {"--trust-segmenter"});
}

TEST_F(SegmenterCommand, ThatFailsStopsTheRun) {
  const Outcome missing = train("no_such_segmenter 2>/dev/null", "none");
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("sources to train on: the segmenter 'no_such_segmenter"),
            std::string::npos)
      << missing.err;
  const Outcome early = train("sed -u 9q", "none");
  EXPECT_NE(early.err.find("after 9 of 180 lines; the next is of text 10"), std::string::npos)
      << early.err;
  place_.expect_error({"decode", "joined/best", "--source-segmenter", "false"},
                      {"'false' ended with exit code 1"}, {.input = "abc\n"});
}

TEST_F(SegmenterCommand, IsAskedOnceAWholeConversation) {
  const Outcome chat = place_.sluice({"chat", "joined/best", "--beam", "1", "--source-segmenter",
                                      "echo start >> starts; sed -u 's/./& /g'"},
                                     {.input = "abc\nba\ncab\n"});
  ASSERT_EQ(chat.code, 0) << chat.err;
  EXPECT_EQ(split(chat.out, '\n').size(), 3U) << chat.out;
  EXPECT_EQ(place_.read("starts"), "start\n");
}

}  // namespace
}  // namespace sluice::end_to_end
