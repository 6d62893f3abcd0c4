#include "interchange/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "base/suggest.h"
#include "data/labels.h"
#include "interchange/assemble_seq2seq.h"
#include "interchange/assembly_parts.h"
#include "interchange/folded_chain.h"
#include "interchange/vocabulary_of.h"
#include "models/classifier.h"
#include "models/features.h"
#include "models/language_model.h"
#include "models/tagger.h"

namespace sluice::interchange {
namespace {

std::size_t index(std::int64_t at) { return static_cast<std::size_t>(at); }

/// Makes one model.
class Assembly {
 public:
  Assembly(SourceModel& source, const AssembleOptions& options)
      : source_(source), options_(options), chain_(fold(source)) {}

  Assembled assemble() {
    stack_ = stack_of(std::move(chain_.layers), source_.account);
    if (chain_.output) take_output(*chain_.output);
    if (!chain_.output) select_output();
    settle_activation();
    result_.kind = options_.kind.empty() ? find_kind() : options_.kind;
    const std::unique_ptr<models::Model> model = make_model();
    pair_layers();
    fill(*model);
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    base::fail(ErrorCode::kUnsupported, "'{}': {}", source_.path, why);
  }

  void take_output(const LinearMap& map) {
    const std::int64_t width = stack_.config.output_width();
    output_.assign(map.matrix.begin(), map.matrix.end());
    output_ = spread_columns(output_, stack_.places.back(), width);
    output_bias_.assign(map.vector.begin(), map.vector.end());
  }

  /// Leaves out of the stack's output the numbers that directions of zeros put there.
  void select_output() {
    const std::vector<std::int64_t>& places = stack_.places.back();
    const std::int64_t width = stack_.config.output_width();
    if (std::ssize(places) == width) return;
    output_.resize(places.size() * index(width));
    for (std::size_t i = 0; i < places.size(); ++i) {
      output_[i * index(width) + index(places[i])] = 1;
    }
    output_bias_.resize(places.size());
  }

  void settle_activation() {
    const Activation& activation = chain_.activation;
    has_classes_ = activation.is("softmax") || activation.is("log_softmax");
    if (has_classes_ || activation.is("linear")) return;
    if (activation.is("sigmoid") && output_bias_.size() == 1) {
      // sigmoid(a) is the second number of softmax(0, a).
      output_.insert(output_.begin(), output_.size(), 0.0F);
      output_bias_.insert(output_bias_.begin(), 0.0F);
      has_classes_ = is_second_class_ = true;
      source_.account.find(
          fmt::format("layer '{}' ends with one sigmoid: the model has two classes, of which its "
                      "number is the probability of the second",
                      chain_.output_name));
      return;
    }
    refuse(
        fmt::format("layer '{}' ends with {}; Sluice's models end with linear outputs or a "
                    "softmax",
                    chain_.output_name, activation.name));
  }

  std::int64_t outputs() const { return static_cast<std::int64_t>(output_bias_.size()); }
  bool has_output() const { return !output_bias_.empty(); }
  std::int64_t source_ids() const { return chain_.embedding->table.shape[0]; }

  std::string find_kind() {
    if (chain_.embedding == nullptr) return "features";
    if (!has_output()) {
      refuse(
          "it has an embedding but no linear output, so it is no model that reads texts; take "
          "the recurrent part alone, with --subgraph");
    }
    if (chain_.pooling != "none") return "classifier";
    const bool may_go_on =
        outputs() == source_ids() && !stack_.config.bidirectional && chain_.crf == nullptr;
    if (!may_go_on) return "tagger";
    source_.account.assume(
        fmt::format("it is a language model, since it has as many outputs as ids, {} (say "
                    "otherwise by --kind tagger)",
                    outputs()));
    return "language_model";
  }

  std::unique_ptr<models::Model> make_model() {
    SLUICE_CHECK(chain_.crf == nullptr || result_.kind == "tagger",
                 "'{}' has a CRF, so it can't be a model of kind {}: a tagger has one, and reads "
                 "ids by an embedding",
                 source_.path, result_.kind);
    if (result_.kind == "features") return make_features();
    static constexpr std::array<std::string_view, 4> kKinds{"features", "language_model", "tagger",
                                                            "classifier"};
    SLUICE_CHECK(std::ranges::find(kKinds, result_.kind) != kKinds.end(),
                 "'{}' is no kind of model; use features, language_model, tagger or classifier{}",
                 result_.kind, base::did_you_mean(result_.kind, kKinds));
    SLUICE_CHECK(chain_.embedding != nullptr && has_output(),
                 "'{}' has no embedding or no linear output, so it can't be a {}; use --kind "
                 "features",
                 source_.path, result_.kind);
    SLUICE_CHECK((result_.kind == "classifier") == (chain_.pooling != "none"),
                 "'{}' {} its sequences, so it can't be a {}", source_.path,
                 chain_.pooling == "none" ? "does not pool" : "pools", result_.kind);
    AssembleOptions words = options_;
    const std::optional<std::int64_t>& padding = chain_.embedding->padding;
    SLUICE_CHECK(!words.pad || !padding || *words.pad == *padding,
                 "--pad is {}, but the source says that {} is padding", *words.pad, *padding);
    if (words.pad && !padding) {
      source_.account.assume(fmt::format(
          "texts come without the padding {}: the source has no mask, so if it was "
          "trained on padded rows its answers differ; then leave out --pad, and put the "
          "padding's text before or behind each text as it was",
          *words.pad));
    }
    if (!words.unknown) {
      source_.account.assume(
          "no id means an unknown word, so one is read as zeros (say otherwise by --unknown)");
    }
    if (!words.pad) words.pad = padding;
    words.kind = result_.kind;
    SourceVocabulary vocabulary = vocabulary_of(source_, source_ids(), words, "--words");
    (result_.kind == "language_model" ? tokenizers_.target : tokenizers_.source) =
        vocabulary.tokenizer;
    result_.ids = std::move(vocabulary.ids);
    if (result_.kind == "language_model") return make_language_model();
    make_labels();
    return result_.kind == "tagger" ? make_tagger() : make_classifier();
  }

  std::unique_ptr<models::Model> make_features() {
    SLUICE_CHECK(chain_.embedding == nullptr,
                 "'{}' reads ids, so it can't be a model of features; take its recurrent part "
                 "alone, with --subgraph",
                 source_.path);
    SLUICE_CHECK(options_.words.empty() && !options_.pad && !options_.unknown && !options_.begin &&
                     !options_.end,
                 "'{}' reads numbers, not ids, so --words and special ids have no use",
                 source_.path);
    models::FeaturesConfig config;
    const CanonicalLayer& first = stack_.layers.front();
    config.features = (first.forward ? *first.forward : *first.backward).input;
    config.normalize = false;
    config.stack = stack_.config;
    config.target = has_classes_ ? "classes" : "values";
    config.output_layer = has_output();
    config.outputs = has_output() ? outputs() : stack_.config.output_width();
    config.pooling = chain_.pooling;
    if (has_classes_) {
      make_labels();
    } else {
      SLUICE_CHECK(options_.labels.empty(), "'{}' puts out values, so --labels has no use",
                   source_.path);
    }
    return std::make_unique<models::Features>(config);
  }

  void make_labels() {
    std::vector<std::string> labels = options_.labels;
    SLUICE_CHECK(labels.empty() || static_cast<std::int64_t>(labels.size()) == outputs(),
                 "there are {} labels for {} outputs of '{}'; give a line for each", labels.size(),
                 outputs(), source_.path);
    if (labels.empty()) {
      for (std::int64_t i = 0; i < outputs(); ++i) labels.push_back(std::to_string(i));
      source_.account.assume(
          "the file has no labels, so they are numbers (say otherwise by --labels)");
    }
    tokenizers_.labels = std::make_shared<data::Labels>(std::move(labels));
  }

  std::unique_ptr<models::Model> make_language_model() {
    SLUICE_CHECK(outputs() == source_ids(),
                 "'{}' has {} outputs for {} ids, so it can't be a language model", source_.path,
                 outputs(), source_ids());
    const models::StackConfig& stack = stack_.config;
    SLUICE_CHECK(!stack.bidirectional,
                 "'{}' runs backward, so it can't be a language model; use --kind tagger",
                 source_.path);
    even_out_widths(stack_, source_.account);
    output_ = spread_columns(output_, stack_.places.back(), stack.output_width());
    models::LanguageModelConfig config;
    config.cell = stack.cell;
    config.vocabulary = tokenizers_.target->size();
    config.embedding = chain_.embedding->table.shape[1];
    config.hidden = stack.hidden;
    config.layers = stack.layers;
    config.projection = stack.projections.empty() ? 0 : stack.projections.front();
    config.dropout = 0;
    config.peepholes = stack.peepholes;
    config.hard_sigmoid = stack.hard_sigmoid;
    spread_output_over_ids(config.vocabulary);
    return std::make_unique<models::LanguageModel>(config);
  }

  /// Gives each id of the vocabulary its row of the output.
  void spread_output_over_ids(std::int64_t vocabulary) {
    OutputRows rows =
        spread_rows({std::move(output_), std::move(output_bias_)}, result_.ids, vocabulary);
    output_ = std::move(rows.weight);
    output_bias_ = std::move(rows.bias);
    output_places_.assign(result_.ids.begin(), result_.ids.end());
    if (std::ranges::find(result_.ids, data::kBosId) != result_.ids.end()) return;
    source_.account.assume(
        "no id begins a text, so texts begin with an embedding of zeros (say otherwise by "
        "--begin)");
  }

  std::unique_ptr<models::Model> make_tagger() {
    const models::StackConfig& stack = stack_.config;
    if (!stack.projections.empty()) refuse("a tagger of Sluice has no projections");
    models::TaggerConfig config;
    config.cell = stack.cell;
    config.vocabulary = tokenizers_.source->size();
    config.labels = outputs();
    config.embedding = chain_.embedding->table.shape[1];
    config.hidden = stack.hidden;
    config.widths = stack.widths;
    config.layers = stack.layers;
    config.bidirectional = stack.bidirectional;
    config.output = chain_.crf == nullptr ? "softmax" : "crf";
    config.dropout = 0;
    config.peepholes = stack.peepholes;
    config.hard_sigmoid = stack.hard_sigmoid;
    return std::make_unique<models::Tagger>(config);
  }

  std::unique_ptr<models::Model> make_classifier() {
    models::ClassifierConfig config;
    config.vocabulary = tokenizers_.source->size();
    config.classes = outputs();
    config.embedding = chain_.embedding->table.shape[1];
    config.stack = stack_.config;
    config.pooling = chain_.pooling;
    return std::make_unique<models::Classifier>(config);
  }

  void pair_layers() {
    const bool is_stack = result_.kind == "features" || result_.kind == "classifier";
    const std::size_t count = source_.layers.size();
    for (std::size_t at = 0, layer = 0; at < count; ++at) {
      if (!std::holds_alternative<RecurrentLayer>(source_.layers[at])) continue;
      result_.pairs.push_back({at, fmt::format("{}.l{}", is_stack ? "stack" : "recurrent", layer),
                               stack_.places[layer]});
      ++layer;
    }
    if (!has_output() && chain_.pooling == "none") return;
    if (is_second_class_) output_places_ = {1};
    if (output_places_.empty() && has_output()) {
      output_places_.resize(output_bias_.size());
      std::iota(output_places_.begin(), output_places_.end(), 0);
    }
    if (!has_output()) output_places_ = stack_.places.back();
    result_.pairs.push_back({count - 1, "output", output_places_});
  }

  void fill(const models::Model& model) {
    Parts parts;
    add_stack(stack_, "", parts);
    parts["output.weight"] = std::move(output_);
    parts["output.bias"] = std::move(output_bias_);
    for (const auto& tokenizer : {tokenizers_.source, tokenizers_.target}) {
      if (!tokenizer) continue;
      parts["embedding.weight"] = spread_rows(*chain_.embedding, result_.ids, tokenizer->size());
    }
    if (chain_.query) {
      const auto query = chain_.query->values<float>();
      parts["pooling.query"] = spread_columns(Floats(query.begin(), query.end()),
                                              stack_.places.back(), stack_.config.output_width());
    }
    if (chain_.crf != nullptr) {
      const auto take = [&](const char* name, const io::HostTensor& tensor) {
        const auto values = tensor.values<float>();
        parts[name] = Floats(values.begin(), values.end());
      };
      take("crf.transitions", chain_.crf->transitions);
      take("crf.start", chain_.crf->start);
      take("crf.end", chain_.crf->end);
    }
    result_.container = container_of(model, parts, tokenizers_, source_.path);
  }

  SourceModel& source_;
  const AssembleOptions& options_;
  FoldedChain chain_;
  CanonicalStack stack_;
  Floats output_, output_bias_;              ///< [outputs, width of the stack], [outputs]
  std::vector<std::int64_t> output_places_;  ///< of the source's outputs; empty: as they stand
  bool has_classes_ = false;
  bool is_second_class_ = false;  ///< the source's one output is the second of two classes
  model_files::Tokenizers tokenizers_;
  Assembled result_;
};

}  // namespace

Assembled assemble(SourceModel& source, const AssembleOptions& options) {
  if (!source.decoder.empty()) return assemble_seq2seq(source, options);
  SLUICE_CHECK(options.target_words.empty(),
               "'{}' is no encoder-decoder, so there are no words to write by --target-words",
               source.path);
  return Assembly(source, options).assemble();
}

}  // namespace sluice::interchange
