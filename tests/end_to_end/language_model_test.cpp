#include <cmath>
#include <sstream>

#include "end_to_end/workplace.h"
#include "unit/support/source_path.h"

namespace sluice::end_to_end {
namespace {

/// The texts of Workplace with what trains a model on them into run/, and molecules.
class TextPlace : public Workplace {
 public:
  TextPlace() {
    write_texts();
    write("molecules", "CCO\nClCC\nc1ccccc1\nC[C@@H](N)O\nCCO\nClCCl\nc1ccccc1O\nCC(=O)O\n");
  }

  Outcome train_text(const std::vector<std::string>& overrides) const {
    std::vector<std::string> arguments{"train", "texts.toml"};
    arguments.insert(arguments.end(),
                     {"--set", "output.directory=run", "--set", "training.max_steps=40"});
    for (const std::string& override : overrides) {
      arguments.insert(arguments.end(), {"--set", override});
    }
    return sluice(arguments);
  }
};

TEST(LanguageModel, LearnsAndScoresTexts) {
  const TextPlace place;
  const Outcome trained = place.train_text({"training.keep_best=bits_per_token"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("training: 150 texts"), std::string::npos) << trained.err;
  EXPECT_NE((trained.err + trained.out).find("bits per token"), std::string::npos) << trained.err;

  place.write("some", "64 is a square\nerauqs a si 46\n\n");
  const Outcome scored = place.sluice({"score", "run/best", "some"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  std::istringstream lines(scored.out);
  double likely = 0, unlikely = 0, end = 0;
  int tokens[3] = {};
  lines >> likely >> tokens[0] >> unlikely >> tokens[1] >> end >> tokens[2];
  EXPECT_EQ(tokens[0], 15);
  EXPECT_EQ(tokens[1], 15);
  EXPECT_EQ(tokens[2], 1);
  EXPECT_GT(likely, unlikely + 10);
  const double perplexity = std::exp(-(likely + unlikely + end) / 31);
  const std::size_t place_of = scored.out.find("perplexity ");
  ASSERT_NE(place_of, std::string::npos) << scored.out;
  EXPECT_NE(scored.out.find("# 3 texts, 31 tokens"), std::string::npos) << scored.out;
  EXPECT_NEAR(std::stod(scored.out.substr(place_of + 11)), perplexity, 1e-3 * perplexity);

  const Outcome info = place.sluice({"info", "run/best"});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_NE(info.out.find("language_model"), std::string::npos) << info.out;
}

TEST(LanguageModel, TrainsWithHardSigmoids) {
  const TextPlace place;
  const Outcome trained = place.train_text({"model.hard_sigmoid=true", "training.max_steps=2"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome info = place.sluice({"info", "run/best"});
  EXPECT_NE(info.out.find("hard_sigmoid"), std::string::npos) << info.out;
  ASSERT_EQ(place.sluice({"convert", "run/best", "--to", "onnx", "-o", "x.onnx", "--verify"}).code,
            0);
}

TEST(LanguageModel, RefusesAFileWithoutALine) {
  const TextPlace place;
  place.write("empty", "");
  for (const std::string file : {"data.text=empty", "data.validation_text=empty"}) {
    for (const std::string stream : {"data.stream=false", "data.stream=true"}) {
      place.expect_error({"train", "texts.toml", "--set", "data.hold_out_run=0", "--set",
                          "data.hold_out_every=0", "--set", file, "--set", stream},
                         {"'empty' is empty"});
    }
  }
}

// Killed by a limit in the midst of an epoch, a run of running text goes on to the same bytes.
TEST(LanguageModel, ResumesRunningText) {
  const TextPlace place;
  const std::vector<std::string> running{"training.bptt=10", "training.max_rows=6"};
  const auto train = [&](const std::string& limit) {
    std::vector<std::string> overrides = running;
    overrides.push_back("training.max_steps=" + limit);
    const Outcome outcome = place.train_text(overrides);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  };
  train("27");
  const std::string state = place.read("run/last/training_state.safetensors");
  std::filesystem::remove_all(place / "run");
  for (const char* limit : {"3", "11", "27"}) train(limit);
  EXPECT_EQ(place.read("run/last/training_state.safetensors"), state);
  EXPECT_NE(state.find("states.h"), std::string::npos);
}

TEST(LanguageModel, LearnsMolecules) {
  const TextPlace place;
  const Outcome trained =
      place.train_text({"tokenizer.kind=smiles", "data.text=molecules", "data.hold_out_run=1"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  place.write("more", "CCCl\nC(C\n");
  EXPECT_EQ(place.sluice({"score", "run/best", "more"}).code, 0);
  place.write("more", "CCCl\nC!C\n");
  place.expect_error({"score", "run/best", "more"}, {"input 2", "'!' at byte offset 1"});
}

TEST(LanguageModel, IsWrittenAsIds) {
  const TextPlace place;
  place.write("squares.txt", "ab\na\nb\n");
  const auto ids_of = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> arguments{"data", "ids", "texts.toml", "-o", "ids"};
    for (const std::string& override : overrides) {
      arguments.insert(arguments.end(), {"--set", override});
    }
    const Outcome outcome = place.sluice(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return place.read("ids/train.ids");
  };
  const std::string all = "data.hold_out_run=0", none = "data.hold_out_every=0";
  // What is fed and what is wanted of each line; a is 4, b is 5.
  EXPECT_EQ(ids_of({all, none}), "# vocabulary 6 6\n2 4 5\t4 5 3\n2 4\t4 3\n2 5\t5 3\n");
  EXPECT_EQ(place.read("ids/target.vocab"), "<pad>\n<unk>\n<s>\n</s>\na\nb\n");
  EXPECT_FALSE(std::filesystem::exists(place / "ids/source.vocab"));
  // As one text in two stretches, a b eos a and eos b eos, three steps at a time.
  EXPECT_EQ(ids_of({all, none, "training.bptt=3", "training.max_rows=2"}),
            "# vocabulary 6 6 rows 2\n2 4 5\t4 5 3\n4 2 5\t3 5 3\n2\t4\n\t\n");
}

TEST(LanguageModel, TrainingStepsAreMeasured) {
  const TextPlace place;
  const Outcome outcome =
      place.sluice({"bench", "train", "--config", "texts.toml", "--set", "training.max_rows=8",
                    "--batches", "2", "--repeats", "1", "--json", "out.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(place.read("out.json").find("\"examples\": 16"), std::string::npos);
  EXPECT_EQ(place.sluice({"bench", "report", "out.json"}).code, 0);
  EXPECT_NE(place.sluice({"bench", "train"}).code, 0);
  EXPECT_NE(place.sluice({"bench", "train", "--config", "texts.toml", "--shapes", "x"}).code, 0);
}

// As they stand, but for where the data lies and how long they run.
TEST(LanguageModel, ExamplesTrain) {
  const TextPlace place;
  const auto train = [&](const std::string& example, const std::string& text) {
    const std::string path = testing::source_path("examples/" + example);
    std::vector<std::string> arguments{"train", path};
    for (const std::string& set :
         {"data.text=" + text, std::string("data.hold_out_run=1"), std::string("model.hidden=16"),
          std::string("training.max_steps=1"), "output.directory=" + example}) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    const Outcome outcome = place.sluice(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_FALSE(place.read(example + "/best/model.safetensors").empty());
  };
  train("charlm.toml", "squares.txt");
  std::string molecules;
  for (int i = 0; i < 6; ++i) molecules += place.read("molecules");
  place.write("molecules", molecules);
  train("smiles.toml", "molecules");
}

TEST(LanguageModel, SaysWhatIsWrong) {
  const TextPlace place;
  const auto expect_refused = [&](const std::vector<std::string>& overrides,
                                  const std::vector<std::string>& said) {
    const Outcome outcome = place.train_text(overrides);
    EXPECT_EQ(outcome.code, 1);
    for (const std::string& one : said) {
      EXPECT_NE(outcome.err.find(one), std::string::npos) << outcome.err;
    }
  };
  expect_refused({"data.text=none"}, {"none"});
  expect_refused({"data.text="}, {"data.text"});
  expect_refused({"model.attention=multiplicative"}, {"model.attention", "language_model"});
  expect_refused({"training.bptt=201"}, {"training.bptt", "training.max_tokens = 200"});
  expect_refused({"model.kind=seq2seq", "training.bptt=5"}, {"training.bptt", "seq2seq"});
  place.write("molecules", "CCO\nC C\n");
  expect_refused({"tokenizer.kind=smiles", "data.text=molecules"},
                 {"'molecules', line 2", "byte offset 1"});

  ASSERT_EQ(place.train_text({"training.max_steps=1"}).code, 0);
  place.expect_error({"score", "run/last", "squares.txt", "squares.txt"},
                     {"language model", "'squares.txt'"});
  place.expect_error({"decode", "run/last", "squares.txt"},
                     {"language_model", "sluice generate or score"});
}

}  // namespace
}  // namespace sluice::end_to_end
