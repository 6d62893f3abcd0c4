#include <toml++/toml.h>

#include <algorithm>
#include <regex>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

TEST(Help, OfEachCommandTeachesByExample) {
  const sluice::testing::TemporaryFolder folder;
  for (const std::string command :
       {"",           "demo",      "train",        "decode",      "chat",       "generate",
        "score",      "tag",       "classify",     "run",         "evaluate",   "average",
        "report",     "info",      "data",         "data ids",    "data stats", "bench",
        "bench lstm", "bench gru", "bench ladder", "bench table", "bench gemm", "bench report"}) {
    std::vector<std::string> arguments = split(command, ' ');
    arguments.push_back("--help");
    const Outcome outcome = run(folder.path(), arguments);
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_EQ(outcome.err, "");
    const std::string example = "  sluice " + command;
    EXPECT_NE(outcome.out.find(example), std::string::npos) << outcome.out;
  }
}

TEST(Help, OfCommandsThatWritePagesAndFilesTeachesByExample) {
  const sluice::testing::TemporaryFolder folder;
  for (const std::string command :
       {"reference", "reference config", "reference commands", "export-embeddings"}) {
    std::vector<std::string> arguments = split(command, ' ');
    arguments.push_back("--help");
    const Outcome outcome = run(folder.path(), arguments);
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_NE(outcome.out.find("  sluice " + command), std::string::npos) << outcome.out;
  }
}

TEST(Help, IsWhatTheProgramPrintsByItself) {
  const sluice::testing::TemporaryFolder folder;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"bench"}, {"data"}, {"reference"}}) {
    const Outcome bare = run(folder.path(), words);
    EXPECT_EQ(bare.code, 0) << bare.err;
    std::vector<std::string> asked = words;
    asked.push_back("--help");
    EXPECT_EQ(bare.out, run(folder.path(), asked).out);
    EXPECT_NE(bare.out.find("Usage: sluice"), std::string::npos);
  }
}

TEST(Help, NamesAnUnknownCommandAndTheNearest) {
  const sluice::testing::TemporaryFolder folder;
  EXPECT_EQ(run(folder.path(), {"trian", "x.toml"}).err,
            "sluice: error: sluice has no command 'trian'; did you mean 'train'? see sluice "
            "--help\n");
  EXPECT_EQ(run(folder.path(), {"bench", "lstn"}).err,
            "sluice: error: sluice bench has no command 'lstn'; did you mean 'lstm'? see sluice "
            "bench --help\n");
  EXPECT_EQ(run(folder.path(), {"translate"}).err,
            "sluice: error: sluice has no command 'translate'; see sluice --help\n");
}

TEST(Help, SaysWhatIsWrongWithOptionsOfACommand) {
  const sluice::testing::TemporaryFolder folder;
  const auto said = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = run(folder.path(), arguments);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  const std::string see = " see sluice decode --help\n",
                    no = "sluice: error: sluice decode has no ";
  EXPECT_EQ(said({"decode", "m", "--beem", "3"}),
            no + "option '--beem'; did you mean '--beam'?" + see);
  EXPECT_EQ(said({"decode", "m", "--beem=3"}),
            no + "option '--beem=3'; did you mean '--beam'?" + see);
  EXPECT_EQ(said({"decode", "m", "--colour"}), no + "option '--colour';" + see);
  EXPECT_EQ(said({"decode", "m", "in", "more"}),
            "sluice: error: sluice decode does not take the argument 'more';" + see);
  EXPECT_EQ(said({"decode", "m", "--beam", "x"}),
            "sluice: error: --beam = x is not a number;" + see);
  EXPECT_EQ(said({"decode"}), "sluice: error: MODEL is required;" + see);
  EXPECT_EQ(said({"train"}),
            "sluice: error: CONFIG (sluice train --example prints one) is required; see sluice "
            "train --help\n");
  EXPECT_EQ(said({"data", "ids"}),
            "sluice: error: CONFIG is required; see sluice data ids --help\n");
}

TEST(Help, ShowsDefaultsAndNothingOfItsParser) {
  const sluice::testing::TemporaryFolder folder;
  const Outcome decode = run(folder.path(), {"decode", "--help"});
  for (const char* part :
       {"Usage: sluice decode MODEL [INPUT] [options]\n", "\n  --beam N ", "\n  -o, --output TEXT ",
        "\n  -h, --help   ", "(default: 5)", "\n  --format text|json "}) {
    EXPECT_NE(decode.out.find(part), std::string::npos) << part << " is not in\n" << decode.out;
  }
  EXPECT_NE(run(folder.path(), {"quantize", "--help"})
                .out.find("Usage: sluice quantize MODEL --data TEXT --output TEXT [options]\n"),
            std::string::npos);
  for (const std::string command : {"", "train", "decode", "chat", "check", "info", "bench lstm",
                                    "bench train", "quantize", "data ids"}) {
    std::vector<std::string> arguments = split(command, ' ');
    arguments.push_back("--help");
    const Outcome outcome = run(folder.path(), arguments);
    for (const char* part : {"[OPTIONS]", "REQUIRED", "TEXT=", "INT", "FLOAT", "Positionals",
                             "Excludes:", "Needs:", "Option Group", "{false}"}) {
      EXPECT_EQ(outcome.out.find(part), std::string::npos) << part << " is in\n" << outcome.out;
    }
    for (const std::string& line : split(outcome.out, '\n')) EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(Help, VersionNamesTheCommit) {
  const sluice::testing::TemporaryFolder folder;
  const Outcome outcome = run(folder.path(), {"--version"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::regex line(R"(sluice \d+\.\d+\.\d+, commit [\w.-]+\n)");
  EXPECT_TRUE(std::regex_match(outcome.out, line)) << outcome.out;
}

TEST(Help, UsageErrorsAreOneLine) {
  const Workplace place;
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"trian"},
           {"bench", "lstn"},
           {"decode"},
           {"info"},
           {"decode", "run", "--beams", "3"},
           {"decode", "run", "--sample", "--beam", "3"},
           {"decode", "run", "--sample", "--nbest", "3"},
           {"chat", "run", "--sample", "--length-penalty", "0"},
           {"decode", "run", "--top-k", "3"},
           {"decode", "run", "--samples", "3"},
           {"chat", "run", "--temperature", "0.5"},
           {"decode", "run", "--prefix", "a", "--prefixes", "b"},
           {"decode", "run", "--format", "xml"},
           {"train", "task.toml", "--init-from", "run", "--only", ""}}) {
    const Outcome outcome = place.sluice(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("sluice: error: ")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Help, ExampleIsAConfigurationWithEveryKeyExplained) {
  const Workplace place;
  const Outcome example = place.sluice({"train", "--example"});
  ASSERT_EQ(example.code, 0);
  const toml::table table = toml::parse(example.out);
  EXPECT_EQ(table["training"]["optimizer"].value<std::string>(), "adam");
  const std::regex comment(R"(# .+ \((string|integer|number|boolean)(, of [a-z0-9_, ]+)?\))");
  const std::vector<std::string> lines = split(example.out, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(" = ") == std::string::npos || lines[i].starts_with("#")) continue;
    ASSERT_GE(i, 1U);
    EXPECT_TRUE(std::regex_match(lines[i - 1], comment)) << lines[i - 1] << '\n' << lines[i];
  }
  place.write("task.toml", example.out);
  place.train({"data.tsv=train.tsv", "tokenizer.kind=words", "model.hidden=16",
               "training.max_steps=2", "output.directory=run"});
}

}  // namespace
}  // namespace sluice::end_to_end
