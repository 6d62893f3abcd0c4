#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "end_to_end/workplace.h"
#include "unit/support/npy_file.h"
#include "unit/support/source_path.h"

/// Commands that documents show run as they stand.
namespace sluice::end_to_end {
namespace {

std::string document(const std::string& name) {
  std::ifstream file(testing::source_path("docs/" + name));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The lines of a document's indented blocks that run the program, which may be called by its path.
std::vector<std::string> commands_of(const std::string& name) {
  std::vector<std::string> commands;
  for (const std::string& line : split(document(name), '\n')) {
    if (line.starts_with("    ") && line.find("sluice ") != std::string::npos) {
      const std::string path = "    build/";
      commands.push_back(line.substr(line.starts_with(path) ? path.size() : 4));
    }
  }
  return commands;
}

/// Runs them one after the other, each with the options of `more` whose key it holds: what makes it
/// small, or what the text around it tells people to set.
void expect_to_run(const Workplace& place, const std::vector<std::string>& commands,
                   const std::map<std::string, std::string>& more = {}) {
  for (std::string command : commands) {
    for (const auto& [part, options] : more) {
      const std::size_t at = command.find(part);
      if (at != std::string::npos) command.insert(at + part.size(), options);
    }
    const Outcome outcome = run_in_shell(place.path(), command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.err;
  }
}

/// The lines of a document's blocks of code in a language, without its fences.
std::string block_of(const std::string& name, const std::string& language) {
  const std::string text = document(name), fence = "```" + language + "\n";
  const std::size_t begin = text.find(fence) + fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

/// Event files with more in them than their beginning.
int event_files(const std::filesystem::path& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const bool is_one = entry.path().filename().string().starts_with("events.out.tfevents.");
    if (is_one && entry.file_size() > 1000) ++count;
  }
  return count;
}

// As the guide says: one after the other, in an empty folder.
TEST(DocumentedCommands, OfTheGuideRun) {
  const sluice::testing::TemporaryFolder folder;
  folder.write("dates.toml", block_of("guide.md", "toml"));
  std::map<std::string, std::string> printed;
  std::size_t commands = 0;
  for (const std::string& line : split(document("guide.md"), '\n')) {
    if (!line.starts_with("    ")) continue;
    const std::string command = line.substr(4);
    const Outcome outcome = run_in_shell(folder.path(), command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.err;
    printed[command] = outcome.out;
    ++commands;
  }
  EXPECT_GE(commands, 20U);
  // It teaches: the model can do what it was made for.
  EXPECT_EQ(printed.at("echo '7/4/2031' | sluice decode runs/dates/best"), "2031-07-04\n");
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/dates/report.html"));
  // What `tensorboard --logdir runs` shows: each start of a run has its file.
  EXPECT_EQ(event_files(folder / "runs/dates/tensorboard"), 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/dates/tensorboard/projector_config.pbtxt"));
  const auto& begun =
      "sluice train dates.toml --init-from runs/dates/best --only 'encoder.*' "
      "--set output.directory=runs/again --set training.max_epochs=2";
  EXPECT_NE(printed.at(begun).find("finished after step"), std::string::npos);
  EXPECT_EQ(event_files(folder / "runs/again/tensorboard"), 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "attention.svg"));
}

/// Models that take their input in parts, and parts.
void train_streams(const Workplace& place) {
  const std::string common =
      "[tokenizer]\nkind = \"words\"\n[training]\nmax_steps = 2\n[model]\nhidden = 4\n"
      "bidirectional = false\n";
  const std::string words = common + "embedding = 4\n";
  place.write("tags.conll", "mr\tO\nann\tB-per\n\nin\tO\nrome\tB-loc\n");
  place.write("tags.toml", words + R"(kind = "tagger"
output = "softmax"
[data]
conll = "tags.conll"
[output]
directory = "tags")");
  place.write("live.csv", "text,label\na b,x\nc,y\n");
  place.write("live.toml", words + R"(kind = "classifier"
pooling = "last"
[data]
table = "live.csv"
[output]
directory = "live")");
  place.write("tuesday.npy", sluice::testing::npy_file({2, 1}, std::vector<float>{1.0F, 2.0F}));
  place.write("monday.npy", sluice::testing::npy_file({2, 1}, std::vector<float>{3.0F, 5.0F}));
  place.write("sensor.toml", R"([training]
max_steps = 2
[model]
kind = "features"
hidden = 4
bidirectional = false
[data]
features = "monday.npy"
targets = "tuesday.npy"
[output]
directory = "sensor")");
  for (const std::string name : {"tags", "live", "sensor"}) {
    const Outcome trained = place.sluice({"train", name + ".toml", "--quiet"});
    EXPECT_EQ(trained.code, 0) << name << ": " << trained.err;
    // Without examples to validate on there is no best model.
    if (!std::filesystem::exists(place / (name + "/best"))) {
      std::filesystem::copy(place / (name + "/last"), place / (name + "/best"),
                            std::filesystem::copy_options::recursive);
    }
  }
  place.write("begun.txt", "mr\n");
  place.write("more.txt", "ann\nrome\n");
  place.write("said.txt", "a\nb c\n");
}

TEST(DocumentedCommands, OfDecodingRun) {
  const Workplace place;
  place.train();
  place.train_texts();
  place.write("in.txt", "a b c\nd\n");
  place.write("prefixes.txt", "\na b\n");
  train_streams(place);
  const std::vector<std::string> commands = commands_of("decoding.md");
  EXPECT_GE(commands.size(), 10U);
  for (const std::string& command : commands) {
    const Outcome outcome = run_in_shell(place.path(), command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.err;
    EXPECT_EQ(outcome.err, "") << command;
    if (command.starts_with("sluice run")) continue;  // it writes a file
    EXPECT_NE(outcome.out, "") << command;
  }
}

TEST(DocumentedCommands, OfQuantizationRun) {
  const Workplace place;
  place.train();
  place.write("in.txt", "a b c\nd\n");
  const std::vector<std::string> commands = commands_of("quantization.md");
  EXPECT_GE(commands.size(), 4U);
  for (std::string command : commands) {
    // So little trained, a model has no BLEU to lose.
    if (command.find("quantize") != std::string::npos) command += " --metric loss";
    const Outcome outcome = run_in_shell(place.path(), command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.err;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_NE(outcome.out, "") << command;
  }
}

TEST(DocumentedCommands, OfTheReadmeRun) {
  const Workplace place;
  place.train({"output.directory=runs/demo"});
  place.write("input.txt", "a b c\nd\n");
  const std::vector<std::string> commands = commands_of("../README.md");
  EXPECT_GE(commands.size(), 4U);
  expect_to_run(place, commands,
                {{"train runs/model.toml",
                  " --set data.tsv=train.tsv --set data.hold_out_run=1 --set data.hold_out_every=20"
                  " --set tokenizer.kind=characters --set model.embedding=8 --set model.hidden=8"
                  " --set training.max_epochs=1"}});
}

TEST(DocumentedCommands, OfTrainingRun) {
  const Workplace place;
  place.train({"output.directory=runs/base"});
  place.train({"output.directory=runs/model", "training.seed=2"});
  train_streams(place);
  std::filesystem::rename(place / "tags", place / "runs/ner");
  std::filesystem::copy_file(place / "tags.conll", place / "test.conll");
  place.write("waves.toml", block_of("training.md", "toml"));
  for (const char* name : {"waves.npy", "next.npy"}) {
    place.write(name, sluice::testing::npy_file({20, 10, 1}, std::vector<float>(200, 0.5F)));
  }
  const std::vector<std::string> commands = commands_of("training.md");
  EXPECT_GE(commands.size(), 8U);
  // Folds hold out by themselves, and a folder has one beginning.
  expect_to_run(place, commands,
                {{"--folds 5", " --set data.validation_tsv="},
                 {"--only 'source_*'", " --set output.directory=runs/some"}});
  EXPECT_TRUE(std::filesystem::exists(place / "runs/cv/folds.json"));
  EXPECT_TRUE(std::filesystem::exists(place / "runs/mean/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(place / "forecast.npy"));
  EXPECT_TRUE(std::filesystem::exists(place / "runs/some/best/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(place / "runs/model/report.html"));
}

TEST(DocumentedCommands, OfCheckingRun) {
  const Workplace place;
  train_streams(place);
  std::filesystem::create_directories(place / "runs");
  std::filesystem::rename(place / "sensor", place / "runs/sensor");
  place.write("day.npy", sluice::testing::npy_file({20, 1}, std::vector<float>(20, 0.5F)));
  const std::vector<std::string> commands = commands_of("checking.md");
  EXPECT_EQ(commands.size(), 4U);
  expect_to_run(place, commands);
}

TEST(DocumentedCommands, OfDataRun) {
  const Workplace place;
  const std::vector<std::string> commands = commands_of("data.md");
  EXPECT_GE(commands.size(), 3U);
  expect_to_run(place, commands);
}

// In shapes that are small.
TEST(DocumentedCommands, OfProfilingRun) {
  const Workplace place;
  const std::string run = "runs/de";
  place.train({"output.directory=" + run});
  place.write("task.toml",
              "[data]\ntsv = \"train.tsv\"\n[tokenizer]\nkind = \"characters\"\n"
              "[model]\nembedding = 4\nhidden = 4\n[training]\nmax_steps = 105\n"
              "max_tokens = 60\n[output]\ndirectory = \"task\"\n");
  place.write("test.en", "a b c\nd\n");
  std::filesystem::create_directories(place / "bench/shapes");
  place.write("bench/shapes/cpu.shapes", "a cell=lstm time=3 batch=2 input=4 hidden=4\n");
  place.write("bench/shapes/chat.shapes",
              "a batch=2 vocabulary=8 embedding=4 hidden=4 source_time=3 target_time=3\n");
  const std::vector<std::string> commands = commands_of("profiling.md");
  EXPECT_EQ(commands.size(), 5U);
  expect_to_run(place, commands, {{"--trace-steps 100:104", " --set output.directory=other"}});
  for (const char* trace : {"run.json", "decode.json"}) {
    EXPECT_NE(place.read(trace).find("traceEvents"), std::string::npos) << trace;
  }
}

/// What the page's models of texts learn from.
void write_texts(const Workplace& place) {
  std::filesystem::copy(testing::source_path("examples"), place / "examples",
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_directories(place / "data/smiles");
  std::filesystem::create_directories(place / "data/charlm");
  std::string molecules, captions;
  for (int i = 0; i < 80; ++i) {
    molecules += std::string(1 + i % 5, 'C') + (i % 2 ? "O\n" : "N\n");
    captions += i % 2 ? "a dot\n" : "a long line\n";
  }
  place.write("data/smiles/chembl_validation.smi.gz", molecules);
  place.write("data/charlm/tinyshakespeare.txt.gz", molecules);
  place.write("molecules.smi", molecules);
  place.write("captions.txt", captions);
  place.write("dev.txt", captions);
  std::vector<float> vectors;
  for (int i = 0; i < 160; ++i) vectors.push_back(static_cast<float>(i % 4));
  for (const char* name : {"images.npy", "dev.npy"}) {
    place.write(name, sluice::testing::npy_file({80, 2}, vectors));
  }
  vectors.resize(6);
  place.write("new.npy", sluice::testing::npy_file({3, 2}, vectors));
}

TEST(DocumentedCommands, OfLanguageModelsRun) {
  const Workplace place;
  write_texts(place);
  std::string data;
  for (const std::string& line : split(document("language-models.md"), '\n')) {
    if (line.starts_with("    ") && line.find(" = \"") != std::string::npos) {
      data += line.substr(4) + '\n';
    }
  }
  place.write("captions.toml", "[data]\n" + data +
                                   "[tokenizer]\nkind = \"words\"\n[model]\n"
                                   "kind = \"language_model\"\nembedding = 4\nhidden = 8\n"
                                   "[training]\nmax_epochs = 2\n"
                                   "[output]\ndirectory = \"runs/captions\"\n");
  const std::vector<std::string> commands = commands_of("language-models.md");
  EXPECT_GE(commands.size(), 8U);
  const std::string small =
      " --set model.embedding=8 --set model.hidden=16 --set training.max_epochs=2";
  expect_to_run(place, commands,
                {{"examples/smiles.toml", small + " --set training.decay_steps=300"},
                 {"examples/charlm.toml", small + " --set data.hold_out_run=5"
                                                  " --set data.hold_out_every=4"
                                                  " --set training.max_rows=4"}});
}

// Without a GPU those lines that ask for one end with the sentence about that, and no other.
TEST(DocumentedCommands, OfGpusRunElsewhere) {
  const Workplace place;
  place.train({"training.max_steps=2"});
  std::filesystem::copy(place / "run/best", place / "best");
  std::filesystem::create_directories(place / "runs/model");
  std::filesystem::copy(place / "run/best", place / "runs/model/best");
  place.write("input.txt", "a b c\nd\n");
  const bool has_gpu = place.sluice({"decode", "best", "input.txt", "--device", "cuda"}).code == 0;
  int run = 0;
  for (const std::string& command : commands_of("gpu.md")) {
    if (command.starts_with("scp ")) continue;
    const Outcome outcome = run_in_shell(place.path(), command);
    ++run;
    if (has_gpu || command.find("cuda") == std::string::npos) {
      EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.err;
      continue;
    }
    EXPECT_EQ(outcome.code, 1) << command << '\n' << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("sluice: error: device cuda:0 is not available: "))
        << command << '\n'
        << outcome.err;
    EXPECT_EQ(split(outcome.err, '\n').size(), 1U) << outcome.err;
  }
  EXPECT_GE(run, 4);
}

}  // namespace
}  // namespace sluice::end_to_end
