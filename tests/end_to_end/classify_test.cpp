#include <cmath>
#include <nlohmann/json.hpp>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

/// Sentences that say whether they are of cats or of dogs.
std::string table(int count, unsigned seed) {
  std::string text = "id,text,label\n";
  const char* fill[] = {"the", "a", "sees", "hears", "and", "old"};
  std::uint64_t state = seed;
  const auto draw = [&](int below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int>(state >> 33) % below;
  };
  for (int i = 0; i < count; ++i) {
    const bool cat = draw(2) == 0;
    std::string sentence;
    const int words = 2 + draw(5), at = draw(words);
    for (int w = 0; w < words; ++w) {
      sentence += w == 0 ? "" : " ";
      sentence += w == at ? (cat ? "cat" : "dog") : fill[draw(6)];
    }
    // Every other text in quotes, with a comma.
    const std::string field = i % 2 == 0 ? sentence : "\"" + sentence + " , \"\"so\"\"\"";
    text += std::to_string(i) + "," + field + "," + (cat ? "feline" : "canine") + "\n";
  }
  return text;
}

constexpr const char* kTask = R"([data]
table = "train.csv"
validation_table = "valid.csv"
[tokenizer]
kind = "words"
[model]
kind = "classifier"
embedding = 8
hidden = 8
dropout = 0.0
[training]
learning_rate = 0.02
max_tokens = 256
max_epochs = 6
keep_best = "accuracy"
[output]
directory = "run"
)";

class Classify : public ::testing::Test {
 protected:
  void SetUp() override {
    place_.write("task.toml", kTask);
    place_.write("train.csv", table(200, 1));
    place_.write("valid.csv", table(50, 2));
  }
  /// The scores of the labels that a model gives three texts.
  std::vector<double> scores_of(const std::string& model) {
    const Outcome said =
        place_.sluice({"classify", model}, {.input = "the cat sees\nold dog\nthe\n"});
    EXPECT_EQ(said.code, 0) << said.err;
    std::vector<double> scores;
    for (const std::string& line : split(said.out, '\n')) {
      const std::size_t tab = line.find('\t');
      if (tab != std::string::npos) scores.push_back(std::stod(line.substr(tab + 1)));
    }
    return scores;
  }
  Workplace place_;
};

/// How many of the examples of valid.csv with the label `right` `sluice classify` labels
/// `answered`.
std::int64_t counted(const std::vector<std::string>& right, const std::vector<std::string>& answers,
                     const std::string& label, const std::string& answer) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    count += right[i] == label && answers.at(i) == answer ? 1 : 0;
  }
  return count;
}

TEST_F(Classify, WarnsOfTextsThatSayNothingToTheModel) {
  place_.train({"training.max_epochs=1"});
  const Outcome outcome = place_.sluice({"classify", "run"}, {.input = "the cat\n\nunheard of\n"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.err.starts_with("sluice: warning: 2 of 4 tokens in the input are not in the"))
      << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with("; 1 of 3 inputs hold no other (the first is input 3)\n"))
      << outcome.err;
}

// Keras 3 computes another hard sigmoid, which the conversion scales into the weights.
TEST_F(Classify, TrainsAModelOfKerasWithHardSigmoidsFurther) {
  place_.train({"model.hard_sigmoid=true", "model.pooling=mean", "training.max_epochs=2"});
  const auto run = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = place_.sluice(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  run({"convert", "run/best", "--to", "keras", "-o", "x.keras", "--verify"});
  run({"convert", "x.keras", "-o", "converted", "--labels", "x.keras.labels.txt", "--verify"});
  // Scores after a run with steps too small to change them.
  const auto scores = [&](const std::string& hard_sigmoid) {
    const std::string folder = "more_" + hard_sigmoid;
    run({"train", "task.toml", "--init-from", "converted", "--set", "model.pooling=mean", "--set",
         "model.hard_sigmoid=" + hard_sigmoid, "--set", "output.directory=" + folder, "--set",
         "training.max_epochs=1", "--set", "training.learning_rate=1e-12"});
    return scores_of(folder + "/best");
  };
  const std::vector<double> wanted = scores_of("run/best"), hard = scores("true"),
                            soft = scores("false");
  ASSERT_EQ(wanted.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(hard.at(i), wanted[i], 2e-6);
    EXPECT_GT(std::abs(soft.at(i) - wanted[i]), 1e-5);
  }
}

// The confusion on the page is that of the answers of `sluice classify`.
TEST_F(Classify, ReportCountsWhichClassIsTakenForWhich) {
  place_.train({"training.max_epochs=1"});
  ASSERT_EQ(place_.sluice({"report", "run"}).code, 0);
  const std::string page = place_.read("run/report.html");
  // Labels stand at the ends of lines; texts without quotes between the first two commas.
  std::vector<std::string> right, answers;
  std::string texts;
  for (const std::string& line : split(place_.read("valid.csv"), '\n')) {
    if (line.starts_with("id,")) continue;
    right.push_back(line.substr(line.rfind(',') + 1));
    std::string text = line.substr(line.find(',') + 1);
    text = text.substr(0, text.rfind(','));
    if (text.starts_with("\"")) {
      text = text.substr(1, text.size() - 2);
      for (std::size_t at = 0; (at = text.find("\"\"", at)) != std::string::npos; ++at) {
        text.erase(at, 1);
      }
    }
    texts += text + "\n";
  }
  place_.write("texts.txt", texts);
  for (const std::string& line :
       split(place_.sluice({"classify", "run/best", "texts.txt"}).out, '\n')) {
    answers.push_back(line.substr(0, line.find('\t')));
  }
  ASSERT_EQ(answers.size(), right.size());
  std::string expected = "<tr><th></th><th>canine</th><th>feline</th></tr>\n";
  for (const std::string label : {"canine", "feline"}) {
    expected += "<tr><th>" + label + "</th>";
    for (const std::string answer : {"canine", "feline"}) {
      expected += std::string("<td") + (label == answer ? " class=\"right\"" : "") + ">" +
                  std::to_string(counted(right, answers, label, answer)) + "</td>";
    }
    expected += "</tr>\n";
  }
  EXPECT_NE(page.find(expected), std::string::npos)
      << expected << page.substr(page.find("<h2>Conf"));
}

TEST_F(Classify, LearnsAndLabels) {
  const Outcome trained = place_.sluice({"train", "task.toml"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("training: 200 examples of 2 labels"), std::string::npos)
      << trained.err;
  EXPECT_NE(trained.err.find("accuracy 100.00%"), std::string::npos) << trained.err;
  const Outcome said =
      place_.sluice({"classify", "run/best"}, {.input = "the old cat\n\na dog hears the dog\n"});
  ASSERT_EQ(said.code, 0) << said.err;
  const std::vector<std::string> lines = split(said.out, '\n');
  ASSERT_GE(lines.size(), 3u) << said.out;
  EXPECT_EQ(lines[0].substr(0, 9), "feline\t0.");
  EXPECT_NE(lines[1].find('\t'), std::string::npos);  // an empty line has an answer, too
  EXPECT_EQ(lines[2].substr(0, 9), "canine\t0.");
  EXPECT_GT(std::stod(lines[2].substr(7)), 0.5);

  place_.write("in.txt", "the old cat\n");
  ASSERT_EQ(
      place_.sluice({"classify", "run/best", "in.txt", "--format", "json", "-o", "out.json"}).code,
      0);
  const auto json = nlohmann::json::parse(place_.read("out.json"));
  EXPECT_EQ(json.at("label"), "feline");
  const double feline = json.at("probabilities").at("feline");
  EXPECT_EQ(json.at("probability").get<double>(), feline);
  EXPECT_NEAR(feline + json.at("probabilities").at("canine").get<double>(), 1, 1e-5);

  const Outcome info = place_.sluice({"info", "run/best"});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_NE(info.out.find("pooling.query"), std::string::npos) << info.out;
  place_.expect_error({"decode", "run/best", "in.txt"}, {"kind classifier", "sluice classify"});
}

TEST_F(Classify, IsMeasuredOnALabelledTable) {
  place_.train({"training.max_epochs=2"});
  const std::string test = table(60, 3);
  place_.write("test.csv", test);
  const Outcome answers =
      place_.sluice({"classify", "run/best", "test.csv", "--text-column", "text"});
  ASSERT_EQ(answers.code, 0) << answers.err;
  // Accuracy is that of the answers, loss that of the probabilities of what is right.
  const std::vector<std::string> given = split(answers.out, '\n'), rows = split(test, '\n');
  ASSERT_EQ(given.size(), rows.size() - 1);
  double right = 0, loss = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::vector<std::string> answer = split(given[i], '\t');
    const bool same = rows[i + 1].ends_with("," + answer[0]);
    const double probability = std::stod(answer[1]);
    right += same ? 1 : 0;
    loss -= std::log(same ? probability : 1 - probability) / 60;
  }
  const Outcome scored = place_.sluice({"classify", "run/best", "test.csv", "--score"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  const std::vector<std::string> lines = split(scored.out, '\n');
  ASSERT_GE(lines.size(), 3u) << scored.out;
  ASSERT_EQ(lines[0].substr(0, 5), "loss ");
  EXPECT_NEAR(std::stod(lines[0].substr(5)), loss, 1e-4);
  ASSERT_EQ(lines[1].substr(0, 9), "accuracy ");
  EXPECT_NEAR(std::stod(lines[1].substr(9)), 100 * right / 60, 0.00501);
  EXPECT_EQ(lines[2].substr(0, 26), "# 60 examples of 2 labels,") << scored.out;

  place_.write("other.tsv", "kind\twords\nfeline\tthe old cat\ncanine\ta dog\n");
  const Outcome other =
      place_.sluice({"classify", "run/best", "other.tsv", "--score", "--text-column", "words",
                     "--label-column", "kind", "-o", "scores.txt"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_NE(place_.read("scores.txt").find("# 2 examples"), std::string::npos);

  place_.expect_error(
      {"classify", "run/best", "test.csv"},
      {"'test.csv' is a table", "'text' and 'label'", "--score", "--text-column text"});
  place_.expect_error({"classify", "run/best"}, {"standard input is a table"},
                      {.input = place_.read("test.csv")});
  place_.expect_error({"classify", "run/best", "test.csv", "--score", "--label-column", "kind"},
                      {"'test.csv' has no column 'kind'"});
  EXPECT_EQ(
      place_.sluice({"classify", "run/best", "--score"}, {.input = place_.read("test.csv")}).out,
      place_.sluice({"classify", "run/best", "test.csv", "--score"}).out);
  place_.write("new.csv", "text,label\na cow,bovine\n");
  place_.expect_error(
      {"classify", "run/best", "new.csv", "--score"},
      {"'new.csv' line 2", "'bovine' is none of the 2 that training has (canine, feline)"});
}

// What helps is to know that the examples are others than the run's.
TEST_F(Classify, ALabelThatARunWasNotStartedWithIsTold) {
  place_.train({"training.max_epochs=1"});
  place_.write("train.csv", place_.read("train.csv") + "200,a cow,bovine\n");
  for (const std::string stream : {"false", "true"}) {
    place_.expect_train_error(
        {"training.max_epochs=2", "data.stream=" + stream},
        {"'train.csv' line ", "'bovine' is none of the 2 that the run in 'run' was started with",
         "choose another output.directory"});
  }
  place_.expect_train_error(
      {"output.directory=other", "training.init_from=run/best"},
      {"'bovine' is none of the 2 of 'run/best', which this run starts from", "init_only"});
}

TEST_F(Classify, GoesOnAsIfItHadNeverStopped) {
  place_.train({"training.max_epochs=2", "output.directory=whole"});
  place_.train({"training.max_epochs=1", "output.directory=parts"});
  place_.train({"training.max_epochs=2", "output.directory=parts"});
  const std::string in = "the old cat\na dog\n";
  EXPECT_EQ(place_.sluice({"classify", "parts/last"}, {.input = in}).out,
            place_.sluice({"classify", "whole/last"}, {.input = in}).out);
}

TEST_F(Classify, GoesOnWithATextFromAState) {
  place_.train({"model.pooling=last", "model.bidirectional=false"});
  const auto answers = [&](const std::vector<std::string>& arguments, const std::string& input) {
    std::vector<std::string> all{"classify", "run/best"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome said = place_.sluice(all, {.input = input});
    EXPECT_EQ(said.code, 0) << said.err;
    return said.out;
  };
  const std::string expected =
      answers({}, "\nthe old\nthe old cat\nthe old cat\nthe old cat and\n");
  std::string found = answers({"--save-state", "s"}, "\nthe old\n");
  found += answers({"--state", "s", "--save-state", "s"}, "cat\n");
  found += answers({"--state", "s"}, "\nand\n");  // a part without words changes nothing
  EXPECT_EQ(found, expected);
  // A state doesn't go on without the answers.
  const std::string before = place_.read("s");
  place_.expect_error({"classify", "run/best", "--state", "s", "--save-state", "s", "-o", "no/o"},
                      {"'no/o"}, {.input = "and\n"});
  EXPECT_EQ(place_.read("s"), before);
  place_.write("bad", with_answer(before, {-1, -1, -1}));
  place_.expect_error({"classify", "run/best", "--state", "bad"},
                      {"'bad' holds 3 numbers of an answer", "hold 2"}, {.input = "and\n"});
  place_.write("bad", with_answer(before, {-1, NAN}));
  place_.expect_error({"classify", "run/best", "--state", "bad"},
                      {"'bad': number 2 of 'answer' is nan"}, {.input = "and\n"});
  place_.write("bad", with_answer(before, {}));  // as if no token had been seen
  EXPECT_EQ(place_.sluice({"classify", "run/best", "--state", "bad"}, {.input = "and\n"}).code, 0);

  place_.train({"model.pooling=last", "output.directory=both", "training.max_epochs=1"});
  place_.expect_error({"classify", "both/best", "--save-state", "t"}, {"bidirectional"},
                      {.input = "a\n"});
  place_.expect_error({"classify", "both/best", "--state", "s"}, {"bidirectional"},
                      {.input = "a\n"});
  place_.train({"output.directory=all", "training.max_epochs=1"});
  place_.expect_error({"classify", "all/best", "--save-state", "t"}, {"pools by attention"},
                      {.input = "a\n"});
}

TEST_F(Classify, ClassWeightsMoveWhatIsAnswered) {
  // Half of the texts are of each label, and nothing in them tells which.
  std::string text = "text,label\n";
  for (int i = 0; i < 40; ++i) text += i % 2 == 0 ? "the old,feline\n" : "the old,canine\n";
  place_.write("same.csv", text);
  const auto probability_of_feline = [&](const std::string& weights) {
    place_.train({"data.table=same.csv", "training.class_weights=" + weights,
                  "training.learning_rate=0.05", "training.max_epochs=60",
                  "training.keep_best=loss", "output.directory=w" + weights});
    const Outcome said = place_.sluice({"classify", "w" + weights + "/last", "--format", "json"},
                                       {.input = "the old\n"});
    return nlohmann::json::parse(said.out).at("probabilities").at("feline").get<double>();
  };
  // The minimum of the weighted loss is at w / (w + 1).
  EXPECT_NEAR(probability_of_feline("feline=3"), 0.75, 0.05);
  EXPECT_NEAR(probability_of_feline("balanced"), 0.5, 0.05);
  place_.expect_train_error({"training.class_weights=cow=2"}, {"'cow'", "canine, feline"});
}

TEST_F(Classify, EveryPoolingAndCellLearns) {
  for (const char* pooling : {"last", "mean", "max"}) {
    place_.train({std::string("model.pooling=") + pooling, "model.cell=gru",
                  std::string("output.directory=") + pooling});
    const Outcome said =
        place_.sluice({"classify", std::string(pooling) + "/best"}, {.input = "the dog\n"});
    EXPECT_EQ(said.out.substr(0, 6), "canine") << pooling << ": " << said.out << said.err;
  }
}

TEST_F(Classify, BadInputIsRefused) {
  const auto refuse = [&](const std::string& csv, const std::vector<std::string>& said) {
    place_.write("bad.csv", csv);
    place_.expect_train_error({"data.validation_table=bad.csv"}, said);
  };
  refuse("text,label\na cat,feline\na dog\n", {"'bad.csv' line 3", "1 field,", "2 columns"});
  refuse("text,label\na cow,bovine\n", {"'bad.csv' line 2", "'bovine'"});
  refuse("text,label\na cat,\n", {"'bad.csv' line 2", "'label' is empty"});
  refuse("text,kind\na cat,feline\n", {"no column 'label'", "text, kind"});
  refuse("text,label\n\"a cat,feline\n", {"'bad.csv' line 2", "never closed"});
  refuse("text,label\n\" \",feline\n", {"no validation example is left", "1 empty"});
  place_.expect_train_error({"data.table="}, {"data.table"});
  place_.expect_train_error({"model.pooling=none"},
                            {"model.pooling is none", "use last, mean, max or attention"});
  place_.expect_train_error({"model.target=classes"}, {"classifier", "model.target"});
  place_.expect_train_error({"model.projections=8 x"}, {"model.projections is '8 x'"});
}

TEST_F(Classify, StreamsItsTable) { place_.expect_streams(); }

}  // namespace
}  // namespace sluice::end_to_end
