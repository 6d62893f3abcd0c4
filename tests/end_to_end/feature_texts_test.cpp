// A language model whose texts begin from vectors of features.
#include <cmath>
#include <sstream>

#include "end_to_end/workplace.h"
#include "io/npy.h"
#include "sluice/language_model.h"
#include "unit/support/npy_file.h"
#include "unit/support/zip_file.h"

namespace sluice::end_to_end {
namespace {

using Arguments = std::vector<std::string>;

const std::vector<std::string> kNames{"circle", "square", "line", "dot"};

/// Numbers that say which name is right, by the largest of the first four, and two that say
/// nothing.
std::vector<float> vector_of(std::size_t name, unsigned noise) {
  std::vector<float> numbers(6);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    noise = noise * 1664525 + 1013904223;
    numbers[i] = static_cast<float>(noise >> 16) / 131072.0F;
  }
  numbers[name] += 1;
  return numbers;
}

/// Texts "a circle" and so on, each with its vector.
class FeatureTexts : public ::testing::Test {
 protected:
  FeatureTexts() {
    write_examples("train", 240, 1);
    write_examples("dev", 24, 2);
    place_.write("captions.toml", R"([data]
text = "train.txt"
features = "train.npy"
validation_text = "dev.txt"
validation_features = "dev.npy"
[tokenizer]
kind = "characters"
[model]
kind = "language_model"
embedding = 8
hidden = 24
dropout = 0.0
[training]
learning_rate = 0.02
max_tokens = 400
max_epochs = 0
max_steps = 120
validate_every = 40
[output]
directory = "run"
)");
  }

  void write_examples(const std::string& stem, unsigned count, unsigned seed) {
    std::string texts;
    std::vector<float> numbers;
    for (unsigned i = 0; i < count; ++i) {
      const std::size_t name = (i * i + i / 3) % kNames.size();
      texts += "a " + kNames[name] + "\n";
      const std::vector<float> vector = vector_of(name, seed * 1000 + i);
      numbers.insert(numbers.end(), vector.begin(), vector.end());
    }
    place_.write(stem + ".txt", texts);
    place_.write(stem + ".npy", testing::npy_file({count, 6}, numbers));
  }

  /// One vector for each name into `file`.
  std::vector<float> write_prompts(const std::string& file) const {
    std::vector<float> numbers;
    for (std::size_t name = 0; name < kNames.size(); ++name) {
      const std::vector<float> vector = vector_of(name, 77 + static_cast<unsigned>(name));
      numbers.insert(numbers.end(), vector.begin(), vector.end());
    }
    place_.write(file, testing::npy_file({4, 6}, numbers));
    return numbers;
  }

  Outcome train(const Arguments& overrides = {}) const {
    Arguments arguments{"train", "captions.toml"};
    for (const std::string& set : overrides) arguments.insert(arguments.end(), {"--set", set});
    return place_.sluice(arguments);
  }
  void expect_refused(const Arguments& overrides, const std::vector<std::string>& said) const {
    const Outcome outcome = train(overrides);
    EXPECT_EQ(outcome.code, 1);
    for (const std::string& part : said) {
      EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    }
  }
  Arguments generate(const Arguments& options) const {
    return place_.lines_of({"generate", "run/best"}, options);
  }

  Workplace place_;
};

TEST_F(FeatureTexts, AreLearntFromTheVectors) {
  const Outcome trained = train();
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::vector<float> prompts = write_prompts("prompts.npy");
  const Arguments right{"a circle", "a square", "a line", "a dot"};
  EXPECT_EQ(generate({"--features", "prompts.npy", "--beam", "3"}), right);
  EXPECT_EQ(generate({"--features", "prompts.npy", "--beam", "3", "--batch", "3"}), right);
  EXPECT_EQ(
      generate({"--features", "prompts.npy", "--temperature", "0", "--samples", "2"}),
      (Arguments{right[0], right[0], right[1], right[1], right[2], right[2], right[3], right[3]}));
  for (const std::string& text : generate({"--features", "prompts.npy", "--prefix", "a s"})) {
    EXPECT_TRUE(text.starts_with("a s")) << text;
  }

  // As the API has it, and from the arrays of an archive.
  LanguageModel model = LanguageModel::load((place_ / "run/best").string());
  EXPECT_EQ(model.features(), 6);
  GenerateOptions options;
  options.search = BeamOptions{.beam = 3};
  options.features = {6, prompts};
  Arguments found;
  for (const Hypothesis& text : model.generate(options)) found.push_back(text.text);
  EXPECT_EQ(found, right);
  for (const FeatureVectors& wrong :
       {FeatureVectors{6, {1, 2, 3, 4, 5, 6, 7}}, FeatureVectors{6, {}},
        FeatureVectors{3, {1, 2, 3}}, FeatureVectors{6, {1, 2, 3, 4, 5, NAN}}}) {
    options.features = wrong;
    EXPECT_THROW(model.generate(options), Error) << wrong.values.size();
  }
  const auto part = [&](std::size_t begin, std::size_t end) {
    return std::vector<float>(prompts.begin() + static_cast<std::ptrdiff_t>(6 * begin),
                              prompts.begin() + static_cast<std::ptrdiff_t>(6 * end));
  };
  place_.write("prompts.npz",
               testing::zip_file({{"one.npy", testing::npy_file({6}, part(0, 1))},
                                  {"others.npy", testing::npy_file({3, 6}, part(1, 4)), true}}));
  EXPECT_EQ(generate({"--features", "prompts.npz", "--beam", "3"}), right);
}

TEST_F(FeatureTexts, AreScoredGivenTheVectors) {
  ASSERT_EQ(train().code, 0);
  write_prompts("prompts.npy");
  place_.write("right", "a circle\na square\na line\na dot\n");
  place_.write("wrong", "a square\na line\na dot\na circle\n");
  const auto total = [&](const std::string& texts) {
    const Outcome outcome =
        place_.sluice({"score", "run/best", texts, "--features", "prompts.npy"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    double sum = 0, score = 0;
    int tokens = 0;
    for (int i = 0; i < 4; ++i) {
      lines >> score >> tokens;
      sum += score;
    }
    return sum;
  };
  EXPECT_GT(total("right"), total("wrong") + 5);
}

TEST_F(FeatureTexts, AreQuantizedWithTheirVectors) {
  ASSERT_EQ(train().code, 0);
  const Arguments command{"quantize", "run/best", "--data", "dev.txt", "-o", "int8"};
  place_.expect_error(command, {"begin from vectors", "dev.txt", "--targets"});
  Arguments with_vectors = command;
  with_vectors.insert(with_vectors.end(), {"--targets", "dev.npy", "--max-loss", "50"});
  place_.write("narrow.npy", testing::npy_file({24, 5}, std::vector<float>(24 * 5)));
  Arguments narrow = with_vectors;
  *std::find(narrow.begin(), narrow.end(), "dev.npy") = "narrow.npy";
  place_.expect_error(narrow, {"'narrow.npy': its vectors have 5 features", "vectors of 6"});
  const Outcome quantized = place_.sluice(with_vectors);
  EXPECT_EQ(quantized.code, 0) << quantized.err;
  write_prompts("prompts.npy");
  EXPECT_EQ(place_.sluice({"generate", "int8", "--features", "prompts.npy", "--beam", "3"}).out,
            "a circle\na square\na line\na dot\n");
}

TEST_F(FeatureTexts, GoOnFromAStateWithoutTheVectors) {
  ASSERT_EQ(train().code, 0);
  write_prompts("prompts.npy");
  const Arguments whole = generate({"--features", "prompts.npy", "--seed", "5", "--samples", "2"});
  Arguments pieces = generate({"--features", "prompts.npy", "--seed", "5", "--samples", "2",
                               "--max-length", "4", "--save-state", "s"});
  const Arguments rest = generate({"--state", "s"});
  ASSERT_EQ(whole.size(), 8U);
  ASSERT_EQ(rest.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(pieces[i] + rest[i], whole[i]);
  const Outcome both =
      place_.sluice({"generate", "run/best", "--state", "s", "--features", "prompts.npy"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("--features"), std::string::npos) << both.err;
}

TEST_F(FeatureTexts, ResumeFoldsStatisticsAndReportWork) {
  ASSERT_EQ(train({"training.max_steps=30", "training.validate_every=10"}).code, 0);
  const std::string state = place_.read("run/last/training_state.safetensors");
  std::filesystem::remove_all(place_ / "run");
  for (const char* steps : {"7", "30"}) {
    ASSERT_EQ(
        train({"training.validate_every=10", std::string("training.max_steps=") + steps}).code, 0);
  }
  EXPECT_EQ(place_.read("run/last/training_state.safetensors"), state);
  const Outcome report = place_.sluice({"report", "run"});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_NE(place_.read("run/report.html").find("<h2>Answers</h2>"), std::string::npos);

  const Outcome statistics = place_.sluice({"data", "stats", "captions.toml"});
  EXPECT_EQ(statistics.code, 0) << statistics.err;
  EXPECT_NE(statistics.out.find("240 frames"), std::string::npos) << statistics.out;

  const Outcome folds = place_.sluice(
      {"train", "captions.toml", "--folds", "2", "--set", "data.validation_text=", "--set",
       "data.validation_features=", "--set", "training.max_steps=10", "--set",
       "training.validate_every=5", "--set", "output.directory=folds"});
  EXPECT_EQ(folds.code, 0) << folds.err;
  EXPECT_NE(place_.read("folds/folds.json").find("mean"), std::string::npos);

  // Other vectors are other examples.
  write_examples("train", 240, 3);
  expect_refused({"training.validate_every=10", "training.max_steps=40"}, {"other", "examples"});
}

TEST_F(FeatureTexts, AreRefusedWhereTheyDoNotFit) {
  expect_refused({"data.validation_features="}, {"data.validation_text", "belong together"});
  expect_refused({"data.features="}, {"data.validation_features", "data.features is not"});
  expect_refused({"training.bptt=5"}, {"training.bptt is 5", "data.features"});
  expect_refused({"data.stream=true"}, {"data.stream", "data.features"});
  expect_refused({"data.validation_features=train.npy"},
                 {"'train.npy' has 240 feature vectors for the 24 lines of 'dev.txt'"});
  place_.write("narrow.npy", testing::npy_file({24, 5}, std::vector<float>(120)));
  expect_refused({"data.validation_features=narrow.npy"}, {"5 features", "train on 6"});
  std::vector<float> numbers(24 * 6);
  numbers[3 * 6 + 2] = std::nanf("");
  place_.write("nan.npy", testing::npy_file({24, 6}, numbers));
  expect_refused({"data.validation_features=nan.npy"}, {"'nan.npy': vector 3, column 2", "nan"});
  place_.write("deep.npy", testing::npy_file({24, 1, 6}, std::vector<float>(144)));
  expect_refused({"data.validation_features=deep.npy"}, {"'deep.npy'", "[24, 1, 6]"});

  ASSERT_EQ(train({"training.max_steps=1"}).code, 0);
  place_.expect_error({"generate", "run/last"}, {"vectors of 6 features", "none are given"});
  place_.expect_error({"generate", "run/last", "--features", "narrow.npy"},
                      {"vectors of 6 features", "given have 5"});
  place_.expect_error({"score", "run/last", "dev.txt"}, {"vectors of 6 features"});
  place_.write("two", "a dot\na dot\n");
  place_.expect_error({"score", "run/last", "two", "--features", "dev.npy"},
                      {"24 feature vectors for 2 texts"});
  place_.train_texts({"training.max_steps=1"});
  place_.expect_error({"generate", "text/best", "--features", "dev.npy"},
                      {"trained without features"});
  place_.train({"training.max_steps=1", "output.directory=pairs"});
  place_.expect_error({"score", "pairs/best", "train.tsv", "--features", "dev.npy"},
                      {"leave out --features"});
}

}  // namespace
}  // namespace sluice::end_to_end
