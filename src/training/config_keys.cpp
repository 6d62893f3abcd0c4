#include "training/config_keys.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/suggest.h"

namespace sluice::training {
namespace {

constexpr ResumeRule kMust = ResumeRule::kMustMatch;
constexpr ResumeRule kMay = ResumeRule::kMayMatter;
constexpr ResumeRule kFree = ResumeRule::kMayChange;
constexpr ResumeRule kStart = ResumeRule::kAtStart;

using C = TrainConfig;
using T = KeyTarget;

// Those of [data] that say where files lie and how they are read may change, for the examples
// themselves are compared by their fingerprint.
const ConfigKey kKeys[] = {
    {"data.tsv", [](C& c) -> T { return &c.data.tsv; }, kFree,
     "File of lines 'source TAB target', plain or gzip; use it or data.source and data.target."},
    {"data.source", [](C& c) -> T { return &c.data.source; }, kFree,
     "File of source lines, plain or gzip; line i belongs to line i of data.target."},
    {"data.target", [](C& c) -> T { return &c.data.target; }, kFree,
     "File of target lines, the answers to those of data.source."},
    {"data.text", [](C& c) -> T { return &c.data.text; }, kFree,
     "File of texts, one a line, plain or gzip."},
    {"data.validation_tsv", [](C& c) -> T { return &c.data.validation_tsv; }, kFree,
     "As data.tsv, examples to validate on."},
    {"data.validation_source", [](C& c) -> T { return &c.data.validation_source; }, kFree,
     "As data.source, examples to validate on."},
    {"data.validation_target", [](C& c) -> T { return &c.data.validation_target; }, kFree,
     "As data.target, examples to validate on."},
    {"data.conll", [](C& c) -> T { return &c.data.conll; }, kFree,
     "File of columns as the CoNLL shared tasks have it: a token a line, a blank line between "
     "sentences."},
    {"data.validation_conll", [](C& c) -> T { return &c.data.validation_conll; }, kFree,
     "As data.conll, sentences to validate on."},
    {"data.token_column", [](C& c) -> T { return &c.data.token_column; }, kFree,
     "Column of the token, counted from 1, or from the end: -1 is the last."},
    {"data.tag_column", [](C& c) -> T { return &c.data.tag_column; }, kFree,
     "Column of its label, counted in the same way."},
    {"data.label_scheme", [](C& c) -> T { return &c.data.label_scheme; }, kMust,
     "How labels of spans are spelled anew: bio (B- begins, I- goes on), bioes (E- ends, S- is one "
     "token by itself too), or as-is."},
    {"data.validation_text", [](C& c) -> T { return &c.data.validation_text; }, kFree,
     "As data.text, texts to validate on."},
    {"data.source_segmenter", [](C& c) -> T { return &c.data.source_segmenter; }, kFree,
     "Command that reads source texts, one a line, and writes each with spaces between its words; "
     "for languages written without: python3 -m jieba -d ' '."},
    {"data.target_segmenter", [](C& c) -> T { return &c.data.target_segmenter; }, kFree,
     "The same of target texts, and of the texts of a language model."},
    {"data.stream", [](C& c) -> T { return &c.data.stream; }, kFree,
     "Keep the examples to train on as ids or frames on the disk, in the folder prepared/ of the "
     "output "
     "directory, for files larger than memory; a run is the same with and without."},
    {"data.stream_vocabulary_lines", [](C& c) -> T { return &c.data.stream_vocabulary_lines; },
     kFree,
     "With data.stream: make vocabularies of at most so many lines, drawn by training.seed."},
    {"data.hold_out_run", [](C& c) -> T { return &c.data.hold_out_run; }, kMust,
     "Without validation files: cut the examples into runs of this many neighbours."},
    {"data.hold_out_every", [](C& c) -> T { return &c.data.hold_out_every; }, kMust,
     "Without validation files: hold out one of every n runs to validate on."},
    {"data.hold_out_fold", [](C& c) -> T { return &c.data.hold_out_fold; }, kMust,
     "Which of every n runs is held out, counted from 1; 0: the last. --folds sets it."},
    {"data.max_source_tokens", [](C& c) -> T { return &c.data.max_source_tokens; }, kMust,
     "Examples with more source tokens are left out; 0 keeps all."},
    {"data.max_target_tokens", [](C& c) -> T { return &c.data.max_target_tokens; }, kMust,
     "Examples with more target tokens are left out; 0 keeps all."},
    {"data.table", [](C& c) -> T { return &c.data.table; }, kFree,
     "CSV or TSV file, plain or gzip, whose first line names the columns: texts and their labels."},
    {"data.validation_table", [](C& c) -> T { return &c.data.validation_table; }, kFree,
     "As data.table, examples to validate on."},
    {"data.text_column", [](C& c) -> T { return &c.data.text_column; }, kFree,
     "The table's column of texts."},
    {"data.label_column", [](C& c) -> T { return &c.data.label_column; }, kFree,
     "The table's column of labels."},
    {"data.features", [](C& c) -> T { return &c.data.features; }, kFree,
     "Sequences of frames: a .npy file, a .npz file or a folder of .npy files. Of a language model "
     "the vectors that its texts begin from, one for each: arrays [texts, features]."},
    {"data.targets", [](C& c) -> T { return &c.data.targets; }, kFree,
     "What is wanted of data.features, of each frame or of each sequence: values, or classes."},
    {"data.validation_features", [](C& c) -> T { return &c.data.validation_features; }, kFree,
     "As data.features, sequences to validate on."},
    {"data.validation_targets", [](C& c) -> T { return &c.data.validation_targets; }, kFree,
     "As data.targets, of data.validation_features."},

    {"tokenizer.kind", [](C& c) -> T { return &c.tokenizer.kind; }, kMust,
     "bpe or unigram (SentencePiece), words (between spaces), word_shapes (the same, but words "
     "that are not in the vocabulary differ by what they look like), characters, or smiles (atoms, "
     "bonds and ring numbers of molecules); a tagger takes words or word_shapes."},
    {"tokenizer.shared", [](C& c) -> T { return &c.tokenizer.shared; }, kMust,
     "One tokenizer for both sides, trained on both, of tokenizer.source_vocabulary ids."},
    {"tokenizer.source_vocabulary", [](C& c) -> T { return &c.tokenizer.source_vocabulary; }, kMust,
     "Ids of the source side (of words and characters: at most), four special ones included."},
    {"tokenizer.target_vocabulary", [](C& c) -> T { return &c.tokenizer.target_vocabulary; }, kMust,
     "Ids of the target side."},
    {"tokenizer.min_count", [](C& c) -> T { return &c.tokenizer.min_count; }, kMust,
     "Rarer words or characters are left out of the vocabulary."},
    {"tokenizer.character_coverage", [](C& c) -> T { return &c.tokenizer.character_coverage; },
     kMust, "SentencePiece: share of characters with an id; 0.9995 suits Chinese and Japanese."},
    {"tokenizer.byte_fallback", [](C& c) -> T { return &c.tokenizer.byte_fallback; }, kMust,
     "SentencePiece: spell characters outside the vocabulary as bytes."},
    {"tokenizer.normalization", [](C& c) -> T { return &c.tokenizer.normalization; }, kMust,
     "SentencePiece: identity, nfkc, nmt_nfkc, nfkc_cf or nmt_nfkc_cf."},

    {"model.kind", [](C& c) -> T { return &c.model.kind; }, kMust,
     "What kind of model to train: seq2seq (texts in, texts out), language_model (texts), tagger "
     "(a label for each token), classifier (a label for a text) or features (a recurrent stack on "
     "frames of "
     "numbers)."},
    {"model.cell", [](C& c) -> T { return &c.model.cell; }, kMust,
     "lstm, gru, gru_reset_before (the original), rnn_tanh or rnn_relu."},
    {"model.initializer", [](C& c) -> T { return &c.initial.initializer; }, kStart,
     "How matrices of a fresh run are drawn, but embeddings and recurrent ones: uniform (in +- "
     "1/sqrt of a width), xavier_uniform, xavier_normal or orthogonal, each gate for itself."},
    {"model.recurrent_initializer", [](C& c) -> T { return &c.initial.recurrent_initializer; },
     kStart, "The same of matrices that act on the previous step's h."},
    {"model.forget_bias", [](C& c) -> T { return &c.initial.forget_bias; }, kStart,
     "Added to what biases of an lstm's forget gates are drawn as; 1 lets a fresh run remember."},
    {"model.gate_bias", [](C& c) -> T { return &c.initial.gate_bias; }, kStart,
     "Added to what biases of gates are drawn as: letters and numbers from -100 to 100 with commas "
     "between. Gates of an lstm are i (input), f (forget), g (candidate) and o (output): 'f=1' "
     "lets it remember at first, as model.forget_bias = 1 does, and 'f=1, i=-1' write little, "
     "too; of a gru r (reset), z (update) and n (candidate): 'z=1' lets it remember. A plain RNN "
     "has none."},
    {"model.embedding", [](C& c) -> T { return &c.model.embedding; }, kMust,
     "Width of embeddings, the vectors that tokens begin as; little data wants less."},
    {"model.hidden", [](C& c) -> T { return &c.model.hidden; }, kMust,
     "Units of a layer, in all its directions together: what a model can keep in mind, and most of "
     "its time."},
    {"model.encoder_layers", [](C& c) -> T { return &c.model.encoder_layers; }, kMust,
     "Recurrent layers of the encoder."},
    {"model.decoder_layers", [](C& c) -> T { return &c.model.decoder_layers; }, kMust,
     "Recurrent layers of the decoder."},
    {"model.bidirectional", [](C& c) -> T { return &c.model.bidirectional; }, kMust,
     "Whether a tagger or an encoder reads in both directions, with hidden/2 units each."},
    {"model.attention", [](C& c) -> T { return &c.model.attention; }, kMust,
     "additive (Bahdanau) or multiplicative (Luong)."},
    {"model.dropout", [](C& c) -> T { return &c.model.dropout; }, kMust,
     "Rate of dropout on embeddings, between layers and before the output layer; little data wants "
     "more."},
    {"model.tie_embeddings", [](C& c) -> T { return &c.model.tie_embeddings; }, kMust,
     "Which matrices are one: none, decoder (target embedding and output layer) or all (source "
     "embedding too, with tokenizer.shared); model.embedding must then be model.hidden."},
    {"model.encoder_peepholes", [](C& c) -> T { return &c.model.encoder_peepholes; }, kMust,
     "Whether the gates of the encoder's lstm see its cell state."},
    {"model.encoder_layer_norm", [](C& c) -> T { return &c.model.encoder_layer_norm; }, kMust,
     "Layer norm in the encoder's lstm: of both products and of the cell state."},
    {"model.encoder_zoneout_h", [](C& c) -> T { return &c.model.encoder_zoneout_h; }, kMust,
     "Rate at which the encoder's units keep their h from the step before."},
    {"model.encoder_zoneout_c", [](C& c) -> T { return &c.model.encoder_zoneout_c; }, kMust,
     "Rate at which the encoder's units keep their cell state; lstm only."},
    {"model.encoder_recurrent_dropout",
     [](C& c) -> T { return &c.model.encoder_recurrent_dropout; }, kMust,
     "Rate of dropout on the h that the encoder's recurrent product reads, one mask a sequence."},
    {"model.layers", [](C& c) -> T { return &c.model.layers; }, kMust,
     "Recurrent layers, each on the outputs of the one before."},
    {"model.projections", [](C& c) -> T { return &c.model.projections; }, kMust,
     "Widths that an lstm's layers project their output to, one for all layers or one a layer, "
     "such "
     "as '320 320 448'; empty: none."},
    {"model.peepholes", [](C& c) -> T { return &c.model.peepholes; }, kMust,
     "Whether the gates of an lstm see its cell state."},
    {"model.layer_norm", [](C& c) -> T { return &c.model.layer_norm; }, kMust,
     "Layer norm in an lstm: of both products and of the cell state."},
    {"model.zoneout_h", [](C& c) -> T { return &c.model.zoneout_h; }, kMust,
     "Rate at which units keep their h from the step before."},
    {"model.zoneout_c", [](C& c) -> T { return &c.model.zoneout_c; }, kMust,
     "Rate at which units keep their cell state; lstm only."},
    {"model.recurrent_dropout", [](C& c) -> T { return &c.model.recurrent_dropout; }, kMust,
     "Rate of dropout on the h that the recurrent product reads, one mask a sequence."},
    {"model.pooling", [](C& c) -> T { return &c.model.pooling; }, kMust,
     "How a sequence becomes one vector: last, mean, max or attention; or none, for an answer to "
     "each frame. auto is attention for a classifier and none for features."},
    {"model.target", [](C& c) -> T { return &c.model.target; }, kMust,
     "What a model on features gives: values (by mean squared error) or classes."},
    {"model.normalize", [](C& c) -> T { return &c.model.normalize; }, kMust,
     "Whether features are shifted and scaled to mean 0 and variance 1 over the training frames."},
    {"model.output_layer", [](C& c) -> T { return &c.model.output_layer; }, kMust,
     "Whether a linear layer makes the outputs; without one, they are those of the stack."},
    {"model.output", [](C& c) -> T { return &c.model.output; }, kMust,
     "crf (the labels of a sentence are scored together) or softmax (each by itself)."},
    {"model.source_embeddings_from", [](C& c) -> T { return &c.initial.source_embeddings; }, kStart,
     "Text file of word2vec or GloVe, plain or gzip, whose vectors the source embeddings of a "
     "fresh "
     "run start from, where its words are those of the vocabulary."},
    {"model.target_embeddings_from", [](C& c) -> T { return &c.initial.target_embeddings; }, kStart,
     "The same of the target embeddings."},

    {"training.optimizer", [](C& c) -> T { return &c.optimizer.optimizer; }, kMust,
     "adam (a step of its own for each weight) or sgd (plain, or with training.momentum)."},
    {"training.learning_rate", [](C& c) -> T { return &c.learning_rate.learning_rate; }, kMust,
     "The learning rate after warm-up. If a run diverges, lower it; then try factors of two or "
     "three."},
    {"training.schedule", [](C& c) -> T { return &c.learning_rate.schedule; }, kMust,
     "After warm-up: constant, plateau (lowered when validation stalls), inverse_sqrt (falls with "
     "1/sqrt(step)), cosine (falls along half a wave) or step (lowered every so many steps)."},
    {"training.warmup_steps", [](C& c) -> T { return &c.learning_rate.warmup_steps; }, kMust,
     "The learning rate rises linearly over this many steps."},
    {"training.plateau_factor", [](C& c) -> T { return &c.learning_rate.plateau_factor; }, kMust,
     "What the plateau schedule multiplies the rate by."},
    {"training.plateau_patience", [](C& c) -> T { return &c.learning_rate.plateau_patience; },
     kMust, "Validations without improvement before the plateau schedule lowers the rate."},
    {"training.min_learning_rate", [](C& c) -> T { return &c.learning_rate.min_learning_rate; },
     kMust, "The plateau and step schedules do not go below this rate; the cosine ends at it."},
    {"training.decay_steps", [](C& c) -> T { return &c.learning_rate.decay_steps; }, kMust,
     "Steps from warm-up to the end of the cosine, and between two decays of the step schedule; "
     "both need it."},
    {"training.decay_factor", [](C& c) -> T { return &c.learning_rate.decay_factor; }, kMust,
     "What the step schedule multiplies the rate by."},
    {"training.beta1", [](C& c) -> T { return &c.optimizer.beta1; }, kMust,
     "Adam: decay of the first moment."},
    {"training.beta2", [](C& c) -> T { return &c.optimizer.beta2; }, kMust,
     "Adam: decay of the second moment."},
    {"training.epsilon", [](C& c) -> T { return &c.optimizer.epsilon; }, kMust,
     "Adam: added to the root of the second moment."},
    {"training.momentum", [](C& c) -> T { return &c.optimizer.momentum; }, kMust,
     "SGD: momentum; 0 is plain gradient descent."},
    {"training.weight_decay", [](C& c) -> T { return &c.optimizer.weight_decay; }, kMust,
     "Decay of the weights, apart from the gradient with adam (AdamW), added to it with sgd."},
    {"training.clip_norm", [](C& c) -> T { return &c.optimizer.clip_norm; }, kMust,
     "Gradients are scaled down to this global norm, as those of recurrent models are very large "
     "at some steps; 0 does not clip."},
    {"training.ema_decay", [](C& c) -> T { return &c.optimizer.ema_decay; }, kMust,
     "Decay of an exponential moving average of the weights, which is validated and kept as the "
     "best model in their place, e.g. 0.999; 0 keeps none."},
    {"training.freeze", [](C& c) -> T { return &c.optimizer.freeze; }, kMust,
     "Parameters that are not trained: patterns with * and ?, separated by commas, such as "
     "'source_embedding.*,encoder.*'."},
    {"training.class_weights", [](C& c) -> T { return &c.loop.class_weights; }, kMust,
     "Factors of the loss of labels, 'spam=3, ham=0.5' (those left out have 1), or balanced: the "
     "rarer a label is in training, the more it counts. Not with a CRF."},
    {"training.label_smoothing", [](C& c) -> T { return &c.loop.label_smoothing; }, kMust,
     "Share of the probability spread over the whole vocabulary in the training loss, against "
     "answers that are too sure of themselves; 0.1 is usual in translation."},
    {"training.scheduled_sampling", [](C& c) -> T { return &c.sampling.schedule; }, kMust,
     "How the share of its own predictions rises among the tokens that a model is fed in training: "
     "none, linear, exponential or inverse_sigmoid. It costs a second pass forward."},
    {"training.sampling_steps", [](C& c) -> T { return &c.sampling.steps; }, kMust,
     "k of that schedule, which i steps bring to i/k (linear), 1 - exp(-i/k) (exponential) or 1 - "
     "k/(k + exp(i/k)) (inverse_sigmoid)."},
    {"training.sampling_max", [](C& c) -> T { return &c.sampling.most; }, kMust,
     "The share does not rise above this."},
    {"training.sampling_draw", [](C& c) -> T { return &c.sampling.draw; }, kMust,
     "Whether a model's predictions are drawn by their probability, not the likeliest ones."},
    {"training.bptt", [](C& c) -> T { return &c.loop.bptt; }, kMust,
     "Not 0: the texts are one running text, trained so many steps at a time by truncated "
     "back-propagation through time: its stretches stand side by side, training.max_rows of them "
     "(and at most training.max_tokens / training.bptt), and states go on from batch to batch."},
    {"training.max_tokens", [](C& c) -> T { return &c.loop.max_tokens; }, kMust,
     "Most source and target tokens of a batch, padding counted: larger batches keep a device "
     "busy, "
     "and take memory."},
    {"training.max_rows", [](C& c) -> T { return &c.loop.max_rows; }, kMust,
     "Most examples of a batch."},
    {"training.accumulate", [](C& c) -> T { return &c.loop.accumulate; }, kMust,
     "Batches whose gradients are added up for one step of the optimizer, as if they were one; an "
     "epoch's last step takes what is left of it."},
    {"training.pool", [](C& c) -> T { return &c.loop.pool; }, kMust,
     "Batches are cut from pools of this many shuffled examples sorted by length; take less for "
     "few examples."},
    {"training.max_epochs", [](C& c) -> T { return &c.loop.max_epochs; }, kFree,
     "Stop after so many passes over the examples; 0 is no limit."},
    {"training.max_steps", [](C& c) -> T { return &c.loop.max_steps; }, kFree,
     "Stop after so many steps; 0 is no limit."},
    {"training.seed", [](C& c) -> T { return &c.loop.seed; }, kMust,
     "Decides initial weights, order of examples and dropout: the same seed gives the same "
     "weights, "
     "to the bit, on the same machine."},
    {"training.init_from", [](C& c) -> T { return &c.initial.from; }, kStart,
     "Checkpoint folder, its model.safetensors or the folder of a training run, whose parameters a "
     "fresh run starts from."},
    {"training.init_only", [](C& c) -> T { return &c.initial.only; }, kStart,
     "Which parameters to take from training.init_from: patterns with * and ?, separated by "
     "commas, "
     "such as 'encoder.*'; empty takes all, which must then fit."},
    {"training.validate_every", [](C& c) -> T { return &c.loop.validate_every; }, kMust,
     "Steps between validations; 0 validates after each epoch."},
    {"training.keep_best", [](C& c) -> T { return &c.loop.keep_best; }, kMust,
     "What the best checkpoint, early stopping and the plateau schedule go by: loss, perplexity, "
     "accuracy, of a tagger's entities f1, precision or recall, or of seq2seq's answers by greedy "
     "search exact_match, bleu or chrf."},
    {"training.bleu_tokenizer", [](C& c) -> T { return &c.loop.bleu_tokenizer; }, kMust,
     "What BLEU counts: 13a (words, punctuation apart), zh (Chinese characters one by one), char, "
     "or "
     "none (what stands between white space)."},
    {"training.patience", [](C& c) -> T { return &c.loop.patience; }, kFree,
     "Stop after so many validations without improvement; 0 never does."},
    {"training.checkpoint_every", [](C& c) -> T { return &c.loop.checkpoint_every; }, kFree,
     "Steps between checkpoints to resume from; 0 writes one after each validation."},

    {"output.directory", [](C& c) -> T { return &c.output.directory; }, kFree,
     "Folder of the checkpoints (last/ to resume, best/ to use) and of tensorboard/."},
    {"output.log_every", [](C& c) -> T { return &c.output.log_every; }, kFree,
     "Steps between values for TensorBoard."},
    {"output.histogram_every", [](C& c) -> T { return &c.output.histogram_every; }, kFree,
     "Steps between histograms of all weights and gradients for TensorBoard, at least: they are "
     "taken at the next validation or checkpoint, where training waits anyway. 0 takes none."},
    {"output.attention_images", [](C& c) -> T { return &c.output.attention_images; }, kFree,
     "Examples whose attention is drawn for TensorBoard at each validation: how far the answer's "
     "tokens (down) looked at the input's (across). 0 draws none."},

    {"machine.threads", [](C& c) -> T { return &c.threads; }, kMay,
     "CPU threads; 0 takes OpenMP's own number, which OMP_NUM_THREADS sets."},
    {"machine.device", [](C& c) -> T { return &c.device; }, kMay,
     "Device to train on: cpu, cuda or cuda:N."},
    {"machine.precision", [](C& c) -> T { return &c.precision; }, kMay,
     "float32, tf32 (products round to TF32), bfloat16 or float16 (activations stored in 16 bits; "
     "parameters stay float32; float16 with dynamic loss scaling, on a GPU only)."},
    {"machine.static_shapes", [](C& c) -> T { return &c.static_shapes; }, kMay,
     "Whether batches are padded to some few sizes, so that a GPU runs a whole step as one CUDA "
     "graph: on, off, or auto, which does where the device can."},
    {"machine.autotune", [](C& c) -> T { return &c.autotune; }, kMay,
     "Measure the implementations of recurrent layers whenever a size of batch comes for the first "
     "time, instead of choosing by rule; what was measured is kept with the run."},
};

// In the order of KeyTarget's alternatives.
constexpr std::array<std::string_view, 4> kTypeNames{"string", "integer", "number", "boolean"};

// Quotes, backslashes and control characters escaped as TOML's basic strings want it.
std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04X}", byte);
      continue;
    }
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character;
  }
  return quoted + '"';
}

std::string spell(const std::string* value) { return quote(*value); }
std::string spell(const std::int64_t* value) { return fmt::format("{}", *value); }
std::string spell(const double* value) { return fmt::format("{}", *value); }
std::string spell(const bool* value) { return *value ? "true" : "false"; }

}  // namespace

std::string_view ConfigKey::type() const {
  TrainConfig config;
  return kTypeNames[target(config).index()];
}

std::string ConfigKey::value_of(const TrainConfig& config) const {
  TrainConfig copy = config;
  return std::visit([](const auto* value) { return spell(value); }, target(copy));
}

std::span<const ConfigKey> config_keys() { return kKeys; }

const ConfigKey* find_key(std::string_view name) {
  for (const ConfigKey& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string suggest_key(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ConfigKey& key : kKeys) names.push_back(key.name);
  std::string suggestion = base::did_you_mean(name, names);
  // The right key in the wrong section, or without one.
  const std::string_view bare = name.substr(name.find('.') + 1);
  for (const ConfigKey& key : kKeys) {
    if (key.key() == bare) return fmt::format("; did you mean '{}'?", key.name);
  }
  if (suggestion.empty()) return "; sluice train --example lists every key";
  return suggestion;
}

}  // namespace sluice::training
