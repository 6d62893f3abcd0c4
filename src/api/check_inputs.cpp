#include "api/check_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/frame_input.h"
#include "api/text_generation.h"
#include "api/text_segmentation.h"
#include "api/tokenize.h"
#include "base/check.h"
#include "base/counted.h"
#include "data/corpus.h"
#include "data/labelled_corpus.h"
#include "data/tagged_examples.h"
#include "data/text_corpus.h"
#include "models/classifier_config.h"
#include "models/features.h"
#include "models/language_model.h"
#include "models/seq2seq_config.h"
#include "models/tagger_config.h"
#include "sluice/tagger.h"
#include "sluice/text.h"

namespace sluice {
namespace {

constexpr std::string_view kSeq2Seq = models::Seq2SeqConfig::kKind;
constexpr std::string_view kLanguageModel = models::LanguageModelConfig::kKind;
constexpr std::string_view kTagger = models::TaggerConfig::kKind;
constexpr std::string_view kFeatures = models::FeaturesConfig::kKind;

/// Refuses inputs that the kind has no use for, and none at all.
void require_inputs(std::string_view kind, const CheckInputs& inputs) {
  const bool reads_text = kind != kTagger && kind != kFeatures;
  const auto none = [&](bool used, std::size_t count, const char* what) {
    SLUICE_CHECK(used || count == 0, "a model of kind {} is not checked on {}; leave them out",
                 kind, what);
  };
  none(reads_text, inputs.texts.size(), "texts");
  none(kind == kSeq2Seq, inputs.targets.size(), "targets");
  none(kind == kTagger, inputs.sentences.size(), "sentences");
  none(kind == kFeatures, inputs.sequences.size(), "sequences of frames");
  none(kind == kLanguageModel, inputs.features.values.size(), "vectors of features");
  const std::size_t count = reads_text        ? inputs.texts.size()
                            : kind == kTagger ? inputs.sentences.size()
                                              : inputs.sequences.size();
  SLUICE_CHECK(count > 0, "there is nothing to check on; give at least one input");
  SLUICE_CHECK(inputs.targets.empty() || inputs.targets.size() == inputs.texts.size(),
               "{} for {}; give one for each, or none at all",
               base::counted(inputs.targets.size(), "target"),
               base::counted(inputs.texts.size(), "text"));
}

/// Ids of texts, with a warning of what the vocabulary lacks.
api::TokenIds encode(const runtime::Context& context, std::span<const std::string> texts,
                     const data::Tokenizer& tokenizer, std::string_view what) {
  api::TokenIds ids = api::tokenize(texts, tokenizer);
  api::warn_of_unknown(context.warnings(), ids, tokenizer, what);
  return ids;
}

std::unique_ptr<data::Examples> tagged(const runtime::Context& context, const CheckInputs& inputs,
                                       const data::Tokenizer& tokenizer) {
  api::TokenIds ids;
  for (std::size_t i = 0; i < inputs.sentences.size(); ++i) {
    SLUICE_CHECK(!inputs.sentences[i].empty(), "sentence {} has no tokens", i + 1);
    ids.push_back(api::tokenize_sentence(inputs.sentences[i], i, tokenizer));
  }
  api::warn_of_unknown(context.warnings(), ids, tokenizer);
  return std::make_unique<data::TaggedExamples>(std::move(ids));
}

std::vector<Frames> read_sequences(const std::string& path) {
  std::vector<Frames> sequences;
  data::FrameReader reader(path);
  while (reader.next()) {
    const auto frames = reader.frames();
    sequences.push_back({reader.width(), {frames.begin(), frames.end()}});
  }
  return sequences;
}

/// Lines `source TAB target`, if all are.
bool are_pairs(const std::vector<std::string>& lines) {
  return !lines.empty() && std::ranges::all_of(lines, [](const std::string& line) {
    return std::ranges::count(line, '\t') == 1;
  });
}

}  // namespace

std::unique_ptr<data::Examples> api::examples_of(const runtime::Context& context,
                                                 const std::string& path,
                                                 const model_files::LoadedModel& loaded,
                                                 const TextSegmentation& segmentation,
                                                 const CheckInputs& inputs, const Answer& answer) {
  const std::string_view kind = loaded.kind->name;
  const model_files::Tokenizers& tokenizers = loaded.tokenizers;
  require_inputs(kind, inputs);
  if (kind == kTagger) return tagged(context, inputs, *tokenizers.source);
  if (kind == kFeatures) {
    const auto& config = dynamic_cast<const models::Features&>(*loaded.model).config();
    return std::make_unique<data::FrameCorpus>(frame_corpus(path, config, inputs.sequences));
  }
  if (kind == kLanguageModel) {
    const auto& config = dynamic_cast<const models::LanguageModel&>(*loaded.model).config();
    require_features(config, inputs.features);
    return std::make_unique<data::TextCorpus>(
        encode(context, segmentation.target(inputs.texts), *tokenizers.target, "text"),
        data::FeatureVectors{inputs.features.width, inputs.features.values});
  }
  segmentation.require_source();
  const std::vector<std::string> sources = segmentation.source(inputs.texts);
  api::TokenIds ids = encode(context, sources, *tokenizers.source, "source");
  if (kind == kSeq2Seq) {
    // An answer is written as the model writes it, segmented already.
    const std::vector<std::string> targets =
        inputs.targets.empty() ? answer(sources) : segmentation.target(inputs.targets);
    return std::make_unique<data::PairCorpus>(
        std::move(ids), encode(context, targets, *tokenizers.target, "target"));
  }
  auto corpus = std::make_unique<data::LabelledCorpus>();
  corpus->source = std::move(ids);
  return corpus;
}

CheckInputs read_check_inputs(const std::string& kind, const std::string& path,
                              const std::string& targets, const std::string& features) {
  SLUICE_CHECK(targets.empty() || kind == kSeq2Seq,
               "a model of kind {} is checked without targets; leave out '{}'", kind, targets);
  SLUICE_CHECK(features.empty() || kind == kLanguageModel,
               "only texts of a language model begin from vectors; leave out '{}'", features);
  CheckInputs inputs;
  if (kind == kFeatures) {
    inputs.sequences = read_sequences(path);
  } else if (kind == kTagger) {
    for (TaggedSentence& sentence : read_conll(path)) {
      inputs.sentences.push_back(std::move(sentence.tokens));
    }
  } else if (targets.empty()) {
    inputs.texts = read_lines(path);
    if (kind != kSeq2Seq || !are_pairs(inputs.texts)) {
      if (!features.empty()) inputs.features = read_feature_vectors(features);
      return inputs;
    }
    for (std::string& text : inputs.texts) {
      const std::size_t tab = text.find('\t');
      inputs.targets.push_back(text.substr(tab + 1));
      text.resize(tab);
    }
  } else {
    for (auto& [source, target] : read_pairs(path, targets)) {
      inputs.texts.push_back(std::move(source));
      inputs.targets.push_back(std::move(target));
    }
  }
  return inputs;
}

}  // namespace sluice
