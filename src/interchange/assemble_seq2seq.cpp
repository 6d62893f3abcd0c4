#include "interchange/assemble_seq2seq.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "interchange/assembly_parts.h"
#include "interchange/vocabulary_of.h"
#include "models/seq2seq.h"

namespace sluice::interchange {
namespace {

[[noreturn]] void refuse(const SourceModel& source, const std::string& why) {
  base::fail(ErrorCode::kUnsupported, "'{}': {}", source.path, why);
}

/// A half of the model as it can be part of a seq2seq.
struct Half {
  FoldedChain chain;
  CanonicalStack stack;

  Half(SourceModel& model, const std::vector<SourceLayer>& layers, std::string_view name)
      : chain(fold(layers, model.path)) {
    if (chain.embedding == nullptr) {
      refuse(
          model,
          fmt::format("the {} of a seq2seq begins with an embedding, and its own does not", name));
    }
    if (chain.pooling != "none" || chain.crf != nullptr) {
      refuse(model, fmt::format("the {} of a seq2seq has no pooling and no CRF", name));
    }
    const auto runs_forward = [](const CanonicalLayer& layer) { return layer.forward.has_value(); };
    const auto runs_backward = [](const CanonicalLayer& layer) {
      return layer.backward.has_value();
    };
    const bool all_backward = std::ranges::all_of(chain.layers, runs_backward);
    const bool some_backward = std::ranges::any_of(chain.layers, runs_backward);
    if (!std::ranges::all_of(chain.layers, runs_forward) || all_backward != some_backward) {
      refuse(model, fmt::format("the layers of the {} of a seq2seq all run forward, or all in both "
                                "directions",
                                name));
    }
    stack = stack_of(std::move(chain.layers), model.account);
    const models::StackConfig& config = stack.config;
    if (!config.widths.empty() || !config.projections.empty() || config.hard_sigmoid) {
      refuse(model, fmt::format("the layers of the {} of a seq2seq have one width, and neither "
                                "projections nor hard sigmoids",
                                name));
    }
  }
};

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

/// Makes one model.
class Assembly {
 public:
  Assembly(SourceModel& source, const AssembleOptions& options)
      : source_(source),
        options_(options),
        encoder_(source, source.layers, "encoder"),
        decoder_(source, source.decoder, "decoder") {}

  Assembled assemble() {
    SLUICE_CHECK(options_.kind.empty() || options_.kind == "seq2seq",
                 "'{}' has a decoder, so it can't be a {}; leave out --kind, or the decoder",
                 source_.path, options_.kind);
    SLUICE_CHECK(options_.labels.empty(),
                 "'{}' writes words, so --labels has no use; its words are given by --target-words",
                 source_.path);
    result_.kind = models::Seq2SeqConfig::kKind;
    make_vocabularies();
    const models::Seq2Seq model(configuration());
    fill(model);
    pair_layers();
    return std::move(result_);
  }

 private:
  void make_vocabularies() {
    AssembleOptions read, written;
    read.words = options_.words;
    read.pad = options_.pad ? options_.pad : encoder_.chain.embedding->padding;
    read.unknown = options_.unknown;
    SourceVocabulary vocabulary =
        vocabulary_of(source_, encoder_.chain.embedding->table.shape[0], read, "--words");
    tokenizers_.source = vocabulary.tokenizer;
    result_.ids = std::move(vocabulary.ids);
    written.words = options_.target_words;
    written.begin = options_.begin;
    written.end = options_.end;
    vocabulary =
        vocabulary_of(source_, decoder_.chain.embedding->table.shape[0], written, "--target-words");
    tokenizers_.target = vocabulary.tokenizer;
    result_.target_ids = std::move(vocabulary.ids);
    if (!options_.begin) {
      source_.account.assume(
          "no id begins an answer, so answers begin with an embedding of zeros (say otherwise by "
          "--begin)");
    }
    if (!options_.end) {
      source_.account.assume(
          "no id ends an answer, so answers go on to their longest length (say otherwise by "
          "--end)");
    }
  }

  models::Seq2SeqConfig configuration() {
    const models::StackConfig& encoder = encoder_.stack.config;
    const models::StackConfig& decoder = decoder_.stack.config;
    const std::int64_t embedding = encoder_.chain.embedding->table.shape[1];
    if (encoder.cell != decoder.cell) {
      refuse(source_, fmt::format("its encoder is of {} cells and its decoder of {}; those of a "
                                  "seq2seq are of one kind",
                                  encoder.cell, decoder.cell));
    }
    if (decoder.bidirectional || decoder.peepholes) {
      refuse(source_, "the decoder of a seq2seq runs forward and has no peepholes");
    }
    if (encoder.layers > decoder.layers) {
      refuse(source_,
             fmt::format("its encoder has {} recurrent layers and its decoder {}; layer l of a "
                         "decoder starts from layer l of its encoder, so the others would do "
                         "nothing",
                         encoder.layers, decoder.layers));
    }
    if (encoder.layers < decoder.layers) {
      source_.account.assume(fmt::format(
          "the decoder's layers above its first {} start from zero, since the encoder has no more",
          encoder.layers));
    }
    if (encoder.hidden != decoder.hidden || embedding != decoder_.chain.embedding->table.shape[1]) {
      refuse(source_,
             fmt::format("its encoder has {} units and embeddings of {} numbers, its decoder {} "
                         "and {}; those of a seq2seq are equal",
                         encoder.hidden, embedding, decoder.hidden,
                         decoder_.chain.embedding->table.shape[1]));
    }
    const bool has_logits = decoder_.chain.activation.is("linear") ||
                            decoder_.chain.activation.is("softmax") ||
                            decoder_.chain.activation.is("log_softmax");
    if (!decoder_.chain.output || encoder_.chain.output || !has_logits) {
      refuse(
          source_,
          "a seq2seq ends with a linear layer ([decoder.output] of a map) and perhaps a softmax, "
          "and its encoder with a recurrent layer");
    }
    SLUICE_CHECK(decoder_.chain.output->rows == std::ssize(result_.target_ids),
                 "'{}' has {} outputs for {} ids that it writes", source_.path,
                 decoder_.chain.output->rows, result_.target_ids.size());
    models::Seq2SeqConfig config;
    config.cell = encoder.cell;
    config.source_vocabulary = tokenizers_.source->size();
    config.target_vocabulary = tokenizers_.target->size();
    config.embedding = embedding;
    config.hidden = encoder.hidden;
    config.encoder_layers = encoder.layers;
    config.decoder_layers = decoder.layers;
    config.bidirectional = encoder.bidirectional;
    config.attention = "none";
    config.dropout = 0;
    config.encoder_peepholes = encoder.peepholes;
    return config;
  }

  void fill(const models::Seq2Seq& model) {
    const models::Seq2SeqConfig& config = model.config();
    Parts parts;
    add_stack(encoder_.stack, "encoder.", parts);
    add_stack(decoder_.stack, "decoder.", parts);
    parts["source_embedding.weight"] =
        spread_rows(*encoder_.chain.embedding, result_.ids, config.source_vocabulary);
    parts["target_embedding.weight"] =
        spread_rows(*decoder_.chain.embedding, result_.target_ids, config.target_vocabulary);
    const LinearMap& output = *decoder_.chain.output;
    OutputRows rows{Floats(output.matrix.begin(), output.matrix.end()),
                    Floats(output.vector.begin(), output.vector.end())};
    rows = spread_rows(rows, result_.target_ids, config.target_vocabulary);
    parts["output.weight"] = std::move(rows.weight);
    parts["output.bias"] = std::move(rows.bias);
    result_.container = container_of(model, parts, tokenizers_, source_.path);
  }

  void pair_layers() {
    pair_recurrent(source_.layers, encoder_, "encoder", 0);
    pair_recurrent(source_.decoder, decoder_, "decoder", source_.layers.size());
    const std::vector<std::int64_t> places(result_.target_ids.begin(), result_.target_ids.end());
    result_.pairs.push_back({source_.layers.size() + source_.decoder.size() - 1, "output", places});
  }

  void pair_recurrent(const std::vector<SourceLayer>& layers, const Half& half,
                      std::string_view name, std::size_t first) {
    int layer = 0;
    for (std::size_t at = 0; at < layers.size(); ++at) {
      if (!std::holds_alternative<RecurrentLayer>(layers[at])) continue;
      result_.pairs.push_back({first + at, fmt::format("{}.l{}", name, layer++),
                               counted(half.stack.config.output_width())});
    }
  }

  SourceModel& source_;
  const AssembleOptions& options_;
  Half encoder_, decoder_;
  model_files::Tokenizers tokenizers_;
  Assembled result_;
};

}  // namespace

Assembled assemble_seq2seq(SourceModel& source, const AssembleOptions& options) {
  return Assembly(source, options).assemble();
}

}  // namespace sluice::interchange
