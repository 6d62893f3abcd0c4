#include "sluice/data_statistics.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "api/data_scan.h"
#include "api/train_request.h"
#include "base/check.h"
#include "data/corpus.h"
#include "data/train_tokenizer.h"
#include "training/segmentation.h"
#include "training/task.h"
#include "training/tokenizer_options.h"

namespace sluice {
namespace {

using api::ScannedTexts;
using training::TrainConfig;

/// What turns each side into tokens; null: what stands between spaces.
using SideTokenizers = std::vector<std::shared_ptr<const data::Tokenizer>>;

/// What training leaves out, or refuses; 0: nothing.
struct Limits {
  std::vector<std::int64_t> sides;  ///< tokens of each
  std::int64_t batch = 0;           ///< tokens of all sides, with an end of each target
  bool keeps_empty = false;         ///< as running text does
};

std::int64_t count_words(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  std::int64_t words = 0;
  for (std::size_t at = text.find_first_not_of(kSpaces); at != std::string_view::npos;
       at = text.find_first_not_of(kSpaces, at)) {
    ++words;
    at = std::min(text.find_first_of(kSpaces, at), text.size());
  }
  return words;
}

/// [side][example]
std::vector<std::vector<std::int64_t>> count_tokens(const ScannedTexts& texts,
                                                    const SideTokenizers& tokenizers,
                                                    PartStatistics& part) {
  std::vector<std::vector<std::int64_t>> lengths;
  for (std::size_t side = 0; side < texts.sides.size(); ++side) {
    SideStatistics statistics;
    statistics.name = texts.side_names[side];
    const data::Tokenizer* tokenizer = tokenizers.empty() ? nullptr : tokenizers[side].get();
    if (tokenizer != nullptr) statistics.unknown = 0;
    std::vector<std::int64_t>& of_side = lengths.emplace_back();
    for (const std::string& text : texts.sides[side]) {
      if (tokenizer == nullptr) {
        of_side.push_back(count_words(text));
      } else {
        const std::vector<std::int32_t> ids = tokenizer->encode(text);
        of_side.push_back(std::ssize(ids));
        *statistics.unknown += std::count(ids.begin(), ids.end(), data::kUnknownId);
      }
      statistics.tokens += of_side.back();
    }
    statistics.lengths = api::length_statistics(of_side);
    part.sides.push_back(std::move(statistics));
  }
  return lengths;
}

void count_left_out(const std::vector<std::vector<std::int64_t>>& lengths, const Limits& limits,
                    PartStatistics& part) {
  for (std::size_t i = 0; i < lengths.front().size(); ++i) {
    bool empty = false, too_long = false;
    std::int64_t all = lengths.size() > 1 ? 1 : 0;
    for (std::size_t side = 0; side < lengths.size(); ++side) {
      const std::int64_t length = lengths[side][i];
      const std::int64_t most = limits.sides.empty() ? 0 : limits.sides[side];
      empty = empty || length == 0;
      too_long = too_long || (most > 0 && length > most);
      all += length;
    }
    if (empty && !limits.keeps_empty) {
      ++part.empty;
    } else if (too_long) {
      ++part.too_long;
    } else if (limits.batch > 0 && all > limits.batch) {
      ++part.over_batch;
    }
  }
}

/// Examples by their hash; that two different ones share it is too rare to matter here.
using Known = std::unordered_set<std::size_t>;

void count_duplicates(const ScannedTexts& texts, const Known* before, Known& known,
                      PartStatistics& part) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::string whole;
    for (const auto& side : texts.sides) whole += side[i] + '\n';
    if (!texts.labels.empty()) {
      for (const std::string& label : texts.labels[i]) whole += '\t' + label;
    }
    const std::size_t hash = std::hash<std::string>{}(whole);
    if (before != nullptr && before->contains(hash)) ++part.seen;
    if (!known.insert(hash).second) ++part.duplicates;
  }
}

/// Fills in what can be said of texts.
void look_at(const ScannedTexts& texts, const SideTokenizers& tokenizers, const Limits& limits,
             const Known* before, Known& known, PartStatistics& part) {
  part.examples = static_cast<std::int64_t>(texts.size());
  count_left_out(count_tokens(texts, tokenizers, part), limits, part);
  count_duplicates(texts, before, known, part);
  for (const auto& labels : texts.labels) {
    for (const std::string& label : labels) ++part.labels[label];
  }
}

/// As training makes them of the examples to train on.
SideTokenizers make_tokenizers(const TrainConfig& config, const ScannedTexts& train) {
  const bool is_target = config.model.kind == "language_model";
  const auto trained = [&](const std::vector<std::string>& lines, std::int64_t vocabulary) {
    return std::shared_ptr<const data::Tokenizer>(
        data::train_tokenizer(lines, training::tokenizer_options(config, vocabulary)));
  };
  const training::TokenizerConfig& options = config.tokenizer;
  if (train.sides.size() == 1) {
    return {
        trained(train.sides[0], is_target ? options.target_vocabulary : options.source_vocabulary)};
  }
  if (!options.shared) {
    return {trained(train.sides[0], options.source_vocabulary),
            trained(train.sides[1], options.target_vocabulary)};
  }
  std::vector<std::string> both;
  for (std::size_t i = 0; i < train.size(); ++i) {
    both.push_back(train.sides[0][i]);
    both.push_back(train.sides[1][i]);
  }
  const auto shared = trained(both, options.source_vocabulary);
  return {shared, shared};
}

Limits limits_of(const TrainConfig& config) {
  const training::DataConfig& data = config.data;
  Limits limits{{data.max_source_tokens, data.max_target_tokens}, config.loop.max_tokens, false};
  if (config.model.kind == "language_model") {
    limits.sides = {data.max_target_tokens};
    limits.keeps_empty = config.loop.bptt > 0;
    if (config.loop.bptt > 0) limits.batch = 0;
  }
  return limits;
}

void segment(const TrainConfig& config, ScannedTexts& texts) {
  const bool is_target = config.model.kind == "language_model";
  for (std::size_t side = 0; side < texts.sides.size(); ++side) {
    const bool target = side == 1 || is_target;
    training::segment_texts(target ? config.data.target_segmenter : config.data.source_segmenter,
                            texts.side_names[side], texts.sides[side]);
  }
}

/// Splits off what the configuration holds out; bad lines stay with the first part.
ScannedTexts hold_out(const TrainConfig& config, ScannedTexts& train, PartStatistics& part) {
  const training::DataConfig& data = config.data;
  if (data.hold_out_run == 0 && data.hold_out_every == 0) return {};
  const data::IndexSplit split =
      data::split_by_runs(static_cast<std::int64_t>(train.size()), data.hold_out_run,
                          data.hold_out_every, data.hold_out_fold);
  ScannedTexts held_out = train.select(split.held_out);
  train = train.select(split.train);
  part.files.push_back("held out");
  return held_out;
}

/// Vectors that texts are conditioned on.
void add_vectors(const std::string& path, PartStatistics& part) {
  if (!path.empty()) part.arrays.push_back(api::scan_arrays("features", path, part).statistics);
}

void add_texts(const TrainConfig& config, DataStatistics& result) {
  const training::DataConfig& data = config.data;
  PartStatistics train_part{.name = "training"}, validation_part{.name = "validation"};
  ScannedTexts train = api::scan_configured(
      config, {data.tsv, data.source, data.target, data.text, data.table, data.conll}, train_part);
  SLUICE_CHECK(!train.sides.empty(), "the configuration names no examples to train on");
  ScannedTexts validation =
      api::scan_configured(config,
                           {data.validation_tsv, data.validation_source, data.validation_target,
                            data.validation_text, data.validation_table, data.validation_conll},
                           validation_part);
  if (validation.sides.empty()) validation = hold_out(config, train, validation_part);
  add_vectors(data.features, train_part);
  add_vectors(data.validation_features, validation_part);
  segment(config, train);
  segment(config, validation);
  const SideTokenizers tokenizers = make_tokenizers(config, train);
  const Limits limits = limits_of(config);
  Known trained, validated;
  look_at(train, tokenizers, limits, nullptr, trained, train_part);
  result.parts.push_back(std::move(train_part));
  if (validation.sides.empty()) return;
  look_at(validation, tokenizers, limits, &trained, validated, validation_part);
  result.parts.push_back(std::move(validation_part));
}

bool holds_arrays(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  return extension == ".npy" || extension == ".npz" || std::filesystem::is_directory(path);
}

PartStatistics part_of_arrays(const std::string& name, const std::string& features,
                              const std::string& targets, const Limits& limits) {
  PartStatistics part{.name = name};
  api::ScannedArrays scanned = api::scan_arrays("features", features, part);
  part.examples = scanned.statistics.sequences;
  count_left_out({std::move(scanned.lengths)}, limits, part);
  part.arrays.push_back(std::move(scanned.statistics));
  if (holds_arrays(targets)) {
    part.arrays.push_back(api::scan_arrays("targets", targets, part).statistics);
  } else if (!targets.empty()) {
    const ScannedTexts labels = api::scan_texts(targets, false, part);
    for (const std::string& label : labels.sides.front()) ++part.labels[label];
  }
  return part;
}

void add_features(const TrainConfig& config, DataStatistics& result) {
  const training::DataConfig& data = config.data;
  SLUICE_CHECK(!data.features.empty(), "the configuration names no examples to train on");
  const Limits limits{{data.max_source_tokens}, config.loop.max_tokens, false};
  result.parts.push_back(part_of_arrays("training", data.features, data.targets, limits));
  if (data.validation_features.empty()) return;
  result.parts.push_back(
      part_of_arrays("validation", data.validation_features, data.validation_targets, limits));
}

std::string format_of(const std::string& path) {
  if (holds_arrays(path)) return "arrays";
  std::filesystem::path name(path);
  if (name.extension() == ".gz") name = name.stem();
  const std::string extension = name.extension();
  if (extension == ".csv") return "table";
  if (extension == ".tsv") return "pairs";
  if (extension == ".conll" || extension == ".conllu" || extension == ".bio") return "conll";
  return "text";
}

PartStatistics part_of_file(const std::string& path, const std::string& format) {
  PartStatistics part{.name = format};
  if (format == "arrays") return part_of_arrays(format, path, "", {});
  const training::DataConfig columns;
  ScannedTexts texts;
  if (format == "pairs") {
    texts = api::scan_pairs(path, part);
  } else if (format == "table") {
    texts = api::scan_table(path, columns.text_column, columns.label_column, part);
  } else if (format == "conll") {
    texts = api::scan_conll(path, {}, part);
  } else if (format == "text") {
    texts = api::scan_texts(path, false, part);
  } else {
    SLUICE_CHECK(false, "there is no format '{}'; use pairs, text, conll, table or arrays", format);
  }
  Known known;
  look_at(texts, {}, {}, nullptr, known, part);
  return part;
}

}  // namespace

DataStatistics data_statistics(const TrainRequest& request) {
  const TrainConfig config = api::config_of(request);
  DataStatistics result{config.model.kind, {}};
  if (config.model.kind == "features") {
    add_features(config, result);
  } else {
    add_texts(config, result);
  }
  return result;
}

DataStatistics data_statistics(std::span<const std::string> files, const std::string& format) {
  DataStatistics result{"files", {}};
  for (const std::string& file : files) {
    result.parts.push_back(part_of_file(file, format.empty() ? format_of(file) : format));
  }
  return result;
}

}  // namespace sluice
