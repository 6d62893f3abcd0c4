#include "interchange/model_chain.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "data/labels.h"
#include "data/tokenizer.h"
#include "interchange/canonical_cell.h"
#include "model_files/loaded_model.h"
#include "model_files/model_text.h"
#include "model_files/stored_weights.h"
#include "model_files/tokenizers.h"
#include "models/classifier_config.h"
#include "models/features_config.h"
#include "models/language_model_config.h"
#include "models/seq2seq_config.h"
#include "models/tagger_config.h"

namespace sluice::interchange {
namespace {

using base::Shape;
using io::HostTensor;
using kernels::recurrent::CellType;

models::StackConfig stack_config(const models::LanguageModelConfig& config) {
  models::StackConfig stack{.cell = config.cell, .hidden = config.hidden, .layers = config.layers};
  if (config.projection > 0) {
    stack.projections.assign(static_cast<std::size_t>(config.layers), config.projection);
  }
  return stack;
}

models::StackConfig stack_config(const models::TaggerConfig& config) {
  return {.cell = config.cell,
          .hidden = config.hidden,
          .widths = config.widths,
          .layers = config.layers,
          .bidirectional = config.bidirectional};
}

class Reader {
 public:
  Reader(const io::Container& container, Convention convention, bool recurrent_part)
      : container_(container), convention_(convention), recurrent_part_(recurrent_part) {}

  SourceModel read() {
    model_.format = "a model of Sluice";
    model_.path = container_.origin;
    tokenizers_ = model_files::tokenizers_of(container_);
    const std::string kind(model_files::kind_of_container(container_).name);
    const std::string json =
        model_files::parse_model_text(container_.text, container_.origin).architecture;
    if (kind == models::FeaturesConfig::kKind) {
      read_features(models::FeaturesConfig::from_json(json));
    } else if (kind == models::ClassifierConfig::kKind) {
      read_classifier(models::ClassifierConfig::from_json(json));
    } else if (kind == models::TaggerConfig::kKind) {
      read_tagger(models::TaggerConfig::from_json(json));
    } else if (kind == models::LanguageModelConfig::kKind) {
      read_language_model(models::LanguageModelConfig::from_json(json));
    } else {
      read_encoder(models::Seq2SeqConfig::from_json(json));
    }
    if (recurrent_part_) {
      std::erase_if(model_.layers, [&](const SourceLayer& layer) {
        if (std::holds_alternative<RecurrentLayer>(layer)) return false;
        model_.account.leave_out(fmt::format("the layer '{}'", name_of(layer)));
        return true;
      });
      return std::move(model_);
    }
    if (tokenizers_.labels) model_.labels = tokenizers_.labels->names();
    const auto& tokenizer = tokenizers_.source ? tokenizers_.source : tokenizers_.target;
    for (std::int32_t id = 0; tokenizer && id < tokenizer->size(); ++id) {
      model_.pieces.push_back(tokenizer->piece(id));
    }
    return std::move(model_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    base::fail(ErrorCode::kUnsupported, "'{}' {}", container_.origin, why);
  }

  /// The decoder reads its own answers and attends to the encoder: it is no chain.
  void read_encoder(const models::Seq2SeqConfig& config) {
    if (!recurrent_part_) {
      refuse(
          "is a seq2seq, which is no chain of layers; use --to torch for all its tensors, or "
          "--subgraph encoder");
    }
    const struct {
      bool layer_norm, hard_sigmoid, peepholes;
      double zoneout_h, zoneout_c;
    } options{config.encoder_layer_norm, false, config.encoder_peepholes, config.encoder_zoneout_h,
              config.encoder_zoneout_c};
    add_stack("encoder",
              {.cell = config.cell,
               .hidden = config.hidden,
               .layers = config.encoder_layers,
               .bidirectional = config.bidirectional},
              config.embedding, options);
    model_.account.leave_out("both embeddings, the decoder and its output layer");
  }

  void read_features(const models::FeaturesConfig& config) {
    if (config.normalize) add_normalization(config.features);
    add_stack("stack", config.stack, config.features, config.stack);
    add_pooling(config.pooling, config.stack.output_width());
    if (!config.output_layer) return;
    add_output(config.outputs, config.stack.output_width(), config.has_classes());
  }

  void read_classifier(const models::ClassifierConfig& config) {
    add_embedding(config.vocabulary, config.embedding);
    add_stack("stack", config.stack, config.embedding, config.stack);
    add_pooling(config.pooling, config.stack.output_width());
    add_output(config.classes, config.stack.output_width(), true);
  }

  void read_tagger(const models::TaggerConfig& config) {
    add_embedding(config.vocabulary, config.embedding);
    add_stack("recurrent", stack_config(config), config.embedding, config);
    add_output(config.labels, config.output_width(), !config.has_crf());
    if (!config.has_crf()) return;
    const Shape labels{config.labels};
    model_.layers.emplace_back(
        CrfLayer{.name = "crf",
                 .transitions = tensor("crf.transitions", {config.labels, config.labels}),
                 .start = tensor("crf.start", labels),
                 .end = tensor("crf.end", labels)});
  }

  void read_language_model(const models::LanguageModelConfig& config) {
    if (config.features > 0) refuse("is conditioned on features, which no chain of layers says");
    add_embedding(config.vocabulary, config.embedding);
    add_stack("recurrent", stack_config(config), config.embedding, config);
    const bool is_tied = config.tie_embeddings != "none";
    add_output(config.vocabulary, config.width(), true,
               is_tied ? "embedding.weight" : "output.weight");
  }

  HostTensor tensor(const std::string& name, const Shape& shape) const {
    return HostTensor::copy_of<float>(numbers(name, shape), shape);
  }
  std::vector<float> numbers(const std::string& name, const Shape& shape) const {
    return model_files::stored_values(container_, name, shape);
  }

  void add_normalization(std::int64_t features) {
    const std::vector<float> mean = numbers("input.mean", {features});
    const std::vector<float> scale = numbers("input.scale", {features});
    std::vector<float> shift;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      shift.push_back(static_cast<float>(-double{mean[i]} * scale[i]));
    }
    model_.layers.emplace_back(AffineLayer{.name = "input",
                                           .scale = HostTensor::copy_of<float>(scale, {features}),
                                           .shift = HostTensor::copy_of<float>(shift, {features})});
  }

  void add_embedding(std::int64_t vocabulary, std::int64_t width) {
    model_.layers.emplace_back(
        EmbeddingLayer{.name = "embedding",
                       .table = tensor("embedding.weight", {vocabulary, width}),
                       .padding = data::kPadId});
  }

  /// `options` has the options of cells.
  template <typename Options>
  void add_stack(const std::string& prefix, const models::StackConfig& stack, std::int64_t input,
                 const Options& options) {
    if (options.layer_norm) refuse("has layer norm, which no other program's cells have");
    if (options.zoneout_h > 0 || options.zoneout_c > 0) {
      refuse("has zoneout, which no other program's cells have");
    }
    kernels::recurrent::Descriptor architecture = stack.architecture(input);
    for (std::int64_t layer = 0; layer < stack.layers; ++layer) {
      RecurrentLayer made{.name = fmt::format("{}.l{}", prefix, layer)};
      for (std::int64_t direction = 0; direction < architecture.directions; ++direction) {
        const auto name = [&](const char* part) {
          return fmt::format("{}.{}_l{}{}", prefix, part, layer, direction == 1 ? "_reverse" : "");
        };
        CanonicalCell cell;
        cell.type = architecture.cell;
        cell.hard_sigmoid = options.hard_sigmoid;
        cell.input = architecture.input_of(layer);
        cell.hidden = architecture.hidden_of(layer);
        cell.output = architecture.output_of(layer);
        const std::int64_t rows = cell.gates() * cell.hidden;
        cell.weight_ih = numbers(name("weight_ih"), {rows, cell.input});
        cell.weight_hh = numbers(name("weight_hh"), {rows, cell.output});
        cell.bias_ih = numbers(name("bias_ih"), {rows});
        cell.bias_hh = numbers(name("bias_hh"), {rows});
        if (architecture.projects()) {
          cell.weight_hr = numbers(name("weight_hr"), {cell.output, cell.hidden});
        }
        if (options.peepholes) {
          cell.weight_peephole = numbers(name("weight_peephole"), {3, cell.hidden});
        }
        (direction == 0 ? made.forward : made.backward) =
            from_canonical(cell, convention_for(cell), made.name);
      }
      model_.layers.emplace_back(std::move(made));
    }
  }

  Convention convention_for(const CanonicalCell& cell) const {
    const bool needs_cudnn = convention_ == Convention::kTensorflow && cell.type == CellType::kGru;
    return needs_cudnn ? Convention::kTensorflowCudnnGru : convention_;
  }

  void add_pooling(const std::string& kind, std::int64_t width) {
    if (kind == "none") return;
    PoolingLayer layer{.name = "pooling", .kind = kind};
    if (kind == "attention") layer.query = tensor("pooling.query", {width});
    model_.layers.emplace_back(std::move(layer));
  }

  void add_output(std::int64_t outputs, std::int64_t width, bool has_classes,
                  const std::string& weight = "output.weight") {
    LinearLayer layer{.name = "output",
                      .weight = tensor(weight, {outputs, width}),
                      .bias = tensor("output.bias", {outputs})};
    if (has_classes) layer.activation = {"softmax"};
    model_.layers.emplace_back(std::move(layer));
  }

  const io::Container& container_;
  Convention convention_;
  bool recurrent_part_;
  model_files::Tokenizers tokenizers_;
  SourceModel model_;
};

}  // namespace

SourceModel chain_of_model(const io::Container& container, Convention convention) {
  return Reader(container, convention, false).read();
}

SourceModel recurrent_chain_of_model(const io::Container& container, Convention convention) {
  return Reader(container, convention, true).read();
}

}  // namespace sluice::interchange
