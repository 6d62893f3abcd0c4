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
     "File of target lines: the answers to data.source."},
    {"data.text", [](C& c) -> T { return &c.data.text; }, kFree,
     "File of texts, one per line, plain or gzip."},
    {"data.validation_tsv", [](C& c) -> T { return &c.data.validation_tsv; }, kFree,
     "Validation examples, in the form of data.tsv."},
    {"data.validation_source", [](C& c) -> T { return &c.data.validation_source; }, kFree,
     "Source lines of the validation examples."},
    {"data.validation_target", [](C& c) -> T { return &c.data.validation_target; }, kFree,
     "Target lines of the validation examples."},
    {"data.conll", [](C& c) -> T { return &c.data.conll; }, kFree,
     "File of columns as in the CoNLL shared tasks: one token per line, a blank line between "
     "sentences."},
    {"data.validation_conll", [](C& c) -> T { return &c.data.validation_conll; }, kFree,
     "Validation sentences, in the form of data.conll."},
    {"data.token_column", [](C& c) -> T { return &c.data.token_column; }, kFree,
     "Column of the token, counted from 1, or from the end: -1 is the last."},
    {"data.tag_column", [](C& c) -> T { return &c.data.tag_column; }, kFree,
     "Column of the label, counted in the same way."},
    {"data.label_scheme", [](C& c) -> T { return &c.data.label_scheme; }, kMust,
     "Rewrites labels of spans: bio (B- begins, I- continues), bioes (also E- for the last token, "
     "S- for a single one), or as-is."},
    {"data.validation_text", [](C& c) -> T { return &c.data.validation_text; }, kFree,
     "Validation texts, in the form of data.text."},
    {"data.source_segmenter", [](C& c) -> T { return &c.data.source_segmenter; }, kFree,
     "Command that reads source texts, one per line, and writes each with spaces between its "
     "words, for languages without spaces. Example: 'python3 -m jieba -d \" \"'."},
    {"data.target_segmenter", [](C& c) -> T { return &c.data.target_segmenter; }, kFree,
     "The same for target texts, and for the texts of a language model."},
    {"data.stream", [](C& c) -> T { return &c.data.stream; }, kFree,
     "Keep the training examples on disk, as token ids or frames, in the folder prepared/ of the "
     "output directory; for files larger than memory. The run gives the same result."},
    {"data.stream_vocabulary_lines", [](C& c) -> T { return &c.data.stream_vocabulary_lines; },
     kFree,
     "With data.stream: make vocabularies from at most this many lines, drawn by training.seed."},
    {"data.hold_out_run", [](C& c) -> T { return &c.data.hold_out_run; }, kMust,
     "Without validation files: cut the examples into runs of this many neighbours, which are held "
     "out together; more than 1 for examples that resemble their neighbours. 0 holds out none."},
    {"data.hold_out_every", [](C& c) -> T { return &c.data.hold_out_every; }, kMust,
     "Without validation files: hold out one of every n of these runs for validation; 10 is usual. "
     "0 holds out none."},
    {"data.hold_out_fold", [](C& c) -> T { return &c.data.hold_out_fold; }, kMust,
     "Which of every n of these runs is held out, counted from 1; 0 is the last. --folds sets it."},
    {"data.max_source_tokens", [](C& c) -> T { return &c.data.max_source_tokens; }, kMust,
     "Examples with more source tokens, or frames, are left out; 0 keeps all."},
    {"data.max_target_tokens", [](C& c) -> T { return &c.data.max_target_tokens; }, kMust,
     "Examples with more target tokens are left out; 0 keeps all."},
    {"data.table", [](C& c) -> T { return &c.data.table; }, kFree,
     "CSV or TSV file, plain or gzip, whose first line names the columns: texts and their labels."},
    {"data.validation_table", [](C& c) -> T { return &c.data.validation_table; }, kFree,
     "Validation examples, in the form of data.table."},
    {"data.text_column", [](C& c) -> T { return &c.data.text_column; }, kFree,
     "The table's column with the texts."},
    {"data.label_column", [](C& c) -> T { return &c.data.label_column; }, kFree,
     "The table's column with the labels."},
    {"data.features", [](C& c) -> T { return &c.data.features; }, kFree,
     "Sequences of frames: a .npy file, a .npz file or a folder of .npy files. For a language "
     "model, one vector for each text: arrays [texts, features]."},
    {"data.targets", [](C& c) -> T { return &c.data.targets; }, kFree,
     "Targets of data.features, per frame or per sequence: values or classes."},
    {"data.validation_features", [](C& c) -> T { return &c.data.validation_features; }, kFree,
     "Validation sequences, in the form of data.features."},
    {"data.validation_targets", [](C& c) -> T { return &c.data.validation_targets; }, kFree,
     "Targets of data.validation_features."},
    {"data.resets", [](C& c) -> T { return &c.data.resets; }, kFree,
     "Where new episodes begin within the sequences of data.features: arrays of bools, or of 0 and "
     "1, one per frame. At a 1 no state passes from the frame before."},
    {"data.validation_resets", [](C& c) -> T { return &c.data.validation_resets; }, kFree,
     "Resets of data.validation_features."},

    {"tokenizer.kind", [](C& c) -> T { return &c.tokenizer.kind; }, kMust,
     "bpe or unigram (SentencePiece), words (between spaces), word_shapes (words; those outside "
     "the vocabulary differ by their shape), characters, or smiles (atoms, bonds and ring numbers "
     "of molecules). A tagger needs words or word_shapes."},
    {"tokenizer.shared", [](C& c) -> T { return &c.tokenizer.shared; }, kMust,
     "One tokenizer for both sides, trained on both, with tokenizer.source_vocabulary ids."},
    {"tokenizer.source_vocabulary", [](C& c) -> T { return &c.tokenizer.source_vocabulary; }, kMust,
     "Number of ids of the source side, including four special ones; for words and characters the "
     "maximum."},
    {"tokenizer.target_vocabulary", [](C& c) -> T { return &c.tokenizer.target_vocabulary; }, kMust,
     "Number of ids of the target side."},
    {"tokenizer.min_count", [](C& c) -> T { return &c.tokenizer.min_count; }, kMust,
     "Words or characters that occur less often are left out of the vocabulary."},
    {"tokenizer.character_coverage", [](C& c) -> T { return &c.tokenizer.character_coverage; },
     kMust, "SentencePiece: share of characters with an id; 0.9995 suits Chinese and Japanese."},
    {"tokenizer.byte_fallback", [](C& c) -> T { return &c.tokenizer.byte_fallback; }, kMust,
     "SentencePiece: spell characters outside the vocabulary as bytes."},
    {"tokenizer.normalization", [](C& c) -> T { return &c.tokenizer.normalization; }, kMust,
     "SentencePiece: identity, nfkc, nmt_nfkc, nfkc_cf or nmt_nfkc_cf."},

    {"model.kind", [](C& c) -> T { return &c.model.kind; }, kMust,
     "Kind of model: seq2seq (text to text), language_model (next token), tagger (a label per "
     "token), classifier (a label per text) or features (a recurrent stack on frames of numbers)."},
    {"model.cell", [](C& c) -> T { return &c.model.cell; }, kMust,
     "lstm, gru (as torch and cuDNN compute it), gru_reset_before (the original GRU), rnn_tanh or "
     "rnn_relu."},
    {"model.initializer", [](C& c) -> T { return &c.initial.initializer; }, kStart,
     "Initial matrices of a fresh run, except embeddings and recurrent ones: uniform (in +-1/sqrt "
     "of a width), xavier_uniform, xavier_normal or orthogonal; each gate separately."},
    {"model.recurrent_initializer", [](C& c) -> T { return &c.initial.recurrent_initializer; },
     kStart, "The same for matrices that multiply the previous step's h."},
    {"model.forget_bias", [](C& c) -> T { return &c.initial.forget_bias; }, kStart,
     "Added to the initial biases of an lstm's forget gates; 1 makes a fresh model remember."},
    {"model.gate_bias", [](C& c) -> T { return &c.initial.gate_bias; }, kStart,
     "Added to the initial biases of gates: letters and numbers from -100 to 100, separated by "
     "commas. Gates of an lstm are i (input), f (forget), g (candidate) and o (output): 'f=1' "
     "makes it remember at first, like model.forget_bias = 1; 'f=1, i=-1' also makes it write "
     "little. Gates of a gru are r (reset), z (update) and n (candidate): 'z=1' makes it remember. "
     "A plain RNN has none."},
    {"model.embedding", [](C& c) -> T { return &c.model.embedding; }, kMust,
     "Width of embeddings, the vectors of tokens; use less with little data."},
    {"model.hidden", [](C& c) -> T { return &c.model.hidden; }, kMust,
     "Units of a layer, in all its directions together. More units remember more and take more "
     "time."},
    {"model.encoder_layers", [](C& c) -> T { return &c.model.encoder_layers; }, kMust,
     "Recurrent layers of the encoder."},
    {"model.decoder_layers", [](C& c) -> T { return &c.model.decoder_layers; }, kMust,
     "Recurrent layers of the decoder."},
    {"model.bidirectional", [](C& c) -> T { return &c.model.bidirectional; }, kMust,
     "Whether the stack (of seq2seq: the encoder) reads in both directions, with hidden/2 units "
     "each. A model that answers while its input arrives needs false."},
    {"model.attention", [](C& c) -> T { return &c.model.attention; }, kMust,
     "additive (Bahdanau), multiplicative (Luong) or none: then each layer of the decoder starts "
     "from the final state of the encoder's layer, and knows nothing else of the input."},
    {"model.dropout", [](C& c) -> T { return &c.model.dropout; }, kMust,
     "Rate of dropout on embeddings, between layers and before the output layer; use more with "
     "little data."},
    {"model.tie_embeddings", [](C& c) -> T { return &c.model.tie_embeddings; }, kMust,
     "Matrices that share one parameter: none, decoder (target embedding and output layer) or all "
     "(source embedding too, with tokenizer.shared); model.embedding must then equal "
     "model.hidden."},
    {"model.encoder_peepholes", [](C& c) -> T { return &c.model.encoder_peepholes; }, kMust,
     "Whether the gates of the encoder's lstm see its cell state."},
    {"model.encoder_layer_norm", [](C& c) -> T { return &c.model.encoder_layer_norm; }, kMust,
     "Layer norm in the encoder's lstm, for both products and the cell state."},
    {"model.encoder_zoneout_h", [](C& c) -> T { return &c.model.encoder_zoneout_h; }, kMust,
     "Rate at which the encoder's units keep their h from the step before."},
    {"model.encoder_zoneout_c", [](C& c) -> T { return &c.model.encoder_zoneout_c; }, kMust,
     "Rate at which the encoder's units keep their cell state; lstm only."},
    {"model.encoder_recurrent_dropout",
     [](C& c) -> T { return &c.model.encoder_recurrent_dropout; }, kMust,
     "Rate of dropout on the h that the encoder's recurrent product reads, with one mask per "
     "sequence."},
    {"model.layers", [](C& c) -> T { return &c.model.layers; }, kMust,
     "Number of recurrent layers; each reads the outputs of the one before."},
    {"model.widths", [](C& c) -> T { return &c.model.widths; }, kMust,
     "Units of each layer where they differ, such as '512 256', in all directions together; empty: "
     "model.hidden for all."},
    {"model.projections", [](C& c) -> T { return &c.model.projections; }, kMust,
     "Widths that an lstm's layers project their output to: one for all layers or one per layer, "
     "such as '320 320 448'; empty: none."},
    {"model.peepholes", [](C& c) -> T { return &c.model.peepholes; }, kMust,
     "Whether the gates of an lstm see its cell state."},
    {"model.layer_norm", [](C& c) -> T { return &c.model.layer_norm; }, kMust,
     "Layer norm in an lstm, for both products and the cell state."},
    {"model.zoneout_h", [](C& c) -> T { return &c.model.zoneout_h; }, kMust,
     "Rate at which units keep their h from the step before."},
    {"model.zoneout_c", [](C& c) -> T { return &c.model.zoneout_c; }, kMust,
     "Rate at which units keep their cell state; lstm only."},
    {"model.recurrent_dropout", [](C& c) -> T { return &c.model.recurrent_dropout; }, kMust,
     "Rate of dropout on the h that the recurrent product reads, with one mask per sequence."},
    {"model.hard_sigmoid", [](C& c) -> T { return &c.model.hard_sigmoid; }, kMust,
     "Whether gates of an lstm or gru are clip(0.2 a + 0.5, 0, 1) instead of the logistic "
     "function, as in models of Keras 1 and 2. Slower: few implementations have it."},
    {"model.pooling", [](C& c) -> T { return &c.model.pooling; }, kMust,
     "How a sequence becomes one vector: last, mean, max or attention; none gives an answer per "
     "frame. auto is attention for a classifier and none for features."},
    {"model.target", [](C& c) -> T { return &c.model.target; }, kMust,
     "What a model on features predicts: values (mean squared error) or classes."},
    {"model.normalize", [](C& c) -> T { return &c.model.normalize; }, kMust,
     "Whether features are shifted and scaled to mean 0 and variance 1 over the training frames. "
     "Targets are never scaled."},
    {"model.output_layer", [](C& c) -> T { return &c.model.output_layer; }, kMust,
     "Whether a linear layer makes the outputs; without it, the stack's outputs are used."},
    {"model.output", [](C& c) -> T { return &c.model.output; }, kMust,
     "crf (scores the labels of a sentence together) or softmax (scores each label alone)."},
    {"model.source_embeddings_from", [](C& c) -> T { return &c.initial.source_embeddings; }, kStart,
     "Text file of word2vec or GloVe, plain or gzip. Source embeddings of a fresh run start from "
     "its vectors where its words are in the vocabulary."},
    {"model.target_embeddings_from", [](C& c) -> T { return &c.initial.target_embeddings; }, kStart,
     "The same for the target embeddings."},

    {"training.optimizer", [](C& c) -> T { return &c.optimizer.optimizer; }, kMust,
     "adam (a step size for each weight; with training.weight_decay it is AdamW) or sgd (plain, or "
     "with training.momentum)."},
    {"training.learning_rate", [](C& c) -> T { return &c.learning_rate.learning_rate; }, kMust,
     "The learning rate after warm-up. If a run diverges, lower it; then try factors of two or "
     "three."},
    {"training.schedule", [](C& c) -> T { return &c.learning_rate.schedule; }, kMust,
     "After warm-up: constant, plateau (lowered when validation stalls), inverse_sqrt (falls with "
     "1/sqrt(step)), cosine (falls along half a cosine) or step (lowered every "
     "training.decay_steps steps)."},
    {"training.warmup_steps", [](C& c) -> T { return &c.learning_rate.warmup_steps; }, kMust,
     "The learning rate rises linearly over this many steps."},
    {"training.plateau_factor", [](C& c) -> T { return &c.learning_rate.plateau_factor; }, kMust,
     "The plateau schedule multiplies the rate by this."},
    {"training.plateau_patience", [](C& c) -> T { return &c.learning_rate.plateau_patience; },
     kMust, "Validations without improvement before the plateau schedule lowers the rate."},
    {"training.min_learning_rate", [](C& c) -> T { return &c.learning_rate.min_learning_rate; },
     kMust, "The plateau and step schedules do not go below this rate; the cosine ends at it."},
    {"training.decay_steps", [](C& c) -> T { return &c.learning_rate.decay_steps; }, kMust,
     "Steps from warm-up to the end of the cosine, and between two decays of the step schedule; "
     "both need it."},
    {"training.decay_factor", [](C& c) -> T { return &c.learning_rate.decay_factor; }, kMust,
     "The step schedule multiplies the rate by this."},
    {"training.beta1", [](C& c) -> T { return &c.optimizer.beta1; }, kMust,
     "Adam: decay of the first moment."},
    {"training.beta2", [](C& c) -> T { return &c.optimizer.beta2; }, kMust,
     "Adam: decay of the second moment."},
    {"training.epsilon", [](C& c) -> T { return &c.optimizer.epsilon; }, kMust,
     "Adam: added to the root of the second moment."},
    {"training.momentum", [](C& c) -> T { return &c.optimizer.momentum; }, kMust,
     "SGD: momentum; 0 is plain gradient descent."},
    {"training.weight_decay", [](C& c) -> T { return &c.optimizer.weight_decay; }, kMust,
     "Decay of the weights: separate from the gradient with adam (AdamW), added to it with sgd."},
    {"training.clip_norm", [](C& c) -> T { return &c.optimizer.clip_norm; }, kMust,
     "Gradients are scaled down to this global norm, because recurrent models have very large "
     "gradients at some steps; 0 does not clip."},
    {"training.ema_decay", [](C& c) -> T { return &c.optimizer.ema_decay; }, kMust,
     "Decay of an exponential moving average of the weights, which is validated and becomes the "
     "best model, e.g. 0.999; 0 keeps none."},
    {"training.freeze", [](C& c) -> T { return &c.optimizer.freeze; }, kMust,
     "Parameters that stay at their initial values: patterns with * and ?, separated by commas, "
     "such as 'source_embedding.*,encoder.*'."},
    {"training.class_weights", [](C& c) -> T { return &c.loop.class_weights; }, kMust,
     "Factors of the loss by label, 'spam=3, ham=0.5' (labels you leave out have 1), or balanced, "
     "which gives rare labels more weight. Not with a CRF."},
    {"training.label_smoothing", [](C& c) -> T { return &c.loop.label_smoothing; }, kMust,
     "Share of the probability that the training loss spreads over the whole vocabulary, against "
     "overconfident answers; 0.1 is usual in translation."},
    {"training.scheduled_sampling", [](C& c) -> T { return &c.sampling.schedule; }, kMust,
     "How the share of the model's own predictions among its inputs rises in training: none, "
     "linear, exponential or inverse_sigmoid. Costs a second forward pass."},
    {"training.sampling_steps", [](C& c) -> T { return &c.sampling.steps; }, kMust,
     "k of the schedule: after i steps the share is i/k (linear), 1 - exp(-i/k) (exponential) or 1 "
     "- k/(k + exp(i/k)) (inverse_sigmoid)."},
    {"training.sampling_max", [](C& c) -> T { return &c.sampling.most; }, kMust,
     "The share stays at or below this."},
    {"training.sampling_draw", [](C& c) -> T { return &c.sampling.draw; }, kMust,
     "Draw the predictions by their probability instead of taking the most probable ones."},
    {"training.bptt", [](C& c) -> T { return &c.loop.bptt; }, kMust,
     "If not 0, the texts are one running text, trained this many steps at a time by truncated "
     "back-propagation through time. Each batch has training.max_rows stretches of the text (at "
     "most training.max_tokens / training.bptt), and their states carry over to the next batch."},
    {"training.max_tokens", [](C& c) -> T { return &c.loop.max_tokens; }, kMust,
     "Maximum number of source and target tokens in a batch, padding included; for features, of "
     "frames and targets. Larger batches use a device better and take more memory."},
    {"training.max_rows", [](C& c) -> T { return &c.loop.max_rows; }, kMust,
     "Maximum number of examples in a batch."},
    {"training.accumulate", [](C& c) -> T { return &c.loop.accumulate; }, kMust,
     "Number of batches whose gradients are added for one step of the optimizer, as if they were "
     "one batch; an epoch's last step takes the remaining ones."},
    {"training.pool", [](C& c) -> T { return &c.loop.pool; }, kMust,
     "Batches are cut from pools of this many shuffled examples, sorted by length; use less for "
     "few examples."},
    {"training.max_epochs", [](C& c) -> T { return &c.loop.max_epochs; }, kFree,
     "Stop after this many passes over the examples; 0 is no limit."},
    {"training.max_steps", [](C& c) -> T { return &c.loop.max_steps; }, kFree,
     "Stop after this many steps; 0 is no limit."},
    {"training.seed", [](C& c) -> T { return &c.loop.seed; }, kMust,
     "Determines initial weights, order of examples and dropout. The same seed gives the same "
     "weights on the same machine, to the bit."},
    {"training.init_from", [](C& c) -> T { return &c.initial.from; }, kStart,
     "A fresh run starts from the parameters of this checkpoint: a checkpoint folder, its "
     "model.safetensors, or the folder of a training run."},
    {"training.init_only", [](C& c) -> T { return &c.initial.only; }, kStart,
     "Parameters to take from training.init_from: patterns with * and ?, separated by commas, such "
     "as 'encoder.*'; empty takes all, which must then fit."},
    {"training.validate_every", [](C& c) -> T { return &c.loop.validate_every; }, kMust,
     "Steps between validations; 0 validates after each epoch."},
    {"training.keep_best", [](C& c) -> T { return &c.loop.keep_best; }, kMust,
     "The metric for the best checkpoint, early stopping and the plateau schedule: loss, "
     "perplexity, accuracy; for taggers also f1, precision or recall of entities; for seq2seq also "
     "exact_match, bleu or chrf of answers by greedy search."},
    {"training.bleu_tokenizer", [](C& c) -> T { return &c.loop.bleu_tokenizer; }, kMust,
     "The units of BLEU: 13a (words, punctuation separate), zh (single Chinese characters), char, "
     "or none (split at white space)."},
    {"training.patience", [](C& c) -> T { return &c.loop.patience; }, kFree,
     "Stop after this many validations without improvement; 0 never does."},
    {"training.checkpoint_every", [](C& c) -> T { return &c.loop.checkpoint_every; }, kFree,
     "Steps between checkpoints to resume from; 0 writes one after each validation."},

    {"output.directory", [](C& c) -> T { return &c.output.directory; }, kFree,
     "Folder for the checkpoints (last/ to resume, best/ to use) and tensorboard/."},
    {"output.log_every", [](C& c) -> T { return &c.output.log_every; }, kFree,
     "Steps between values for TensorBoard."},
    {"output.histogram_every", [](C& c) -> T { return &c.output.histogram_every; }, kFree,
     "Minimum number of steps between histograms of all weights and gradients for TensorBoard. "
     "They are taken at the next validation or checkpoint, where training waits anyway. 0 takes "
     "none."},
    {"output.attention_images", [](C& c) -> T { return &c.output.attention_images; }, kFree,
     "Number of examples whose attention is drawn for TensorBoard at each validation: answer "
     "tokens from top to bottom, input tokens from left to right. 0 draws none."},

    {"distributed.mode", [](C& c) -> T { return &c.distributed.mode; }, kMay,
     "How several ranks train: sync (one step together, as one rank would), async (each steps the "
     "same parameters with a batch of its own when it is ready) or average (each steps its own "
     "parameters, and now and then all take their mean)."},
    {"distributed.exchange", [](C& c) -> T { return &c.distributed.exchange; }, kMay,
     "What gradients are rounded to while several ranks add them up: float32 or bfloat16, which "
     "halves what travels."},
    {"distributed.shard", [](C& c) -> T { return &c.distributed.shard; }, kMay,
     "Whether each of several ranks steps its own part of the parameters and gives it to the "
     "others, "
     "which divides the optimiser's work."},
    {"distributed.average_every", [](C& c) -> T { return &c.distributed.average_every; }, kMay,
     "In mode average: steps between means. Ranks also take them before a validation and a "
     "checkpoint."},
    {"distributed.average_from", [](C& c) -> T { return &c.distributed.average_from; }, kMay,
     "In mode average: the number of steps that all ranks make together before."},
    {"distributed.max_staleness", [](C& c) -> T { return &c.distributed.max_staleness; }, kMay,
     "In mode async: how many steps of other ranks may come between reading parameters and "
     "applying their gradient; an older one is dropped."},

    {"machine.threads", [](C& c) -> T { return &c.threads; }, kMay,
     "CPU threads; 0 uses OpenMP's number, which OMP_NUM_THREADS sets. Of several ranks: threads "
     "of "
     "each; 0 divides OpenMP's number."},
    {"machine.device", [](C& c) -> T { return &c.device; }, kMay,
     "Device to train on: cpu, cuda or cuda:N."},
    {"machine.devices", [](C& c) -> T { return &c.devices; }, kMay,
     "Devices to train on together, separated by commas, such as 'cuda:0,cuda:1', 'cuda:all' or "
     "'cpu,cpu'; empty: machine.device. Each is a rank with its share of every batch "
     "(docs/distributed.md)."},
    {"machine.precision", [](C& c) -> T { return &c.precision; }, kMay,
     "float32, tf32 (products round to TF32), bfloat16 or float16 (activations stored in 16 bits; "
     "parameters stay float32; float16 with dynamic loss scaling, on a GPU only)."},
    {"machine.static_shapes", [](C& c) -> T { return &c.static_shapes; }, kMay,
     "Pad batches to few sizes, so that a GPU runs a whole step as one CUDA graph: on, off, or "
     "auto (where the device can)."},
    {"machine.autotune", [](C& c) -> T { return &c.autotune; }, kMay,
     "Measure the implementations of recurrent layers at each new batch size, instead of choosing "
     "by rule; the run keeps the measurements."},
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
