#include <nlohmann/json.hpp>

#include "end_to_end/workplace.h"
#include "unit/support/npy_file.h"

namespace sluice::end_to_end {
namespace {

using Json = nlohmann::json;

/// Arguments of `sluice check` for a model of each kind.
class Check : public ::testing::Test {
 protected:
  Outcome check(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "check");
    return place_.sluice(arguments);
  }
  /// Its report, after it ended with this code.
  Json report_of(std::vector<std::string> arguments, int code) const {
    arguments.insert(arguments.end(), {"--format", "json"});
    const Outcome outcome = check(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out);
  }
  void write_features() const {
    std::vector<float> frames;
    for (int i = 0; i < 60; ++i) frames.push_back(static_cast<float>(i * 37 % 11) / 11);
    place_.write("frames.npy", testing::npy_file({30, 2}, frames));
    place_.write("some.npy", testing::npy_file({2, 15, 2}, frames));
    place_.write("task.toml",
                 "[data]\nfeatures = \"frames.npy\"\ntargets = \"frames.npy\"\n"
                 "[model]\nkind = \"features\"\nhidden = 5\nlayers = 3\nbidirectional = false\n"
                 "[training]\nmax_steps = 3\n[output]\ndirectory = \"run\"\n");
    place_.train();
  }
  Workplace place_;
};

TEST_F(Check, SequencesAreComparedOnTargetsAndOnTheModelsOwnAnswers) {
  place_.train({"training.max_epochs=1"});
  place_.write("in.txt", "a b c\nh\nd e f g\n");
  place_.write("out.txt", "c b a\nh\ng f e d\n");
  place_.write("pairs.tsv", "a b c\tc b a\nh\th\nd e f g\tg f e d\n");
  const std::string against = "--against=implementation=portable";
  const Json given = report_of({"run", "in.txt", "out.txt", against}, 0);
  EXPECT_TRUE(given["agrees"]);
  EXPECT_EQ(given["inputs"], 3);
  EXPECT_EQ(given["layers"].back()["name"], "output");
  EXPECT_EQ(given["layers"][0]["name"], "source_embedding");
  // The same as lines of two columns, to the number.
  const Json pairs = report_of({"run", "pairs.tsv", against}, 0);
  EXPECT_EQ(pairs["layers"], given["layers"]);
  EXPECT_TRUE(report_of({"run", "in.txt", against}, 0)["agrees"]);
}

TEST_F(Check, LanguageModelsAreComparedOnTexts) {
  place_.train_texts();
  const Json report = report_of({"text", "squares.txt", "--against", "precision=int8"}, 0);
  EXPECT_NE(report["reference"].get<std::string>().find("int8 on cpu"), std::string::npos);
  EXPECT_GT(report["layers"].back()["largest"], 0);
}

TEST_F(Check, TaggersAreComparedOnSentences) {
  place_.write("train.conll", "Ann\tB-per\nsees\tO\nRome\tB-loc\n\nRome\tB-loc\n\n");
  place_.write("task.toml",
               "[data]\nconll = \"train.conll\"\n[tokenizer]\nkind = \"words\"\n"
               "[model]\nkind = \"tagger\"\nembedding = 4\nhidden = 6\n"
               "[training]\nmax_steps = 3\n[output]\ndirectory = \"run\"\n");
  place_.train();
  const Json report = report_of({"run", "train.conll", "--against", "implementation=portable"}, 0);
  EXPECT_EQ(report["inputs"], 2);
  // Four tokens of three labels.
  EXPECT_EQ(report["layers"].back()["numbers"], 12);
}

TEST_F(Check, ClassifiersAreComparedOnLines) {
  place_.write("train.csv", "text,label\nthe cat,x\na dog,y\nold cat,x\n");
  place_.write("task.toml",
               "[data]\ntable = \"train.csv\"\n[tokenizer]\nkind = \"words\"\n"
               "[model]\nkind = \"classifier\"\nembedding = 4\nhidden = 6\n"
               "[training]\nmax_steps = 3\n[output]\ndirectory = \"run\"\n");
  place_.train();
  place_.write("in.txt", "the cat\na old dog\n\n");
  const Json report = report_of({"run", "in.txt", "--against", "implementation=portable"}, 0);
  EXPECT_EQ(report["inputs"], 3);
  EXPECT_EQ(report["layers"].back()["numbers"], 6);
}

TEST_F(Check, ARecordingOfOtherWeightsDiffersAndIsNamed) {
  write_features();
  const Outcome recorded = check({"run", "some.npy", "--record", "before.safetensors"});
  EXPECT_EQ(recorded.code, 0) << recorded.err;
  EXPECT_EQ(recorded.out, "");
  EXPECT_TRUE(report_of({"run", "some.npy", "--against", "before.safetensors"}, 0)["agrees"]);
  // Two further steps of training move every layer.
  place_.train({"training.max_steps=5"});
  const Outcome outcome =
      check({"run", "some.npy", "--against", "before.safetensors", "-o", "report.txt"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(outcome.out + outcome.err, "");
  const std::string text = place_.read("report.txt");
  EXPECT_NE(text.find("\nThe first layer that differs is stack.l0: at step 0 of row "),
            std::string::npos)
      << text;
  // The last layer first.
  EXPECT_LT(text.find("\noutput "), text.find("\nstack.l2 ")) << text;
  EXPECT_LT(text.find("\nstack.l2 "), text.find("\nstack.l0 ")) << text;
  // Within what the user allows, it is none.
  EXPECT_EQ(check({"run", "some.npy", "--against", "before.safetensors", "--tolerance=10"}).code,
            0);
}

TEST_F(Check, WrongCommandLinesEndWithTwo) {
  EXPECT_EQ(check({"run", "some.npy"}).code, 2);
  EXPECT_EQ(check({"run", "some.npy", "--against", "precison=int8"}).code, 2);
  const Outcome outcome = check({"run", "some.npy", "--against", "precison=int8"});
  EXPECT_NE(outcome.err.find("did you mean 'precision'?"), std::string::npos) << outcome.err;
  const Outcome text = check({"run", "some.npy", "--against", "precision=int8", "--tolerance=x"});
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.err.find("x is not a number; see sluice check --help"), std::string::npos)
      << text.err;
}

TEST_F(Check, RefusesInOneSentence) {
  write_features();
  place_.expect_error({"check", "run", "some.npy", "--against", "none.safetensors"},
                      {"none.safetensors"});
  place_.expect_error({"check", "run", "some.npy", "--against", "implementation=none"},
                      {"no implementation \"none\"", "portable"});
  place_.expect_error({"check", "run", "some.npy", "out.npy", "--against", "precision=int8"},
                      {"a model of kind features is checked without targets", "'out.npy'"});
  check({"run", "some.npy", "--record", "whole.safetensors"});
  const std::string whole = place_.read("whole.safetensors");
  place_.write("cut.safetensors", whole.substr(0, whole.size() - 5));
  place_.expect_error({"check", "run", "some.npy", "--against", "cut.safetensors"},
                      {"'cut.safetensors'"});
  // Of more inputs than there are.
  place_.expect_error({"check", "run", "frames.npy", "--against", "whole.safetensors"},
                      {"'whole.safetensors' was recorded with 2 inputs, but this run has 1 input"});
  place_.expect_error({"check", "run", "some.npy", "--against", "precision=int8", "--tolerance=-1"},
                      {"tolerance is -1; it must be a positive number, or 0 for one that follows"});
  place_.expect_error({"check", "run", "some.npy", "--against", "precision=tf32"},
                      {"precision tf32 is a GPU's, not a CPU's"});
}

TEST_F(Check, NeverReplacesAFileThatItReads) {
  place_.train({"training.max_epochs=1"});
  place_.write("in.txt", "a b c\nh\n");
  place_.write("out.txt", "c b a\nh\n");
  EXPECT_EQ(check({"run", "in.txt", "out.txt", "--record", "before.safetensors"}).code, 0);
  for (const std::string file :
       {"in.txt", "out.txt", "before.safetensors", "run/best/model.safetensors"}) {
    const std::string before = place_.read(file);
    for (const char* model : {"run", "run/best"}) {
      for (const char* option : {"--record", "-o"}) {
        place_.expect_error(
            {"check", model, "in.txt", "out.txt", "--against", "before.safetensors", option, file},
            {"'" + file + "' is the input, which would be replaced"});
        EXPECT_EQ(place_.read(file), before);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::end_to_end
