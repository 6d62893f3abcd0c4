#include <cmath>
#include <nlohmann/json.hpp>

#include "end_to_end/workplace.h"
#include "unit/support/npy_file.h"

/// `sluice data stats`: numbers of small files that are counted by hand here.
namespace sluice::end_to_end {
namespace {

using Json = nlohmann::json;

class DataStats : public ::testing::Test {
 protected:
  Json stats(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"data", "stats"});
    const std::string text = output(arguments);
    arguments.emplace_back("--json");
    const Json json = Json::parse(output(arguments));
    // What people read has the same examples.
    for (const Json& part : json.at("parts")) {
      EXPECT_NE(text.find(std::to_string(part.at("examples").get<int>())), std::string::npos)
          << text;
    }
    return json;
  }
  std::string output(const std::vector<std::string>& arguments) const {
    const Outcome outcome = place_.sluice(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  Workplace place_;
};

TEST_F(DataStats, FilesWithoutAGoodExampleAreToldToo) {
  place_.write("bad.conll", "a O\nb\n");
  place_.write("good.conll", "a O\nb O\n");
  place_.write("bad.csv", "text,label\n\"never closed,a\nb,c\n");
  const Json json = stats({"bad.conll", "bad.csv", "good.conll"});
  const Json& parts = json.at("parts");
  ASSERT_EQ(parts.size(), 3u);
  for (const int part : {0, 1}) {
    const auto reason = parts.at(part).at("bad").at(0).at("reason").get<std::string>();
    EXPECT_NE(reason.find("line 2: "), std::string::npos) << reason;
    EXPECT_EQ(parts.at(part).at("bad").at(0).at("line"), 2) << reason;
  }
  EXPECT_EQ(parts.at(1).at("examples"), 0);
  EXPECT_EQ(parts.at(2).at("examples"), 1);
}

TEST_F(DataStats, OfAConfigurationCountsWhatTrainingSees) {
  place_.write("train.tsv",
               "a b c\tc b a\n"
               "a b c\tc b a\n"
               "a\ta\tb\n"       // three columns
               "rare\ta\n"       // below min_count: unknown
               "\ta\n"           // empty
               "b c\tc \xff\n"   // not UTF-8
               "a b c a b\tc\n"  // too long
               "c\tb\n");
  place_.write("valid.tsv", "c\tb\nb\tnever\n");
  const Json json =
      stats({"task.toml", "--set", "tokenizer.min_count=2", "--set", "data.max_source_tokens=4"});
  EXPECT_EQ(json.at("kind"), "seq2seq");
  const Json& train = json.at("parts").at(0);
  EXPECT_EQ(train.at("examples"), 6);
  EXPECT_EQ(train.at("empty"), 1);
  EXPECT_EQ(train.at("too_long"), 1);
  EXPECT_EQ(train.at("duplicates"), 1);
  EXPECT_EQ(train.at("bad_lines"), 2);
  EXPECT_EQ(train.at("bad").at(0).at("line"), 3);
  EXPECT_EQ(train.at("bad").at(1).at("line"), 6);
  EXPECT_NE(train.at("bad").at(0).at("reason").get<std::string>().find("3 columns"),
            std::string::npos);
  const Json& source = train.at("sides").at(0);
  EXPECT_EQ(source.at("tokens"), 3 + 3 + 1 + 0 + 5 + 1);
  EXPECT_EQ(source.at("unknown"), 1);
  // Lengths 0 1 1 3 3 5.
  EXPECT_EQ(source.at("lengths").at("shortest"), 0);
  EXPECT_EQ(source.at("lengths").at("longest"), 5);
  EXPECT_EQ(source.at("lengths").at("percentiles").at("50"), 1);
  EXPECT_EQ(source.at("lengths").at("percentiles").at("75"), 3);
  EXPECT_EQ(source.at("lengths").at("histogram"), Json::parse("[[1,3],[4,2],[8,1]]"));
  const Json& validation = json.at("parts").at(1);
  EXPECT_EQ(validation.at("examples"), 2);
  EXPECT_EQ(validation.at("seen"), 1);
  EXPECT_EQ(validation.at("sides").at(1).at("unknown"), 1);
  const std::string text = output({"data", "stats", "task.toml"});
  EXPECT_NE(text.find("'train.tsv' line 3 has 3 columns"), std::string::npos) << text;
}

TEST_F(DataStats, AgreesWithWhatTrainingSays) {
  const Json train = stats({"task.toml"}).at("parts").at(0);
  const Outcome run = place_.sluice({"train", "task.toml", "--set", "training.max_epochs=1"});
  const std::string said =
      "training: " + std::to_string(train.at("examples").get<int>()) + " examples, " +
      std::to_string(train.at("sides").at(0).at("tokens").get<int>()) + " source and " +
      std::to_string(train.at("sides").at(1).at("tokens").get<int>()) + " target tokens";
  EXPECT_NE(run.err.find(said), std::string::npos) << said << '\n' << run.err;
}

TEST_F(DataStats, OfTextFilesCountWords) {
  place_.write("x.txt", "one two\n\nthree\n");
  place_.write("y.conll", "Ann B-per\nsees O\n\nbad\nRome B-loc\n");
  place_.write("z.csv", "text,label\na film,good\na film,good\nno label,\nonly\n\"a, b\",bad\n");
  const Json parts = stats({"x.txt", "y.conll", "z.csv"}).at("parts");
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts.at(0).at("examples"), 3);
  EXPECT_EQ(parts.at(0).at("empty"), 1);
  EXPECT_EQ(parts.at(0).at("sides").at(0).at("tokens"), 3);
  EXPECT_FALSE(parts.at(0).at("sides").at(0).contains("unknown"));
  EXPECT_EQ(parts.at(1).at("examples"), 2);
  EXPECT_EQ(parts.at(1).at("labels"), Json::parse(R"({"B-per":1,"O":1,"B-loc":1})"));
  EXPECT_EQ(parts.at(1).at("bad").at(0).at("line"), 4);
  EXPECT_EQ(parts.at(2).at("examples"), 3);
  EXPECT_EQ(parts.at(2).at("duplicates"), 1);
  EXPECT_EQ(parts.at(2).at("labels"), Json::parse(R"({"good":2,"bad":1})"));
  EXPECT_EQ(parts.at(2).at("bad_lines"), 2);
  EXPECT_EQ(stats({"z.csv", "--format", "text"}).at("parts").at(0).at("examples"), 6);
}

TEST_F(DataStats, OfFilesWithNothingButBadLinesListThem) {
  place_.write("x.tsv", "no tab\n");
  place_.write("y.csv", "text,label\nno label\n");
  const Json parts = stats({"x.tsv", "y.csv"}).at("parts");
  for (const Json& part : parts) {
    EXPECT_EQ(part.at("examples"), 0);
    EXPECT_EQ(part.at("bad_lines"), 1);
  }
}

TEST_F(DataStats, NamesStandardInput) {
  const Outcome pairs =
      place_.sluice({"data", "stats", "-", "--format", "pairs"}, {.input = "one\n"});
  EXPECT_EQ(pairs.code, 0) << pairs.err;
  EXPECT_TRUE(pairs.out.starts_with("pairs: standard input\n")) << pairs.out;
  EXPECT_NE(pairs.out.find("standard input line 1 has 1 column"), std::string::npos) << pairs.out;
}

TEST_F(DataStats, OfArraysTellWhatIsNotFinite) {
  const float nan = std::nanf("");
  place_.write("a.npy", sluice::testing::npy_file({3, 2}, std::vector<float>{0, 1, 2, nan, 4, 5}));
  const Json arrays = stats({"a.npy"}).at("parts").at(0).at("arrays").at(0);
  EXPECT_EQ(arrays.at("sequences"), 1);
  EXPECT_EQ(arrays.at("frames"), 3);
  EXPECT_EQ(arrays.at("width"), 2);
  EXPECT_EQ(arrays.at("nan"), 1);
  EXPECT_EQ(arrays.at("least"), 0);
  EXPECT_EQ(arrays.at("most"), 5);
  EXPECT_NEAR(arrays.at("mean").get<double>(), 12.0 / 5, 1e-12);
  EXPECT_EQ(arrays.at("shapes"), Json::parse(R"({"[3, 2]":1})"));
}

TEST_F(DataStats, RefusesWhatCannotBeReadAtAll) {
  place_.expect_error({"data", "stats", "nothing.tsv"}, {"'nothing.tsv'"});
  place_.expect_error({"data", "stats", "train.tsv", "--set", "data.tsv=x"}, {"--set", ".toml"});
  place_.write("damaged.npy", "\x93NUMPY");
  place_.expect_error({"data", "stats", "damaged.npy"}, {"'damaged.npy'"});
}

}  // namespace
}  // namespace sluice::end_to_end
