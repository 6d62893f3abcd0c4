#include "training/initial_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "data/word_vectors.h"
#include "io/checkpoint.h"
#include "io/safetensors_header.h"
#include "training/parameter_patterns.h"

namespace sluice::training {
namespace {

using base::fail;

ParameterPatterns only(const TrainConfig& config) {
  return ParameterPatterns("training.init_only", config.initial.only);
}

bool is_taken(const ParameterPatterns& only, std::string_view name) {
  return only.empty() || only.match(name);
}

// Whether a parameter that is taken has a row for each word of a vocabulary.
bool takes_words(const TrainConfig& config, Vocabulary vocabulary) {
  const ParameterPatterns patterns = only(config);
  const auto parameters = task_of(config).model_kind().word_parameters;
  return std::any_of(
      parameters.begin(), parameters.end(), [&](const model_files::WordParameter& parameter) {
        return parameter.vocabulary == vocabulary && is_taken(patterns, parameter.name);
      });
}

void require_kind(const TrainConfig& config, const data::Tokenizer& tokenizer) {
  const std::string& asked = config.tokenizer.kind;
  const std::string_view kind = asked == "bpe" || asked == "unigram" ? "sentencepiece" : asked;
  SLUICE_CHECK(tokenizer.kind() == kind,
               "tokenizer.kind is '{}', but '{}', whose tokenizer this run needs for the "
               "parameters that it takes, has {}",
               asked, config.initial.from, tokenizer.kind());
}

/// A checkpoint beside the parameters of a run.
struct Comparison {
  std::vector<std::string> fitting;   ///< of the run's
  std::vector<std::string> problems;  ///< of those that are to be taken
};

Comparison compare(const io::Container& container, const layers::Parameters& parameters,
                   const ParameterPatterns& only) {
  Comparison result;
  std::vector<std::string> known;
  for (const layers::ParameterSpec& spec : parameters.specs()) {
    known.push_back(spec.name);
    const io::HostTensor* tensor = container.tensors.find(spec.name);
    if (tensor != nullptr && tensor->shape == spec.shape && tensor->dtype == io::DType::kFloat32) {
      result.fitting.push_back(spec.name);
    } else if (!is_taken(only, spec.name)) {
      continue;
    } else if (tensor == nullptr) {
      result.problems.push_back(fmt::format("it has no {}", spec.name));
    } else {
      result.problems.push_back(fmt::format("its {} is {} {}, the run's float32 {}", spec.name,
                                            base::name_of(tensor->dtype), tensor->shape.to_string(),
                                            spec.shape.to_string()));
    }
  }
  if (!only.empty()) return result;
  for (const auto& [name, tensor] : container.tensors) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    result.problems.push_back(fmt::format("the run has no {}", io::quote_name(name)));
  }
  return result;
}

void require_words(const io::Container& container, Vocabulary vocabulary,
                   const Tokenizers& tokenizers) {
  const char* blob = blob_name(vocabulary);
  SLUICE_CHECK(io::require_blob(container, blob) == to_blobs(tokenizers)[blob],
               "'{}' has another {} vocabulary than this run, so its rows are those of other words",
               container.origin, side_name(vocabulary));
}

std::string take_checkpoint(const Context& context, const TrainConfig& config,
                            const Tokenizers& tokenizers, const layers::Parameters& parameters) {
  const io::Container container = io::read_model(config.initial.from);
  const ParameterPatterns patterns = only(config);
  const Comparison comparison = compare(container, parameters, patterns);
  patterns.require_use(parameters.specs(), comparison.fitting);
  SLUICE_CHECK(comparison.problems.empty(),
               "'{}' does not fit this run: {}; what fits, and training.init_only may choose: {}",
               container.origin, fmt::join(comparison.problems, ", "),
               comparison.fitting.empty() ? "nothing"
                                          : fmt::format("{}", fmt::join(comparison.fitting, ", ")));
  for (const Vocabulary vocabulary : model_files::kVocabularies) {
    if (takes_words(config, vocabulary)) require_words(container, vocabulary, tokenizers);
  }
  std::vector<std::string_view> taken;
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    const layers::ParameterSpec& spec = parameters.specs()[id];
    if (!is_taken(patterns, spec.name)) continue;
    const io::HostTensor& tensor = io::require_tensor(container, spec.name, spec.shape);
    const std::span<const float> values = tensor.values<float>();
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      fail(ErrorCode::kFormat, "'{}': {} holds values that are not finite", container.origin,
           spec.name);
    }
    parameters.upload<float>(context, id, values);
    taken.push_back(spec.name);
  }
  return fmt::format("{} of {} parameters start from '{}'{}", taken.size(),
                     parameters.specs().size(), container.origin,
                     patterns.empty() ? "" : fmt::format(": {}", fmt::join(taken, ", ")));
}

/// Embeddings of a side.
struct Side {
  const char* key;  ///< names the file
  Vocabulary vocabulary;
  const std::string& path;
  const std::shared_ptr<const data::Tokenizer>& tokenizer;
};

std::string take_word_vectors(const Context& context, const TrainConfig& config, const Side& side,
                              const layers::Parameters& parameters) {
  const std::string_view parameter = task_of(config).embedding_of(config, side.vocabulary);
  SLUICE_CHECK(config.initial.from.empty() || !is_taken(only(config), parameter),
               "{} and training.init_from both give {}; set one of them, or choose other "
               "parameters by training.init_only",
               side.key, parameter);
  const auto& specs = parameters.specs();
  const auto spec = std::find_if(specs.begin(), specs.end(), [&](const layers::ParameterSpec& s) {
    return s.name == parameter;
  });
  SLUICE_ASSERT(spec != specs.end());
  const auto id = static_cast<layers::ParameterId>(spec - specs.begin());
  const auto width = static_cast<std::size_t>(spec->shape[1]);
  const data::WordVectors vectors =
      data::read_word_vectors(side.path, spec->shape[1], *side.tokenizer);
  const std::int32_t words = side.tokenizer->size() - data::kFirstPieceId;
  SLUICE_CHECK(!vectors.ids.empty(),
               "none of the {} words of '{}' is one of the {} of the vocabulary that {} is for",
               vectors.words_in_file, side.path, words, side.key);
  std::vector<float> values = parameters.download<float>(context, id);
  for (std::size_t i = 0; i < vectors.ids.size(); ++i) {
    const auto row = static_cast<std::size_t>(vectors.ids[i]);
    std::copy_n(vectors.values.data() + i * width, width, values.data() + row * width);
  }
  parameters.upload<float>(context, id, values);
  return fmt::format("{}: {} of {} words ({:.1f} %) start from '{}', which has {}", parameter,
                     vectors.ids.size(), words,
                     100.0 * static_cast<double>(vectors.ids.size()) / words, side.path,
                     vectors.words_in_file);
}

}  // namespace

Tokenizers initial_tokenizers(const TrainConfig& config) {
  if (config.initial.from.empty()) return {};
  const auto takes = [&](Vocabulary vocabulary) { return takes_words(config, vocabulary); };
  if (std::none_of(std::begin(model_files::kVocabularies), std::end(model_files::kVocabularies),
                   takes))
    return {};
  Tokenizers taken = model_files::load_tokenizers(config.initial.from);
  for (const Vocabulary vocabulary : model_files::kVocabularies) {
    SLUICE_CHECK(!takes(vocabulary) || taken.has(vocabulary),
                 "'{}' has no {} vocabulary, which this run needs for the parameters that it takes",
                 config.initial.from, side_name(vocabulary));
  }
  if (config.tokenizer.shared) {
    SLUICE_CHECK(taken.source == taken.target,
                 "tokenizer.shared is true, but '{}', whose tokenizer this run needs for the "
                 "parameters that it takes, has one for each side",
                 config.initial.from);
  } else {
    if (!takes(Vocabulary::kSource)) taken.source = nullptr;
    if (!takes(Vocabulary::kTarget)) taken.target = nullptr;
  }
  if (!takes(Vocabulary::kLabels)) {
    taken.labels = nullptr;
  } else {
    taken.labels = std::make_shared<data::Labels>(taken.labels->held_by(
        fmt::format("of '{}', which this run starts from", config.initial.from),
        "take other parameters than the output layer by training.init_only"));
  }
  for (const auto& tokenizer : {taken.source, taken.target}) {
    if (tokenizer) require_kind(config, *tokenizer);
  }
  return taken;
}

void require_trainable_start(const TrainConfig& config) {
  if (config.initial.from.empty()) return;
  const io::DType stored = io::narrowest_dtype(config.initial.from);
  SLUICE_CHECK(stored == io::DType::kFloat32,
               "'{}' is a quantized model (stored as {}), and training starts from float32 alone; "
               "name the checkpoint that it was made from",
               config.initial.from, base::name_of(stored));
}

std::vector<std::string> set_initial_weights(const Context& context, const TrainConfig& config,
                                             const Tokenizers& tokenizers,
                                             const layers::Parameters& parameters) {
  std::vector<std::string> lines;
  if (!config.initial.from.empty()) {
    require_trainable_start(config);
    lines.push_back(take_checkpoint(context, config, tokenizers, parameters));
  }
  const Side sides[] = {{"model.source_embeddings_from", Vocabulary::kSource,
                         config.initial.source_embeddings, tokenizers.source},
                        {"model.target_embeddings_from", Vocabulary::kTarget,
                         config.initial.target_embeddings, tokenizers.target}};
  for (const Side& side : sides) {
    if (side.path.empty()) continue;
    lines.push_back(take_word_vectors(context, config, side, parameters));
  }
  return lines;
}

}  // namespace sluice::training
