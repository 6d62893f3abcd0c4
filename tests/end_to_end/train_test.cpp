#include <signal.h>
#include <unistd.h>
#include <zlib.h>

#include <regex>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
}

TEST(Train, LeavesBestAndLast) {
  const Workplace place;
  const Outcome outcome = place.sluice({"train", "task.toml"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("finished after step"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("training: 300 examples"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("validation loss"), std::string::npos) << outcome.err;
  EXPECT_FALSE(place.read("run/best/model.safetensors").empty());
  EXPECT_FALSE(place.read("run/last/model.safetensors").empty());
  EXPECT_FALSE(place.read("run/last/training_state.safetensors").empty());
}

TEST(Train, TakesTheThreadsThereAreAndSoDoesDecoding) {
  const Workplace place;
  place.train({"machine.threads=1", "model.hidden=96"});
  const std::string answers = place.sluice({"decode", "run/best", "train.tsv"}).out;
  EXPECT_FALSE(answers.empty());
  std::filesystem::remove_all(place / "run");

  Setting limited;  // two threads asked for, one to be had
  limited.variables = {"OMP_THREAD_LIMIT=1", "OMP_DYNAMIC=true"};
  const Outcome trained =
      place.sluice(train_arguments({"machine.threads=2", "model.hidden=96"}), limited);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome decoded = place.sluice({"decode", "run/best", "train.tsv"}, limited);
  EXPECT_EQ(decoded.code, 0) << decoded.err;
  EXPECT_EQ(decoded.out, answers);
}

TEST(Train, RemembersThatItMeasured) {
  const Workplace place;
  std::vector<std::string> arguments{"train", "task.toml", "--set", "training.max_epochs=1"};
  arguments.push_back("--autotune");
  const Outcome measured = place.sluice(arguments);
  ASSERT_EQ(measured.code, 0) << measured.err;
  const Outcome by_rule = place.sluice({"train", "task.toml", "--set", "training.max_epochs=2"});
  ASSERT_EQ(by_rule.code, 0) << by_rule.err;
  EXPECT_NE(by_rule.err.find("machine.autotune"), std::string::npos) << by_rule.err;
}

// The same examples give the same weights, whatever files they come from. The configuration in a
// model names its files, so the same names are used.
TEST(Train, ReadsPairsPackedOrAligned) {
  const Workplace place;
  place.train();
  const std::string weights = place.read("run/best/model.safetensors");
  std::filesystem::remove_all(place / "run");
  const std::string text = place.read("train.tsv");
  write_gzip(place / "train.tsv", text);
  place.train();
  EXPECT_EQ(place.read("run/best/model.safetensors"), weights);

  std::string source, target;
  for (const auto& [from, to] : reversals(300, 1)) {
    source += from + "\r\n";
    target += to + "\n";
  }
  write_gzip(place / "source.gz", source);
  place.write("target", target);
  place.train(
      {"data.tsv=", "data.source=source.gz", "data.target=target", "output.directory=aligned"});
  const std::vector<std::string> score{"score", "aligned/best", "valid.tsv"};
  EXPECT_EQ(place.sluice(score).out, place.sluice({"score", "run/best", "valid.tsv"}).out);
}

TEST(Train, LearnsSubwordsAndHoldsOut) {
  const Workplace place;
  place.train({"tokenizer.kind=bpe", "tokenizer.source_vocabulary=20",
               "tokenizer.target_vocabulary=20", "data.validation_tsv=", "data.hold_out_run=10",
               "data.hold_out_every=5"});
  EXPECT_EQ(place.sluice({"decode", "run/best", "--max-length", "9"}, {.input = "a b c\n"}).code,
            0);
}

// With a schedule over steps, several batches a step and averaged weights.
TEST(Train, GoesOnExactlyWhereItStopped) {
  const Workplace place;
  const auto train = [&](const std::string& steps) {
    place.train({"training.schedule=cosine", "training.decay_steps=25", "training.warmup_steps=3",
                 "training.accumulate=2", "training.ema_decay=0.9", "training.validate_every=5",
                 "training.max_epochs=0", "training.max_steps=" + steps});
  };
  const auto files = [&] {
    return std::vector<std::string>{place.read("run/last/model.safetensors"),
                                    place.read("run/last/training_state.safetensors")};
  };
  train("20");
  const std::vector<std::string> whole = files();
  std::filesystem::remove_all(place / "run");
  train("5");
  train("15");
  train("20");
  const std::vector<std::string> cut = files();
  // Not as strings, which would be printed.
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(cut[i] == whole[i]) << i;
  place.expect_train_error({"training.schedule=cosine", "output.directory=other"},
                           {"training.schedule is cosine", "set training.decay_steps"});
}

TEST(Train, ValidatesByTheBleuThatEvaluatePrints) {
  const Workplace place;
  const Outcome trained = place.sluice(train_arguments(
      {"training.keep_best=bleu", "training.learning_rate=0.01", "training.max_epochs=8"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::smatch best;
  ASSERT_TRUE(std::regex_search(trained.out, best, std::regex("; best BLEU ([0-9.]+)")))
      << trained.out;

  std::string sources, references;
  for (const std::string& line : split(place.read("valid.tsv"), '\n')) {
    sources += line.substr(0, line.find('\t')) + '\n';
    references += line.substr(line.find('\t') + 1) + '\n';
  }
  place.write("references", references);
  const Outcome decoded = place.sluice({"decode", "run/best", "--beam", "1"}, {.input = sources});
  const Outcome scored =
      place.sluice({"evaluate", "-", "references", "--digits", "9"}, {.input = decoded.out});
  ASSERT_EQ(scored.code, 0) << scored.err;
  std::smatch bleu;
  ASSERT_TRUE(std::regex_search(scored.out, bleu, std::regex("^BLEU ([0-9.]+)"))) << scored.out;
  EXPECT_GT(std::stod(bleu[1]), 1);
  EXPECT_NEAR(std::stod(best[1]), std::stod(bleu[1]), 0.005001);  // two digits are printed
}

// As the validations before it, and `sluice evaluate`, have it: in percent.
TEST(Train, EndsWithTheBestExactMatchInPercent) {
  const Workplace place;
  const Outcome trained =
      place.sluice({"train", "task.toml", "--set", "training.keep_best=exact_match", "--set",
                    "training.learning_rate=0.01"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::smatch best;
  ASSERT_TRUE(std::regex_search(
      trained.out, best, std::regex("; best exact match ([0-9.]+%), after step ([0-9]+)\n$")))
      << trained.out;
  const std::string validation = "step " + best[2].str() + ": validation ";
  const std::size_t line = trained.err.find(validation);
  ASSERT_NE(line, std::string::npos) << trained.err;
  const std::string rest = trained.err.substr(line, trained.err.find('\n', line) - line);
  EXPECT_NE(rest.find("exact match " + best[1].str() + ","), std::string::npos) << rest;
}

TEST(Train, OverridesTakeOneValueEach) {
  const Workplace place;
  const Outcome outcome = place.sluice({"train", "--set", "training.max_steps=3", "--set",
                                        "training.seed=2", "task.toml", "--quiet"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("finished after step 3 "), std::string::npos) << outcome.out;
}

// The flags are for the start; the same run goes on without them, and without the file.
TEST(Train, StartsFromAnotherCheckpointAndResumesWithoutFlags) {
  const Workplace place;
  place.train({"training.max_steps=3", "output.directory=base"});
  const auto begin = [&](const char* output, const char* steps) {
    const Outcome outcome =
        place.sluice({"train", "task.toml", "--init-from", "base/best", "--only", "source_*",
                      "--only", "*.bias", "--set", std::string("output.directory=") + output,
                      "--set", std::string("training.max_steps=") + steps});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("start from 'base/best/model.safetensors': source_embedding.weight, "
                               "output.bias"),
              std::string::npos)
        << outcome.err;
  };
  begin("whole", "6");
  begin("run", "4");
  std::filesystem::remove_all(place / "base");
  place.train({"training.max_steps=6"});
  const std::string state = "/last/training_state.safetensors";
  EXPECT_EQ(place.read("run" + state), place.read("whole" + state));
}

TEST(Train, StartsFromWordVectorsAndTellsOfTheirShare) {
  const Workplace place;
  std::string vectors = "9 16\n";
  for (const char letter : std::string("abcdXYZUV")) {
    vectors += letter;
    for (int i = 0; i < 16; ++i) vectors += ' ' + std::to_string(0.1 * i - letter);
    vectors += '\n';
  }
  write_gzip(place / "vectors.gz", vectors);
  const Outcome outcome =
      place.sluice({"train", "task.toml", "--set", "model.source_embeddings_from=vectors.gz",
                    "--set", "training.freeze=source_embedding.*"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("source_embedding.weight: 4 of 8 words (50.0 %) start from "
                             "'vectors.gz', which has 9"),
            std::string::npos)
      << outcome.err;
}

TEST(Train, TiesEmbeddings) {
  const Workplace place;
  place.train({"model.tie_embeddings=all", "tokenizer.shared=true"});
  const Outcome info = place.sluice({"info", "run/best"});
  EXPECT_NE(info.out.find("  embedding.weight "), std::string::npos) << info.out;
  EXPECT_EQ(info.out.find("output.weight"), std::string::npos) << info.out;
  const Outcome decoded =
      place.sluice({"decode", "run/best", "--max-length", "9"}, {.input = "a b c\n"});
  EXPECT_EQ(decoded.code, 0) << decoded.err;
}

// The file that is to be read is no data any more: what can't be is refused before that shows.
TEST(Train, RefusesChangedKeysBeforeDataAreRead) {
  const Workplace place;
  place.train({"training.max_steps=3"});
  place.write("train.tsv", "no columns\n");
  place.expect_train_error({"training.max_steps=6", "model.hidden=20", "model.forget_bias=1"},
                           {"'run' was started with other values of model.hidden (",
                            ", now 20), model.forget_bias (0, now 1)",
                            "set them as they were, or choose another output.directory"});
  place.expect_train_error({"training.max_steps=6"}, {"'train.tsv' line 1 has 1 column;"});
  place.expect_error({"train", "task.toml", "--quiet", "--fresh"}, {"'run' holds a checkpoint"});
}

TEST(Train, NamesWhatChangedTheExamplesOfARun) {
  const Workplace place;
  const std::vector<std::string> held_out{"data.validation_tsv=", "data.hold_out_run=5",
                                          "data.hold_out_every=10"};
  const auto with = [](std::vector<std::string> keys, const std::string& more) {
    keys.push_back(more);
    return keys;
  };
  place.train(with(held_out, "training.max_steps=3"));
  place.expect_train_error(with(held_out, "data.hold_out_every=20"),
                           {"other values of data.hold_out_every (10, now 20)"});
  place.expect_train_error(with(held_out, "data.hold_out_fold=2"),
                           {"other values of data.hold_out_fold (0, now 2)"});
  place.expect_train_error(with(held_out, "data.max_source_tokens=2"),
                           {"other values of data.max_source_tokens (", ", now 2)"});

  place.train({"training.max_steps=3", "output.directory=named"});
  place.write("other.tsv", to_tsv(reversals(20, 99)));
  place.expect_train_error(
      {"output.directory=named", "data.validation_tsv=other.tsv"},
      {"'named' was started with other examples to validate on",
       "data.validation_tsv (\"valid.tsv\", now \"other.tsv\")", "another output.directory"});
  place.expect_train_error({"output.directory=named", "data.tsv=other.tsv"},
                           {"other training examples", "data.tsv (\"train.tsv\", now "});
  // The same examples may lie elsewhere, but not others where they were.
  place.write("moved.tsv", place.read("train.tsv"));
  place.train({"output.directory=named", "training.max_steps=4", "data.tsv=moved.tsv"});
  place.write("valid.tsv", place.read("other.tsv"));
  place.expect_train_error({"output.directory=named", "data.tsv=moved.tsv"},
                           {"other examples to validate on: its files hold something else now"});
}

TEST(Train, SaysThatAFinishedRunHasNothingLeft) {
  const Workplace place;
  const auto train = [&](const std::string& steps) {
    return place.sluice({"train", "task.toml", "--set", "training.max_steps=" + steps}).err;
  };
  const std::string said = "nothing is left to train: the run reached";
  EXPECT_EQ(train("3").find(said), std::string::npos);
  const std::string again = train("3");
  EXPECT_NE(again.find(said), std::string::npos) << again;
  EXPECT_NE(again.find("max_steps = 3"), std::string::npos) << again;
  EXPECT_EQ(train("5").find(said), std::string::npos);
}

TEST(Train, SaysThatPatienceEndedARun) {
  const Workplace place;
  const auto train = [&] {
    return place
        .sluice({"train", "task.toml", "--set", "training.learning_rate=0", "--set",
                 "training.validate_every=1", "--set", "training.patience=2"})
        .err;
  };
  const std::string said = "loss has been no better in 2 validations (training.patience)";
  const std::string first = train();
  EXPECT_NE(first.find("stopped early: " + said), std::string::npos) << first;
  const std::string again = train();
  EXPECT_NE(again.find("nothing is left to train: " + said), std::string::npos) << again;
}

TEST(Train, SaysThatAModelIsTooLarge) {
  const Workplace place;
  place.expect_train_error(
      {"model.hidden=20000"},
      {"parameters and their gradients don't fit: out of memory: ", "; take a smaller model"},
      {.largest_memory = rlim_t{4} << 30});
}

TEST(Train, FreshRefusesToOverwrite) {
  const Workplace place;
  place.train({"training.max_steps=3"});
  const std::string weights = place.read("run/last/model.safetensors");
  place.expect_error({"train", "task.toml", "--quiet", "--fresh"}, {"'run' holds a checkpoint"});
  EXPECT_EQ(place.read("run/last/model.safetensors"), weights);
}

TEST(Demo, SaysThatItTrainsAnew) {
  const Workplace place;
  place.train({"training.max_steps=1", "output.directory=demo"});
  place.expect_error({"demo", "--directory", "demo"},
                     {"'demo' holds a model that no demonstration"});
  place.write("demo/made_by_sluice_demo", "");
  Running running(place.path(), {"demo", "--directory", "demo"});
  while (std::filesystem::exists(place / "demo/best")) ::usleep(5000);
  running.send(SIGKILL);
  const Outcome outcome = running.wait();
  EXPECT_EQ(outcome.out.find("'demo' holds the model of an earlier demonstration, which makes way"),
            0U)
      << outcome.out;
}

}  // namespace
}  // namespace sluice::end_to_end
