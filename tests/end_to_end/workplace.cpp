#include "end_to_end/workplace.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

namespace sluice::end_to_end {
namespace {

constexpr const char* kTask = R"([data]
tsv = "train.tsv"
validation_tsv = "valid.tsv"

[tokenizer]
kind = "words"

[model]
embedding = 16
hidden = 16

[training]
max_tokens = 300
max_epochs = 2

[output]
directory = "run"
)";

constexpr const char* kTexts = R"([data]
text = "squares.txt"
hold_out_run = 5
hold_out_every = 4

[tokenizer]
kind = "characters"

[model]
kind = "language_model"
embedding = 8
hidden = 16

[training]
learning_rate = 0.02
max_tokens = 200
max_epochs = 0
max_steps = 60
validate_every = 20

[output]
directory = "text"
)";

}  // namespace

std::vector<std::pair<std::string, std::string>> reversals(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < count; ++i) {
    std::string letters;
    for (unsigned n = 1 + random() % 6; n > 0; --n) {
      if (!letters.empty()) letters += ' ';
      letters += static_cast<char>('a' + random() % 8);
    }
    pairs.emplace_back(letters, std::string(letters.rbegin(), letters.rend()));
  }
  return pairs;
}

std::string to_tsv(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string text;
  for (const auto& [source, target] : pairs) text += source + '\t' + target + '\n';
  return text;
}

std::vector<std::string> train_arguments(const std::vector<std::string>& overrides,
                                         const std::string& task) {
  std::vector<std::string> arguments{"train", task, "--quiet"};
  for (const std::string& assignment : overrides) {
    arguments.push_back("--set");
    arguments.push_back(assignment);
  }
  return arguments;
}

std::string with_answer(const std::string& state, const std::vector<float>& numbers) {
  std::uint64_t length = 0;
  std::memcpy(&length, state.data(), sizeof length);
  auto header = nlohmann::json::parse(state.substr(sizeof length, length));
  const std::string old = state.substr(sizeof length + length);
  std::string data;
  for (auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
    std::string bytes = old.substr(begin, end - begin);
    if (name == "answer") {
      bytes.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
      entry["shape"] = {numbers.size()};
    }
    entry["data_offsets"] = {data.size(), data.size() + bytes.size()};
    data += bytes;
  }
  auto& stream = header.at("__metadata__").at("stream");
  auto description = nlohmann::json::parse(stream.get<std::string>());
  description["answers"] = numbers.size();
  stream = description.dump();
  const std::string text = header.dump();
  length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Workplace::Workplace() {
  write("train.tsv", to_tsv(reversals(300, 1)));
  write("valid.tsv", to_tsv(reversals(40, 2)));
  write("task.toml", kTask);
}

void Workplace::expect_streams(const std::string& task,
                               const std::vector<std::string>& overrides) const {
  const auto train_into = [&](const std::string& run, const std::string& epochs, bool stream) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), {"training.max_epochs=" + epochs, "output.directory=" + run,
                           stream ? "data.stream=true" : "data.stream=false"});
    train(all, task);
  };
  train_into("memory", "3", false);
  train_into("whole", "3", true);
  train_into("parts", "1", true);
  train_into("parts", "2", false);
  train_into("parts", "3", true);
  const auto state_of = [&](const std::string& run) {
    return read(run + "/last/training_state.safetensors");
  };
  EXPECT_TRUE(state_of("whole") == state_of("memory"));
  EXPECT_TRUE(state_of("parts") == state_of("whole"));
  EXPECT_TRUE(std::filesystem::exists(*this / "whole/prepared/train.ids"));
  EXPECT_FALSE(std::filesystem::exists(*this / "memory/prepared"));
  const Outcome report = sluice({"report", "whole"});
  EXPECT_EQ(report.code, 0) << report.err;
}

void Workplace::write_texts() const {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += std::to_string(i * i) + " is a square\n";
  write("squares.txt", lines);
  write("texts.toml", kTexts);
}

void Workplace::train_texts(const std::vector<std::string>& overrides) const {
  write_texts();
  train(overrides, "texts.toml");
}

void Workplace::train(const std::vector<std::string>& overrides, const std::string& task) const {
  const Outcome outcome = sluice(train_arguments(overrides, task));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
}

void Workplace::expect_train_error(const std::vector<std::string>& overrides,
                                   const std::vector<std::string>& said,
                                   const Setting& setting) const {
  expect_error(train_arguments(overrides), said, setting);
}

std::vector<std::string> Workplace::lines_of(std::vector<std::string> arguments,
                                             const std::vector<std::string>& options) const {
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome outcome = sluice(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return split(outcome.out, '\n');
}

void Workplace::expect_error(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& said, const Setting& setting) const {
  const Outcome outcome = sluice(arguments, setting);
  EXPECT_EQ(outcome.code, 1) << "signal " << outcome.signal;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("sluice: error: ")) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const std::string& part : said) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << " lacks " << part;
  }
}

std::string Workplace::read(const std::string& name) const {
  std::ifstream stream(folder_ / name, std::ios::binary);
  if (!stream) ADD_FAILURE() << "there is no " << name;
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> Workplace::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    names.push_back(entry.path().lexically_relative(folder_.path()).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sluice::end_to_end
