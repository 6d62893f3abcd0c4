#include "data/segmenter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;
using sluice::testing::TemporaryFolder;
using ::testing::HasSubstr;
using Lines = std::vector<std::string>;
using std::chrono::milliseconds;

/// Long for a machine under load, yet a test that waits for it ends.
constexpr SegmenterPatience kShort{milliseconds(300), milliseconds(2000)};

Error error_of_command(const std::string& command, const Lines& texts = {"ab", "cd", "ef"}) {
  return error_of([&] { Segmenter(command, kShort).segment_file(texts); });
}

TEST(Segmenter, AnswersEachTextInItsPlace) {
  Segmenter segmenter("sed 's/./& /g'", kShort);
  // Blank texts aren't asked about, and a text stays one line.
  const Lines texts{"ab", "", "日本", " \t", "c\nd\r"};
  const Lines expected{"a b ", "", "日 本 ", "", "c   d   "};
  EXPECT_EQ(segmenter.segment_file(texts), expected);
  EXPECT_EQ(segmenter.segment_file(texts), expected);
  EXPECT_EQ(segmenter.segment_file({}), Lines{});
}

TEST(Segmenter, CommandThatAnswersByLineIsStartedOnce) {
  const TemporaryFolder folder;
  const std::string starts = (folder / "starts").string();
  Segmenter segmenter("echo >>" + starts + "; sed -u 's/^/x /'");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(segmenter.segment(Lines{"a", "b"}), (Lines{"x a", "x b"}));
  }
  EXPECT_EQ(std::filesystem::file_size(starts), 1U);
}

TEST(Segmenter, CommandThatAnswersAtItsEndIsStartedForEachCall) {
  const TemporaryFolder folder;
  const std::string starts = (folder / "starts").string();
  Segmenter segmenter("echo >>" + starts + "; sort -s -k1,1.0", kShort);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(segmenter.segment(Lines{"b", "c"}), (Lines{"b", "c"}));
  }
  EXPECT_EQ(std::filesystem::file_size(starts), 3U);
}

TEST(Segmenter, PythonAnswersByLine) {
  const TemporaryFolder folder;
  const std::string starts = (folder / "starts").string();
  Segmenter segmenter("echo >>" + starts +
                      "; python3 -c 'import sys\nfor line in sys.stdin: print(*line.strip())'");
  EXPECT_EQ(segmenter.segment(Lines{"ab"}), Lines{"a b"});
  EXPECT_EQ(segmenter.segment(Lines{"cd"}), Lines{"c d"});
  EXPECT_EQ(std::filesystem::file_size(starts), 1U);
}

TEST(Segmenter, MoreThanPipesHoldDoesNotStop) {
  // The command answers before it has read all, and later the other way round.
  Lines texts;
  for (int i = 0; i < 5000; ++i) texts.push_back(std::string(60, 'a') + std::to_string(i));
  for (const char* command : {"cat", "sed -u p | sed -u -n '1~2p'", "tac | tac"}) {
    EXPECT_EQ(Segmenter(command).segment_file(texts), texts) << command;
  }
}

TEST(Segmenter, CommandsThatFailAreNamedWithThePlace) {
  EXPECT_EQ(error_of_command("no_such_command_here 2>/dev/null").code(), ErrorCode::kNotFound);
  EXPECT_THAT(error_of_command("no_such_command_here 2>/dev/null").what(),
              HasSubstr("'no_such_command_here 2>/dev/null' can't be run"));
  const Error early = error_of_command("sed -u 2q");
  EXPECT_EQ(early.code(), ErrorCode::kIo);
  EXPECT_THAT(early.what(), HasSubstr("ended with exit code 0 after 2 of 3 lines; the next is of "
                                      "text 3: 'ef'"));
  EXPECT_THAT(error_of_command("cat; exit 3").what(), HasSubstr("ended with exit code 3"));
  EXPECT_THAT(error_of_command("kill -9 $$").what(), HasSubstr("signal 9 after 0 of 3"));
  EXPECT_THAT(error_of_command("sed p").what(), HasSubstr("more lines than it is asked"));
  EXPECT_THAT(error_of_command("printf 'a\\n\\377\\nb\\n'").what(),
              HasSubstr("answers text 2 with what is not UTF-8"));
  const Error silent = error_of_command("sleep 100");
  EXPECT_EQ(silent.code(), ErrorCode::kIo);
  EXPECT_THAT(silent.what(), HasSubstr("did nothing for 2 s"));
}

TEST(Segmenter, GoesOnAfterAnError) {
  Segmenter segmenter("sed -u '/stop/q7'", kShort);
  EXPECT_EQ(segmenter.segment(Lines{"a"}), Lines{"a"});
  EXPECT_THAT(error_of([&] {
                segmenter.segment(Lines{"stop", "b"});
              }).what(),
              HasSubstr("exit code 7 after 1 of 2"));
  EXPECT_EQ(segmenter.segment(Lines{"c"}), Lines{"c"});
}

TEST(Segmenter, SurplusOfAnEarlierCallIsNoAnswer) {
  Segmenter segmenter("sed -u p", kShort);
  EXPECT_THAT(error_of([&] {
                segmenter.segment(Lines{"a"});
                for (int i = 0; i < 100; ++i) segmenter.segment(Lines{"b"});
              }).what(),
              HasSubstr("more lines than it is asked"));
}

// Each text would get the answer to the one before, and the last answer comes a little later.
TEST(Segmenter, GreetingBeforeAllAnswersIsNoticedInTheFirstCall) {
  SegmenterPatience patient = kShort;
  patient.surplus = milliseconds(2000);
  Segmenter segmenter("echo hello; while read -r line; do sleep 0.02; echo \"$line\"; done",
                      patient);
  EXPECT_THAT(error_of([&] {
                segmenter.segment(Lines{"a", "b", "c"});
              }).what(),
              HasSubstr("more lines than it is asked"));
}

TEST(Segmenter, NeedsACommand) {
  EXPECT_EQ(error_of([] { Segmenter(" "); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice::data
