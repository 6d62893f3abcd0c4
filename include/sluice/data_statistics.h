#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/train.h"

namespace sluice {

/// How long texts or sequences are, in tokens or frames.
struct LengthStatistics {
  std::int64_t shortest = 0;
  std::int64_t longest = 0;
  double mean = 0;
  /// {50, n}: half of them have at most n. Of 1, 5, 25, 50, 75, 95 and 99 percent.
  std::vector<std::pair<int, std::int64_t>> percentiles;
  /// {n, how many}: of at most n, but more than the n before; n are powers of two.
  std::vector<std::pair<std::int64_t, std::int64_t>> histogram;
};

/// Source or target of examples of text.
struct SideStatistics {
  std::string name;
  std::int64_t tokens = 0;
  std::optional<std::int64_t> unknown{};  ///< of the tokens; absent without a vocabulary
  LengthStatistics lengths;
};

/// The numbers of a set of arrays. What isn't finite is counted and else left out.
struct ArrayStatistics {
  std::string name;  ///< "features"
  std::int64_t arrays = 0;
  std::int64_t sequences = 0;
  std::int64_t frames = 0;                     ///< of all sequences
  std::map<std::string, std::int64_t> shapes;  ///< "[200, 40]" to how many; of the first thousand
  std::int64_t width = 0;                      ///< numbers of a frame; 0: arrays differ in it
  bool integers = false;
  double least = 0, most = 0, mean = 0, deviation = 0;
  std::int64_t nan = 0, infinite = 0;
  LengthStatistics lengths;
};

struct BadLine {
  std::string file;
  std::int64_t line = 0;  ///< from 1
  std::string reason;
};

/// Examples to train on, or to validate on, or of a file.
struct PartStatistics {
  std::string name;
  std::vector<std::string> files{};
  std::int64_t examples = 0;            ///< that could be read
  std::int64_t empty = 0;               ///< left out: a side has no token
  std::int64_t too_long = 0;            ///< left out: above the limits of the configuration
  std::int64_t over_batch = 0;          ///< alone above training.max_tokens: refused in training
  std::int64_t duplicates = 0;          ///< the same as one before, label and all
  std::int64_t seen = 0;                ///< to validate on: the same as one to train on
  std::vector<SideStatistics> sides{};  ///< of all that could be read
  std::map<std::string, std::int64_t> labels{};  ///< how often each
  std::vector<ArrayStatistics> arrays{};
  std::int64_t bad_lines = 0;
  std::vector<BadLine> bad{};  ///< the first hundred
};

struct DataStatistics {
  std::string kind;  ///< "seq2seq" of a configuration; "pairs" of a file
  std::vector<PartStatistics> parts;
};

/// What `train` would see of its data. Lines that training would refuse are counted, and what
/// depends on them is told of the others; tokens are those of vocabularies made as training makes
/// them. Runs the segmenters that the configuration names. Throws Error for what is no
/// configuration, and for files that can't be read at all.
DataStatistics data_statistics(const TrainRequest& request);

/// The same of files by themselves, a part each; tokens are what stands between spaces. `format` is
/// "pairs" (lines source TAB target), "text", "conll", "table" (CSV or TSV: columns text and
/// label), "arrays" (.npy, .npz or a folder) or, to go by the name, "".
DataStatistics data_statistics(std::span<const std::string> files, const std::string& format);

/// For people.
std::string to_text(const DataStatistics& statistics);
/// The same and more as JSON, with the members' names.
std::string to_json(const DataStatistics& statistics);

}  // namespace sluice
