#include <filesystem>
#include <regex>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

/// The number behind a name in a table.
double number(const std::string& text, const std::string& name, int column) {
  std::string pattern = name;
  for (int i = 0; i <= column; ++i) pattern += " +([-0-9.]+)[^ ]*(?: MiB)?";
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(pattern))) {
    ADD_FAILURE() << text << " has no " << pattern;
    return 0;
  }
  return std::stod(match[static_cast<std::size_t>(column + 1)]);
}

TEST(Quantize, StoresAModelInFewerBitsThatEveryCommandTakes) {
  const Workplace place;
  place.train({"training.max_epochs=25", "training.learning_rate=0.01"});
  const Outcome made = place.sluice(
      {"quantize", "run/best", "--data", "valid.tsv", "-o", "small", "--metric", "accuracy"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("int8"), std::string::npos) << made.out;
  EXPECT_GT(number(made.out, "accuracy", 0), 80) << made.out;
  EXPECT_GT(number(made.out, "accuracy", 1), 0.98 * number(made.out, "accuracy", 0)) << made.out;
  EXPECT_LT(number(made.out, "model.safetensors", 1), number(made.out, "model.safetensors", 0));
  EXPECT_LT(std::filesystem::file_size(place / "small/model.safetensors"),
            std::filesystem::file_size(place / "run/best/model.safetensors"));

  const auto answers = [&](std::vector<std::string> arguments) {
    const Outcome outcome = place.sluice(arguments, {.input = "a b c\nd e\n"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string small = answers({"decode", "small"});
  EXPECT_EQ(small, answers({"decode", "small", "--precision", "int8"}));
  EXPECT_EQ(small, answers({"decode", "small"}));
  // What is stored in 8 bits may be computed in 32, and the other way round.
  EXPECT_NE(answers({"score", "small", "valid.tsv"}),
            answers({"score", "small", "valid.tsv", "--precision", "float32"}));
  EXPECT_NE(answers({"score", "run/best", "valid.tsv"}),
            answers({"score", "run/best", "valid.tsv", "--precision", "int8"}));
  const std::string info = answers({"info", "small", "--explain"});
  EXPECT_NE(info.find("matrices stored   int8"), std::string::npos) << info;
  EXPECT_NE(info.find("int8-"), std::string::npos) << info;
  EXPECT_NE(answers({"info", "run/best"}).find("matrices stored   float32"), std::string::npos);
}

TEST(Quantize, StoresInBfloat16) {
  const Workplace place;
  place.train();
  const Outcome made = place.sluice({"quantize", "run/best", "--data", "valid.tsv", "-o", "half",
                                     "--dtype", "bfloat16", "--metric", "loss"});
  ASSERT_EQ(made.code, 0) << made.err;
  const Outcome decoded = place.sluice({"decode", "half"}, {.input = "a b c\n"});
  EXPECT_EQ(decoded.code, 0) << decoded.err;
}

// Of a CPU: `info --machine` says which leaves it has.
TEST(Quantize, ComputesInBfloat16WhereThatIsFast) {
  const Workplace place;
  place.train({"training.max_steps=1"});
  place.train_texts({"training.max_steps=1"});
  place.expect_error({"decode", "run/best", "valid.tsv", "--precision", "bfloat16"},
                     {"precision bfloat16 on a CPU is not for models of kind seq2seq", "attention",
                      "use float32, to which auto widens"});
  place.expect_train_error({"machine.precision=bfloat16", "output.directory=other"},
                           {"precision bfloat16 on a CPU is not for models of kind seq2seq"});
  EXPECT_FALSE(std::filesystem::exists(place / "other"));
  place.expect_error({"generate", "text/best", "--precision", "float16"},
                     {"precision float16 is a GPU's, not a CPU's; use float32"});
  const std::vector<std::string> generate{"generate", "text/best", "--precision", "bfloat16"};
  const std::string machine = place.sluice({"info", "--machine"}).out;
  const std::size_t at = machine.find("bfloat16 ");
  ASSERT_NE(at, std::string::npos) << machine;
  const std::string layers = machine.substr(at, machine.find('\n', at) - at);
  if (layers.find("portable") != std::string::npos) {
    place.expect_error(generate, {"precision bfloat16 needs a CPU with AVX512_BF16 or AMX",
                                  "slower than in float32", "use float32"});
  } else {
    const Outcome outcome = place.sluice(generate);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

TEST(Quantize, SaysWhereAMetricTellsNothing) {
  const Workplace place;
  place.train({"training.max_steps=1"});
  const Outcome made = place.sluice(
      {"quantize", "run/best", "--data", "valid.tsv", "-o", "small", "--metric", "exact_match"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(number(made.out, "exact match", 0), 0) << made.out;
  EXPECT_NE(made.out.find("tells nothing: 0 before (see --metric)"), std::string::npos) << made.out;
  EXPECT_EQ(made.out.find("nothing lost"), std::string::npos) << made.out;
}

TEST(Quantize, ServesLanguageModels) {
  const Workplace place;
  place.train_texts();
  const Outcome made = place.sluice({"quantize", "text", "--data", "squares.txt", "-o", "small"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("perplexity"), std::string::npos) << made.out;
  const Outcome generated = place.sluice({"generate", "small", "--prefix", "1"});
  EXPECT_EQ(generated.code, 0) << generated.err;
  place.write("empty", "");
  place.expect_error({"quantize", "text", "--data", "empty", "-o", "x"}, {"'empty' is empty"});
}

TEST(Quantize, RefusesInOneSentence) {
  const Workplace place;
  place.train({"training.max_steps=30", "training.validate_every=30"});
  const std::vector<std::string> before = place.files();
  const std::vector<std::string> command{"quantize", "run/best", "--data", "valid.tsv", "-o", "x"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  place.expect_error(with({"--metric", "f1"}), {"has no metric 'f1'", "bleu"});
  place.expect_error({"quantize", "run/best", "--data", "valid.tsv", "-o", "run"},
                     {"'run' is there already"});
  place.expect_error({"quantize", "run/best", "--data", "none.tsv", "-o", "x"}, {"none.tsv"});
  EXPECT_EQ(place.files(), before);
  const Outcome made = place.sluice(with({"--metric", "loss"}));
  ASSERT_EQ(made.code, 0) << made.err;
  const Outcome below = place.sluice(
      {"quantize", "run/best", "--data", "valid.tsv", "--metric", "loss", "-o", "made/with/it/"});
  EXPECT_EQ(below.code, 0) << below.err;
  EXPECT_TRUE(std::filesystem::exists(place / "made/with/it/model.safetensors"));
  place.expect_error({"quantize", "x", "--data", "valid.tsv", "-o", "y"},
                     {"'x' is stored as int8 already"});
  // Said before data are read, of which there are none.
  place.expect_train_error({"training.init_from=x", "output.directory=again", "data.tsv=none.tsv"},
                           {"'x' is a quantized model (stored as int8)", "float32 alone"});
  EXPECT_EQ(place.sluice(with({"--dtype", "int4"})).code, 2);
}

}  // namespace
}  // namespace sluice::end_to_end
