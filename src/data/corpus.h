#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/watch.h"
#include "data/bad_line.h"
#include "data/examples.h"
#include "data/line_reader.h"
#include "data/tokenizer.h"

namespace sluice::data {

/// One example as text.
struct TextPair {
  std::string source;
  std::string target;
};

/// Throws ErrorCode::kFormat if a file has no line (or whatever else is counted).
void require_lines(std::int64_t count, const std::filesystem::path& path);

/// The next line `source TAB target`; nothing at the end. Errors as read_tsv_pairs().
std::optional<TextPair> next_tsv_pair(LineReader& reader);

/// Lines `source TAB target` of a plain or gzip file. Throws ErrorCode::kFormat with file and line
/// if a line does not have exactly two columns or if the file has no line, and as LineReader. With
/// `on_bad` lines that are refused are left out, and there may be none left.
std::vector<TextPair> read_tsv_pairs(const std::filesystem::path& path,
                                     const OnBadLine& on_bad = {});

/// Line i of one file with line i of the other. Throws ErrorCode::kFormat with both counts if the
/// files differ in length or are empty, and as LineReader.
std::vector<TextPair> read_aligned_pairs(const std::filesystem::path& source_path,
                                         const std::filesystem::path& target_path);

/// Examples as ids, without bos and eos; source[i] belongs to target[i].
struct PairCorpus final : Examples {
  PairCorpus() = default;
  PairCorpus(std::vector<std::vector<std::int32_t>> source_in,
             std::vector<std::vector<std::int32_t>> target_in)
      : source(std::move(source_in)), target(std::move(target_in)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(source.size()); }
  std::vector<ExampleLengths> lengths() const override;
  Batch assemble(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;

  std::vector<std::vector<std::int32_t>> source;
  std::vector<std::vector<std::int32_t>> target;
};

/// Longest examples to keep, in tokens without bos and eos; 0 is no limit.
struct LengthLimits {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

/// What became of the examples read.
struct CorpusReport {
  std::int64_t kept = 0;
  std::int64_t too_long = 0;  ///< dropped: source or target above its limit
  std::int64_t empty = 0;     ///< dropped: source or target without any token
  std::int64_t source_tokens = 0;
  std::int64_t target_tokens = 0;
  std::int64_t source_unknown = 0;  ///< of the tokens kept
  std::int64_t target_unknown = 0;
  std::vector<std::int64_t> left_out;  ///< indices of what was dropped, ascending
};

/// Whether an example of these ids is kept; counts what becomes of it, but for `left_out`.
bool count_pair(std::span<const std::int32_t> source, std::span<const std::int32_t> target,
                const LengthLimits& limits, CorpusReport& report);

/// PairCorpus::fingerprint() of so many examples, example by example.
std::uint64_t begin_fingerprint(std::int64_t examples);
std::uint64_t absorb_pair(std::uint64_t hash, std::span<const std::int32_t> source,
                          std::span<const std::int32_t> target);

/// Tokenizes `pairs`, which `name` calls in errors. Throws ErrorCode::kInvalidArgument if no
/// example is left, saying how many were dropped and why. `watch` is told how it gets on.
PairCorpus make_corpus(std::span<const TextPair> pairs, const Tokenizer& source_tokenizer,
                       const Tokenizer& target_tokenizer, const LengthLimits& limits,
                       std::string_view name, CorpusReport* report = nullptr,
                       const base::Watch& watch = {});

/// Indices of [0, count) in two parts, both in ascending order.
struct IndexSplit {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> held_out;
};

/// Refuses what split_by_runs() refuses.
void require_split(std::int64_t count, std::int64_t run, std::int64_t every, std::int64_t which);
/// Whether split_by_runs() holds out this index, however many there are.
bool is_held_out(std::int64_t index, std::int64_t run, std::int64_t every, std::int64_t which);

/// Cuts [0, count) into runs of `run` consecutive indices (the last may be shorter) and holds out
/// one of every `every` of them: the `which`-th, counted from 1; 0 is the last of them. Those of
/// all `which` together are everything, each index once. For files whose neighbouring lines share
/// text, where single held-out lines would have their context in the training part. Throws
/// ErrorCode::kInvalidArgument if there are fewer runs than `every`: a part might be empty.
IndexSplit split_by_runs(std::int64_t count, std::int64_t run, std::int64_t every,
                         std::int64_t which);

/// The items at `indices`, in their order.
template <typename T>
std::vector<T> select(std::span<const T> items, std::span<const std::int64_t> indices) {
  std::vector<T> chosen;
  chosen.reserve(indices.size());
  for (const std::int64_t index : indices) {
    chosen.push_back(items[static_cast<std::size_t>(index)]);
  }
  return chosen;
}

}  // namespace sluice::data
