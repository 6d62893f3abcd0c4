#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "end_to_end/workplace.h"
#include "unit/support/npy_file.h"
#include "unit/support/source_path.h"
#include "unit/support/zip_file.h"

/// The commands of docs/examples.md, on a few made-up examples, with small models and no GPU.
namespace sluice::end_to_end {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = testing::source_path("");

/// What makes a configuration's training short.
const std::map<std::string, std::string> kSmall{
    {"ner_wnut17", " --set model.embedding=8 --set model.hidden=16 --set training.max_epochs=2"},
    {"smiles",
     " --set model.embedding=8 --set model.hidden=16 --set training.max_epochs=2"
     " --set training.decay_steps=300"},
    {"vowels",
     " --set model.hidden=8 --set 'model.projections=4 4 6 6' --set training.max_epochs=2"
     " --set training.max_tokens=60"},
    {"zh_chat",
     " --set model.embedding=8 --set model.hidden=16 --set training.max_epochs=2"
     " --set data.hold_out_run=5 --set data.hold_out_every=4"},
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

/// A command of the page as the test runs it.
std::string shrunk(std::string command, bool jieba) {
  command = replaced(command, "device=cuda", "device=cpu");
  command = replaced(command, "--device cuda", "--device cpu");
  command = replaced(command, " --set machine.precision=bfloat16", "");
  command = replaced(command, " --precision bfloat16", "");
  command = replaced(command, "--samples 10000", "--samples 20");
  if (command.find("sluice quantize ") != std::string::npos) command += " --metric loss";
  if (command.find("bench ladder") != std::string::npos) command += " --shapes ladder.shapes";
  for (const auto& [name, small] : kSmall) {
    if (command.starts_with("sluice train examples/" + name)) command += small;
  }
  if (!jieba && command.find("zh_chat_words") != std::string::npos) {
    // A character a word.
    const std::string segmenter = R"("sed -u 's/./& /g'")";
    if (command.starts_with("sluice train ")) {
      command += " --set data.source_segmenter=" + segmenter;
      command += " --set data.target_segmenter=" + segmenter;
    }
  }
  return command;
}

/// Lines of the page's indented blocks that are commands.
std::vector<std::string> commands() {
  std::ifstream file(kSource / "docs/examples.md");
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("    ")) continue;
    if (line.find("sluice ") != std::string::npos || line.find("python3 ") != std::string::npos) {
      found.push_back(line.substr(4));
    }
  }
  return found;
}

/// The module of Python that a command's script needs beside Python's own.
std::optional<std::string> module_of(const std::string& command) {
  if (command.find("vowels.py") != std::string::npos) return "numpy";
  if (command.find("check_molecules.py") != std::string::npos) return "rdkit";
  return std::nullopt;
}

class Examples : public ::testing::Test {
 protected:
  Examples() {
    fs::copy(kSource / "examples", place_ / "examples", fs::copy_options::recursive);
    for (const char* folder :
         {"data/ner_wnut17", "data/smiles", "data/vowels", "data/zh_chat", "bench/shapes"}) {
      fs::create_directories(place_ / folder);
    }
    write_sentences();
    write_molecules();
    write_vowels();
    write_chat();
    place_.write("bench/shapes/named.shapes",
                 "tiny cell=lstm time=4 batch=2 input=8 hidden=16 layers=4 projection=4,4,6,6 "
                 "pass=forward\n");
    place_.write("ladder.shapes", "tiny cell=lstm time=4 batch=2 input=8 hidden=8 layers=2\n");
  }

  void write_sentences() const {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      const std::string name(1, static_cast<char>('A' + i % 7));
      text += "in\tO\n" + name + "town\tB-location\n\nhi\tO\n" + name + "my\tB-person\n\t\n";
    }
    for (const char* file : {"train.conll.gz", "dev.conll", "test.conll"}) {
      place_.write("data/ner_wnut17/" + std::string(file), text);
    }
  }

  void write_molecules() const {
    std::string text;
    for (int i = 0; i < 80; ++i) text += std::string(1 + i % 5, 'C') + (i % 2 ? "O\n" : "N\n");
    place_.write("data/smiles/chembl_validation.smi.gz", text);
  }

  void write_chat() const {
    std::string text;
    for (int i = 0; i < 60; ++i) text += i % 3 ? "你好\t你好吗\n" : "谢谢你\t不客气\n";
    place_.write("data/zh_chat/pairs.tsv.gz", text);
    fs::create_directory(place_ / "runs");
    place_.write("runs/questions.txt", "你好\n谢谢\n");
  }

  /// As arrays, for where there is no NumPy, and as the files that the page converts.
  void write_vowels() const {
    std::vector<sluice::testing::ZipMember> frames, targets;
    std::string lines = "@data\n";
    for (int i = 0; i < 12; ++i) {
      const int time = 5 + i % 3, speaker = i % 2;
      std::vector<float> numbers;
      for (int k = 0; k < 12 * time; ++k) numbers.push_back(static_cast<float>(k % 5 + speaker));
      const std::string name = "utterance" + std::string(i < 10 ? "00" : "0") + std::to_string(i);
      frames.push_back({name + ".npy", sluice::testing::npy_file({time, 12}, numbers)});
      const std::vector<std::int32_t> own(static_cast<std::size_t>(time), speaker);
      targets.push_back({name + ".npy", sluice::testing::npy_file({time}, own)});
      for (int column = 0; column < 12; ++column) {
        for (int t = 0; t < time; ++t) {
          lines += (t > 0 ? "," : "") +
                   std::to_string(numbers[static_cast<std::size_t>(12 * t + column)]);
        }
        lines += ":";
      }
      lines += std::to_string(speaker + 1) + "\n";
    }
    for (const char* part : {"train", "test"}) {
      const std::string prefix = "data/vowels/" + std::string(part);
      place_.write(prefix + ".npz", sluice::testing::zip_file(frames));
      place_.write(prefix + "_targets.npz", sluice::testing::zip_file(targets));
    }
    place_.write("JapaneseVowels_TRAIN.ts", lines);
    place_.write("JapaneseVowels_TEST.ts", lines);
  }

  bool has(const std::string& module) const {
    return run_in_shell(place_.path(), "python3 -c 'import " + module + "' 2>/dev/null").code == 0;
  }

  Workplace place_;
};

TEST_F(Examples, HaveCommandsThatRun) {
  const bool jieba = has("jieba");
  std::size_t ran = 0;
  for (const std::string& command : commands()) {
    if (module_of(command)) continue;
    const std::string own = shrunk(command, jieba);
    const Outcome outcome = run_in_shell(place_.path(), own);
    EXPECT_EQ(outcome.code, 0) << own << '\n' << outcome.err;
    ++ran;
  }
  EXPECT_GE(ran, 13U);
  EXPECT_TRUE(fs::exists(place_ / "runs/ner_wnut17/int8/model.safetensors"));
  EXPECT_EQ(split(place_.read("runs/smiles/samples.smi"), '\n').size(), 20U);
  EXPECT_TRUE(fs::exists(place_ / "runs/vowels/answers/utterance000.npy"));
  EXPECT_EQ(split(place_.read("runs/zh_chat_words/answers.txt"), '\n').size(), 2U);
}

/// Commands of scripts that need a module of Python, with those of the same example between them.
class ExampleScripts : public Examples, public ::testing::WithParamInterface<const char*> {};

TEST_P(ExampleScripts, Run) {
  if (!has(GetParam())) GTEST_SKIP() << "python3 has no " << GetParam();
  fs::create_directories(place_ / "runs/smiles");
  place_.write("runs/smiles/samples.smi", "CCO\nCN\nCCO\n");
  const std::string example = GetParam() == std::string("numpy") ? "vowels" : "check_molecules";
  std::size_t ran = 0;
  for (const std::string& command : commands()) {
    if (command.find(example) == std::string::npos) continue;
    const std::string own = shrunk(command, false);
    const Outcome outcome = run_in_shell(place_.path(), own);
    EXPECT_EQ(outcome.code, 0) << own << '\n' << outcome.err;
    ran += module_of(command) == GetParam() ? 1 : 0;
  }
  EXPECT_GE(ran, 1U);
}

INSTANTIATE_TEST_SUITE_P(, ExampleScripts, ::testing::Values("numpy", "rdkit"),
                         [](const auto& module) { return std::string(module.param); });

// jieba itself, where it is installed: what is said in a chat is cut up as training was.
TEST_F(Examples, ChatsInWordsOfJieba) {
  if (!has("jieba")) GTEST_SKIP() << "python3 has no jieba";
  const Outcome trained =
      run_in_shell(place_.path(), shrunk("sluice train examples/zh_chat_words.toml --quiet", true));
  ASSERT_EQ(trained.code, 0) << trained.err;
  place_.write("pair.tsv", "谢谢你\t不客气\n");
  const Outcome answer =
      place_.sluice({"score", "runs/zh_chat_words/best", "pair.tsv", "--trust-segmenter"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  // 不 and 客气, as jieba has it, and the end.
  EXPECT_EQ(split(split(answer.out, '\n').at(0), '\t').back(), "3") << answer.out;
}

}  // namespace
}  // namespace sluice::end_to_end
