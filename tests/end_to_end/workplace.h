#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "end_to_end/program.h"
#include "unit/support/temporary_folder.h"

namespace sluice::end_to_end {

/// A folder with a small task: train.tsv and valid.tsv (letters, and the same letters backwards)
/// and task.toml, which trains a tiny model on them into run/.
class Workplace {
 public:
  Workplace();

  /// `sluice arguments...` in the folder.
  Outcome sluice(const std::vector<std::string>& arguments, const Setting& setting = {}) const {
    return run(folder_.path(), arguments, setting);
  }
  /// The lines that `sluice arguments... options...` prints, without errors and warnings.
  std::vector<std::string> lines_of(std::vector<std::string> arguments,
                                    const std::vector<std::string>& options) const;
  /// `sluice train task.toml --quiet`, with --set before each of `overrides`; must succeed.
  void train(const std::vector<std::string>& overrides = {},
             const std::string& task = "task.toml") const;
  /// With data.stream training ends with the bits that it ends with in memory, in one go and in
  /// parts, one of them without. `task` with `overrides` trains at least three epochs.
  void expect_streams(const std::string& task = "task.toml",
                      const std::vector<std::string>& overrides = {}) const;
  /// squares.txt, lines such as "49 is a square", and texts.toml, which trains a tiny language
  /// model of their characters into text/.
  void write_texts() const;
  /// Writes and trains it.
  void train_texts(const std::vector<std::string>& overrides = {}) const;
  /// The same as `train`, which must fail; see expect_error.
  void expect_train_error(const std::vector<std::string>& overrides,
                          const std::vector<std::string>& said, const Setting& setting = {}) const;
  /// The command must exit with 1, print nothing and say one line on standard error that begins
  /// with `sluice: error: ` and holds each of `said`.
  void expect_error(const std::vector<std::string>& arguments, const std::vector<std::string>& said,
                    const Setting& setting = {}) const;

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& path() const { return folder_.path(); }
  void write(const std::string& name, std::string_view bytes) const { folder_.write(name, bytes); }
  std::string read(const std::string& name) const;
  /// Every file below the folder, sorted.
  std::vector<std::string> files() const;

 private:
  sluice::testing::TemporaryFolder folder_;
};

/// `count` pairs of the task, different for each seed.
std::vector<std::pair<std::string, std::string>> reversals(int count, unsigned seed);
std::string to_tsv(const std::vector<std::pair<std::string, std::string>>& pairs);

std::vector<std::string> train_arguments(const std::vector<std::string>& overrides,
                                         const std::string& task = "task.toml");
/// The file of a sequence's state with other numbers for its answer.
std::string with_answer(const std::string& state, const std::vector<float>& numbers);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace sluice::end_to_end
