#include "training/language_model_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"
#include "data/corpus.h"
#include "data/line_reader.h"
#include "data/smiles_tokenizer.h"
#include "data/text_corpus.h"
#include "io/name_of_input.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"
#include "training/segmentation.h"
#include "training/tokenizer_options.h"

namespace sluice::training {
namespace {

using Ids = std::vector<std::int32_t>;

// Texts kept for TrainData::samples.
constexpr std::int64_t kMostSamples = 64;

std::vector<std::string> read_texts(const std::string& path, const std::string& tokenizer_kind) {
  data::LineReader reader(path);
  std::vector<std::string> lines;
  while (const auto line = reader.next()) {
    if (tokenizer_kind == "smiles") {
      data::require_smiles(
          *line, fmt::format("{}, line {},", io::name_of_input(path), reader.line_number()));
    }
    lines.emplace_back(*line);
  }
  data::require_lines(std::ssize(lines), path);
  return lines;
}

void hold_out(const DataConfig& config, LanguageModelText& text) {
  const data::IndexSplit split = data::split_by_runs(std::ssize(text.train), config.hold_out_run,
                                                     config.hold_out_every, config.hold_out_fold);
  const std::span<const std::string> all = text.train;
  text.validation = data::select(all, split.held_out);
  text.train = data::select(all, split.train);
  if (text.train_features.width == 0) return;
  text.validation_features = text.train_features.select(split.held_out);
  text.train_features = text.train_features.select(split.train);
}

data::FeatureVectors read_vectors(const std::string& path, const std::string& text_path,
                                  std::size_t texts) {
  if (path.empty()) return {};
  data::FeatureVectors vectors = data::read_feature_vectors(path);
  if (vectors.size() != static_cast<std::int64_t>(texts)) {
    base::fail(ErrorCode::kFormat, "{} has {} for the {} of {}; it needs one for each",
               io::name_of_input(path), base::counted(vectors.size(), "feature vector"),
               base::counted(texts, "line"), io::name_of_input(text_path));
  }
  return vectors;
}

data::FeatureVectors read_validation_vectors(const DataConfig& config,
                                             const LanguageModelText& text) {
  return read_vectors(config.validation_features, config.validation_text, text.validation.size());
}

void read_features(const DataConfig& config, LanguageModelText& text) {
  text.train_features = read_vectors(config.features, config.text, text.train.size());
  if (config.validation_text.empty()) return;
  text.validation_features = read_validation_vectors(config, text);
  SLUICE_CHECK(text.validation_features.width == text.train_features.width,
               "the vectors to validate on have {} features, those to train on {}",
               text.validation_features.width, text.train_features.width);
}

/// Texts as ids, and what people are told of them.
struct Texts {
  std::vector<Ids> ids;
  data::FeatureVectors vectors;
  std::string summary;
};

Texts encode(const TrainConfig& config, std::span<const std::string> texts,
             const data::FeatureVectors& vectors, const data::Tokenizer& tokenizer,
             const char* part, const base::Watch& watch) {
  const std::int64_t longest = config.data.max_target_tokens;
  std::int64_t tokens = 0, unknown = 0, too_long = 0, empty = 0;
  Texts result;
  std::vector<std::int64_t> kept;
  base::WatchedItems watched(watch, fmt::format("token ids of the {} texts", part),
                             std::ssize(texts));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Ids ids = tokenizer.encode(texts[i]);
    watched.one_done();
    if (ids.empty() && config.loop.bptt == 0) {
      ++empty;
    } else if (longest > 0 && std::ssize(ids) > longest) {
      ++too_long;
    } else {
      tokens += std::ssize(ids);
      unknown += std::count(ids.begin(), ids.end(), data::kUnknownId);
      result.ids.push_back(std::move(ids));
      kept.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (vectors.width > 0) result.vectors = vectors.select(kept);
  SLUICE_CHECK(!result.ids.empty(),
               "of the {} {} texts none is left: {} have more than data.max_target_tokens = {} "
               "tokens, {} are empty",
               texts.size(), part, too_long, longest, empty);
  result.summary = text_summary(part, std::ssize(result.ids), tokens, unknown, too_long, empty);
  return result;
}

std::shared_ptr<const data::Examples> examples_of(const TrainConfig& config, Texts texts) {
  if (config.loop.bptt == 0) {
    return std::make_shared<data::TextCorpus>(std::move(texts.ids), std::move(texts.vectors));
  }
  return std::make_shared<data::StretchCorpus>(texts.ids, stretches_of(config), config.loop.bptt);
}

}  // namespace

std::int64_t stretches_of(const TrainConfig& config) {
  return std::max<std::int64_t>(
      1, std::min(config.loop.max_rows, config.loop.max_tokens / config.loop.bptt));
}

std::string text_summary(const char* part, std::int64_t texts, std::int64_t tokens,
                         std::int64_t unknown, std::int64_t too_long, std::int64_t empty) {
  return fmt::format("{}: {}, {} ({} unknown); left out: {} too long, {} empty", part,
                     base::counted(texts, "text"), base::counted(tokens, "token"), unknown,
                     too_long, empty);
}

std::vector<std::string> read_validation_texts(const TrainConfig& config) {
  if (config.data.validation_text.empty()) return {};
  SLUICE_CHECK(config.data.hold_out_run == 0 && config.data.hold_out_every == 0,
               "data.validation_text and data.hold_out_run are both set; use one of them");
  auto texts = read_texts(config.data.validation_text, config.tokenizer.kind);
  segment_texts(config.data.target_segmenter, "texts to validate on", texts);
  return texts;
}

LanguageModelText read_language_model_validation(const TrainConfig& config) {
  LanguageModelText text{{}, read_validation_texts(config)};
  text.validation_features = read_validation_vectors(config.data, text);
  return text;
}

LanguageModelText read_language_model_text(const TrainConfig& config, const base::Watch& watch) {
  SLUICE_CHECK(!config.data.text.empty(), "no texts to train on: set data.text");
  LanguageModelText text;
  tell_reading(watch, config.data.text);
  text.train = read_texts(config.data.text, config.tokenizer.kind);
  text.validation = read_validation_texts(config);
  read_features(config.data, text);
  if (holds_out(config.data)) {
    hold_out(config.data, text);
    segment_texts(config.data.target_segmenter, "texts to validate on", text.validation);
  }
  segment_texts(config.data.target_segmenter, "texts to train on", text.train);
  return text;
}

Tokenizers make_language_model_tokenizers(const TrainConfig& config,
                                          std::span<const std::string> texts,
                                          const base::Watch& watch) {
  Tokenizers tokenizers = initial_tokenizers(config);
  if (!tokenizers.target) {
    tokenizers.target = train_tokenizer(
        texts, tokenizer_options(config, config.tokenizer.target_vocabulary), "", watch);
  }
  return tokenizers;
}

TrainData make_language_model_data(const TrainConfig& config, const LanguageModelText& text,
                                   const Tokenizers* saved, const base::Watch& watch) {
  TrainData result;
  result.tokenizers =
      saved != nullptr ? *saved : make_language_model_tokenizers(config, text.train, watch);
  const data::Tokenizer& tokenizer = *result.tokenizers.target;
  if (!text.train.empty()) {
    Texts train = encode(config, text.train, text.train_features, tokenizer, "training", watch);
    result.notes.push_back(std::move(train.summary));
    result.train = examples_of(config, std::move(train));
  }
  if (text.validation.empty()) return result;
  Texts validation =
      encode(config, text.validation, text.validation_features, tokenizer, "validation", watch);
  result.notes.push_back(std::move(validation.summary));
  data::TextCorpus some;
  const auto shown = spread(std::ssize(validation.ids), kMostSamples);
  for (const std::int64_t i : shown) {
    some.texts.push_back(validation.ids[static_cast<std::size_t>(i)]);
  }
  if (validation.vectors.width > 0) some.vectors = validation.vectors.select(shown);
  result.samples = [some = std::move(some), target = result.tokenizers.target](
                       const Context& context, const models::Model& model, std::int64_t count) {
    return sample_texts(context, dynamic_cast<const models::LanguageModel&>(model), *target, some,
                        count);
  };
  result.validation = examples_of(config, std::move(validation));
  return result;
}

}  // namespace sluice::training
