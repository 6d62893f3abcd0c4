#include <fcntl.h>
#include <unistd.h>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

/// Configurations and data that are refused before anything is written.
class BadInput : public ::testing::Test {
 protected:
  void SetUp() override { place_.write("in.txt", "a b\n"); }

  /// Training with `overrides` fails and leaves no new file.
  void refuse(const std::vector<std::string>& overrides, const std::vector<std::string>& said) {
    const std::vector<std::string> before = place_.files();
    place_.expect_train_error(overrides, said);
    EXPECT_EQ(place_.files(), before);
  }

  Workplace place_;
};

TEST_F(BadInput, Configuration) {
  refuse({"training.lerning_rate=1"}, {"training.lerning_rate", "did you mean"});
  refuse({"training.max_epochs=many"}, {"training.max_epochs must be of type integer"});
  refuse({"machine.device=tpu"}, {"unknown device 'tpu'"});
  refuse({"machine.device=cuda:99"}, {"device cuda:99 is not available"});
  refuse({"data.tsv="}, {"no examples to train on", "data.tsv"});
  const std::string task = place_.read("task.toml");
  place_.write("task.toml", task + "log_evry = 3\n");
  refuse({}, {"'task.toml', line 18", "output.log_evry", "did you mean 'output.log_every'"});
  place_.write("task.toml", task + "log_every = \"3\"\n");
  refuse({}, {"'task.toml', line 18", "output.log_every must be of type integer"});
  place_.write("task.toml", task + "log_every = \n");
  refuse({}, {"'task.toml', line 18"});
  place_.expect_error({"train", "none.toml", "--quiet"}, {"none.toml"});
}

TEST_F(BadInput, Data) {
  refuse({"data.tsv=none.tsv"}, {"there is no file 'none.tsv'"});
  refuse({"data.tsv=."}, {"'.' is a directory"});
  place_.write("bad.tsv", "a\tb\na b c\n");
  refuse({"data.tsv=bad.tsv"}, {"'bad.tsv' line 2 has 1 column;"});
  place_.write("bad.tsv", "a\tb\na\tb\tc\n");
  refuse({"data.tsv=bad.tsv"}, {"'bad.tsv' line 2 has 3 columns"});
  place_.write("bad.tsv", "a\tb\na\tb\nc\t\xff\xfe\n");
  refuse({"data.tsv=bad.tsv"}, {"'bad.tsv' line 3 is not valid UTF-8"});
  place_.write("bad.tsv", "");
  refuse({"data.tsv=bad.tsv"}, {"'bad.tsv' is empty"});
  refuse({"data.validation_tsv=bad.tsv"}, {"'bad.tsv' is empty"});
  refuse({"data.tsv=bad.tsv", "data.stream=true"}, {"'bad.tsv' is empty"});
  place_.write("bad.tsv", "\t\n \t \n");
  refuse({"data.tsv=bad.tsv"}, {});
  refuse(
      {"data.validation_tsv=bad.tsv"},
      {"none of the validation examples is left: of 2, 0 were too long and 2 had an empty side"});
  place_.write("bad.tsv", "\x1f\x8b\x08");
  refuse({"data.tsv=bad.tsv"}, {"bad.tsv"});
  place_.write("two", "a\nb\n");
  place_.write("three", "a\nb\nc\n");
  refuse({"data.tsv=", "data.source=two", "data.target=three"},
         {"'two' has 2 lines", "'three' has 3"});
  refuse({"data.tsv=", "data.source=two"}, {"data.source and data.target"});
}

TEST_F(BadInput, WordVectors) {
  const std::string key = "model.source_embeddings_from=";
  refuse({key + "none"}, {"there is no file 'none'"});
  refuse({key + "."}, {"'.' is a directory"});
  place_.write("vectors", "9999999999999999 16\na 1\n");
  refuse({key + "vectors"}, {"'vectors' line 2: 1 numbers follow the word"});
  place_.write("vectors", "1 99999999999999\na 1\n");
  refuse({key + "vectors"}, {"'vectors' line 1: vectors have 99999999999999 numbers"});
  place_.write("vectors", "a 1 nan\n");
  refuse({key + "vectors", "model.embedding=2"}, {"'vectors' line 1: 'nan' is no finite number"});
  place_.write("vectors", "a 1 2\na 1 2\n");
  refuse({key + "vectors", "model.embedding=2"}, {"line 2: the word 'a' stands in line 1 already"});
}

TEST_F(BadInput, EmbeddingsToTie) {
  refuse({"model.tie_embeddings=both"}, {"model.tie_embeddings is 'both'"});
  refuse({"model.tie_embeddings=all"}, {"set tokenizer.shared"});
  refuse({"model.tie_embeddings=decoder", "model.hidden=32"},
         {"model.embedding must be model.hidden, but they are 16 and 32"});
}

TEST_F(BadInput, ParametersToFreeze) {
  refuse({"training.freeze=encoder.*,"}, {"training.freeze is 'encoder.*,'", "empty pattern"});
  refuse({"training.freeze=encodr.*"}, {"'encodr.*' of training.freeze matches no parameter"});
  refuse({"training.freeze=*"}, {"training.freeze is '*', which leaves nothing to train"});
}

TEST_F(BadInput, CheckpointsToStartFrom) {
  place_.train({"training.max_steps=1", "output.directory=base"});
  refuse({"training.init_from=none"}, {"none"});
  refuse({"training.init_from=in.txt"}, {"in.txt"});
  refuse({"training.init_only=encoder.*"}, {"training.init_from names no checkpoint"});
  const std::vector<std::string> start{"train", "task.toml", "--quiet", "--init-from", "base/best"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> arguments = start;
    arguments.insert(arguments.end(), more);
    return arguments;
  };
  place_.expect_error(with({"--only", "encodr.*"}),
                      {"'encodr.*' of training.init_only matches no parameter", "encoder.bias_hh"});
  place_.expect_error(with({"--set", "model.hidden=18"}), {"does not fit", "output.bias"});
  // A run that is there already was started with something else.
  place_.train({"training.max_steps=1"});
  place_.expect_error(with({}), {"training.init_from (\"\", now \"base/best\")"});
}

TEST_F(BadInput, OutputThatCannotBeMade) {
  refuse({"output.directory=in.txt/run"}, {"in.txt/run"});
  refuse({"output.directory=in.txt"}, {"in.txt"});
}

TEST_F(BadInput, TextToDecodeOrScore) {
  place_.train();
  const std::vector<std::string> before = place_.files();
  place_.write("bad.txt", "a\nb\n\xc3(\n");
  place_.expect_error({"decode", "run/best", "bad.txt", "-o", "out"},
                      {"'bad.txt' line 3 is not valid UTF-8"});
  place_.expect_error({"decode", "run/best", "-o", "out"},
                      {"standard input line 1 is not valid UTF-8"}, {.input = "\xff\n"});
  place_.expect_error({"chat", "run/best"}, {"not valid UTF-8"}, {.input = "\xff\n"});
  place_.expect_error({"decode", "run/best", "none.txt"}, {"there is no file 'none.txt'"});
  place_.expect_error({"decode", "run/best", "in.txt", "-o", "none/out"}, {"none/out"});
  place_.expect_error({"decode", "run/best", "in.txt", "--beam", "0"}, {"beam"});
  place_.expect_error({"decode", "run/best", "in.txt", "--nbest", "9"}, {"nbest"});
  place_.expect_error({"decode", "run/best", "--attention", "out.svg"}, {"--attention"});
  place_.expect_error({"score", "run/best", "bad.txt"}, {"'bad.txt' line 1 has 1 column;"});
  place_.expect_error({"score", "run/best", "-"}, {"standard input line 1 has 1 column;"},
                      {.input = "a\n"});
  place_.expect_error({"score", "run/best", "in.txt", "bad.txt"}, {"bad.txt"});
  place_.write("empty", "");
  place_.expect_error({"score", "run/best", "empty"}, {"'empty' is empty"});
  for (const char* name : {"bad.txt", "empty"}) std::filesystem::remove(place_ / name);
  EXPECT_EQ(place_.files(), before);
}

TEST_F(BadInput, StandardOutputThatIsFull) {
  place_.train({"training.max_steps=2"});
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"decode", "run/best", "in.txt", "--max-length", "5"},
                                             {"score", "run/best", "valid.tsv"},
                                             {"info", "run/best"},
                                             {"train", "--example"}}) {
    place_.expect_error(arguments, {"cannot write to standard output"},
                        {.output_descriptor = full});
  }
  close(full);
}

// An absurd learning rate: the run stops, and what was good stays.
TEST_F(BadInput, DivergenceLeavesNoModel) {
  for (const char* rate : {"3e38", "1e30", "1e9"}) {  // their losses are finite for long
    place_.expect_train_error({"training.optimizer=sgd", "training.clip_norm=0",
                               std::string("training.learning_rate=") + rate},
                              {"training diverged at step", "lower training.learning_rate"});
    EXPECT_FALSE(std::filesystem::exists(place_ / "run/last")) << rate;
    EXPECT_FALSE(std::filesystem::exists(place_ / "run/best")) << rate;
  }
}

TEST_F(BadInput, FullDiskKeepsThePreviousCheckpoint) {
  place_.train({"training.max_steps=5"});
  const std::string model = place_.read("run/last/model.safetensors");
  const std::string state = place_.read("run/last/training_state.safetensors");
  const Setting full{.largest_file = 8192};
  ASSERT_GT(model.size(), *full.largest_file);
  place_.expect_train_error({"training.max_steps=9"}, {"run", "File too large"}, full);
  EXPECT_TRUE(place_.read("run/last/model.safetensors") == model);
  EXPECT_TRUE(place_.read("run/last/training_state.safetensors") == state);
  for (const std::string& name : place_.files()) {
    EXPECT_EQ(name.find(".sluice-"), std::string::npos) << name << " was left behind";
  }
  // What was written before stays when its successor doesn't fit.
  place_.write("out", "before\n");
  std::string input;
  for (int i = 0; i < 50; ++i) input += "a b c d e f\n";
  place_.expect_error({"decode", "run/best", "-o", "out", "--min-length", "6", "--max-length", "9"},
                      {"out"}, {.input = input, .largest_file = 200});
  EXPECT_EQ(place_.read("out"), "before\n");
  place_.train({"training.max_steps=9"});
}

// The model that isn't there shows that nothing was done before.
TEST(Outputs, AreLookedAtBeforeTheWork) {
  const Workplace place;
  place.write("file", "kept");
  std::filesystem::create_directory(place / "folder");
  const std::vector<std::vector<std::string>> outputs{
      {"tag", "-o"},      {"tag", "--save-state"},      {"classify", "-o"},
      {"generate", "-o"}, {"classify", "--save-state"}, {"generate", "--save-state"},
      {"decode", "-o"},   {"decode", "--attention"},    {"report", "--html"},
  };
  for (const std::vector<std::string>& output : outputs) {
    SCOPED_TRACE(output[0] + " " + output[1]);
    place.expect_error({output[0], "nomodel", output[1], "nodir/x"},
                       {"cannot write 'nodir/x': there is no folder 'nodir'"});
    place.expect_error({output[0], "nomodel", output[1], "folder"},
                       {"cannot write 'folder': it is there and is no regular file"});
    place.expect_error({output[0], "nomodel", output[1], "file"}, {"'nomodel'"});
    place.expect_error({output[0], "nomodel", output[1], "/dev/null"}, {"'nomodel'"});
  }
  place.expect_error({"run", "nomodel", "in.npy", "out.npy", "--save-state", "nodir/x"},
                     {"cannot write 'nodir/x'"});
  EXPECT_EQ(place.read("file"), "kept");
  EXPECT_FALSE(std::filesystem::exists(place / "nodir"));
}

}  // namespace
}  // namespace sluice::end_to_end
