#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::training {

/// Where examples come from, plain or gzip files: pairs of texts in `tsv`, or `source` and
/// `target`; texts in `text`; sentences with labels in `conll`.
struct DataConfig {
  std::string tsv;
  std::string source;
  std::string target;
  std::string text;
  std::string validation_tsv;
  std::string validation_source;
  std::string validation_target;
  std::string conll;
  std::string validation_conll;
  std::int64_t token_column = 1;
  std::int64_t tag_column = -1;
  std::string label_scheme = "as-is";
  std::string validation_text;
  std::string source_segmenter;  ///< a command, or empty
  std::string target_segmenter;
  bool stream = false;
  std::int64_t stream_vocabulary_lines = 1'000'000;
  std::int64_t hold_out_run = 0;
  std::int64_t hold_out_every = 0;
  std::int64_t hold_out_fold = 0;
  std::int64_t max_source_tokens = 0;
  std::int64_t max_target_tokens = 0;
  // Of classifiers.
  std::string table;
  std::string validation_table;
  std::string text_column = "text";
  std::string label_column = "label";
  // Of models on dense features.
  std::string features;
  std::string targets;
  std::string validation_features;
  std::string validation_targets;
  std::string resets;  ///< of frames of features
  std::string validation_resets;
};

struct TokenizerConfig {
  std::string kind = "bpe";
  bool shared = false;
  std::int64_t source_vocabulary = 8000;
  std::int64_t target_vocabulary = 8000;
  std::int64_t min_count = 1;
  double character_coverage = 1.0;
  bool byte_fallback = false;
  std::string normalization = "identity";
};

/// Keys of [model]. Each kind has a use for some of them (Task::keys).
struct ModelConfig {
  std::string kind = "seq2seq";
  std::string cell = "lstm";
  std::int64_t embedding = 256;
  std::int64_t hidden = 256;
  std::int64_t encoder_layers = 1;
  std::int64_t decoder_layers = 1;
  bool bidirectional = true;
  std::string attention = "additive";
  double dropout = 0.2;
  std::string tie_embeddings = "none";
  bool encoder_peepholes = false;
  bool encoder_layer_norm = false;
  double encoder_zoneout_h = 0;
  double encoder_zoneout_c = 0;
  double encoder_recurrent_dropout = 0;
  // Of models with one recurrent stack.
  std::int64_t layers = 1;
  std::string widths;       ///< separated by spaces or commas
  std::string projections;  ///< likewise
  bool peepholes = false;
  bool layer_norm = false;
  double zoneout_h = 0;
  double zoneout_c = 0;
  double recurrent_dropout = 0;
  bool hard_sigmoid = false;
  std::string pooling = "auto";
  std::string target = "values";
  bool normalize = true;
  bool output_layer = true;
  std::string output = "crf";
};

struct OptimizerConfig {
  std::string optimizer = "adam";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  double clip_norm = 5;
  double ema_decay = 0;
  std::string freeze;  ///< patterns of parameters that are not trained
};

struct LearningRateConfig {
  double learning_rate = 1e-3;
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;
  double plateau_factor = 0.5;
  std::int64_t plateau_patience = 2;
  std::int64_t decay_steps = 0;
  double decay_factor = 0.5;
  double min_learning_rate = 0;
};

/// Scheduled sampling (ScheduledSampling).
struct SamplingConfig {
  std::string schedule = "none";
  std::int64_t steps = 0;
  double most = 1;
  bool draw = false;
};

struct LoopConfig {
  double label_smoothing = 0;
  std::string class_weights;  ///< "balanced", or "label=2, other=0.5"; empty: all are 1
  std::int64_t bptt = 0;
  std::int64_t max_tokens = 4096;
  std::int64_t max_rows = 512;
  std::int64_t accumulate = 1;
  std::int64_t pool = 8192;
  std::int64_t max_epochs = 20;
  std::int64_t max_steps = 0;
  std::int64_t seed = 1;
  std::int64_t validate_every = 0;
  std::string keep_best = "loss";
  std::string bleu_tokenizer = "13a";
  std::int64_t patience = 0;
  std::int64_t checkpoint_every = 0;
};

/// What the weights of a fresh run start from.
struct InitialConfig {
  // How they are drawn (layers/initializer.h).
  std::string initializer = "uniform";
  std::string recurrent_initializer = "uniform";
  double forget_bias = 0;
  std::string gate_bias;  ///< "f=1, i=-1" (gate_bias.h)
  // What takes the place of what is drawn.
  std::string from;  ///< a checkpoint
  std::string only;  ///< patterns of the parameters taken from it; empty: all
  // Files of word vectors.
  std::string source_embeddings;
  std::string target_embeddings;
};

/// How several ranks work together.
struct DistributedConfig {
  std::string mode = "sync";         ///< or async, average
  std::string exchange = "float32";  ///< or bfloat16, of gradients
  bool shard = false;
  std::int64_t average_every = 8;   ///< steps
  std::int64_t average_from = 0;    ///< step, until which all steps are synchronous
  std::int64_t max_staleness = 64;  ///< steps of others
};

struct OutputConfig {
  std::string directory = "runs/model";
  std::int64_t log_every = 20;
  std::int64_t histogram_every = 0;
  std::int64_t attention_images = 0;
};

/// All that decides a training run. What each key means stands in config_reference().
struct TrainConfig {
  DataConfig data;
  TokenizerConfig tokenizer;
  ModelConfig model;
  OptimizerConfig optimizer;
  LearningRateConfig learning_rate;
  SamplingConfig sampling;
  LoopConfig loop;
  InitialConfig initial;
  OutputConfig output;
  DistributedConfig distributed;
  std::int64_t threads = 0;  ///< 0: as many as OpenMP takes
  std::string device = "cpu";
  std::string devices;  ///< of ranks, separated by commas; empty: `device` alone
  std::string precision = "float32";
  std::string static_shapes = "auto";
  bool autotune = false;

  /// Throws ErrorCode::kInvalidArgument naming the key, its value and what is allowed. Says nothing
  /// of files: examples may come from a program.
  void validate() const;
};

/// Reads a TOML file (train_config_toml.cpp). Throws ErrorCode::kFormat with file and line for what
/// is no TOML, ErrorCode::kInvalidArgument with file and line for an unknown key (with the nearest
/// known one) or a value of the wrong type; kNotFound and kIo as io::read_file. Does not validate.
TrainConfig read_train_config(const std::filesystem::path& path);
/// As read_train_config, of TOML text that `origin` names in errors.
TrainConfig parse_train_config(std::string_view text, std::string_view origin);

/// Sets one key by `section.key=value`; a string stands bare. Errors as read_train_config.
void apply_override(TrainConfig& config, std::string_view assignment);

/// Every key with type, default and meaning, as a commented TOML file.
std::string config_reference();

/// TOML that parse_train_config turns into the same configuration, to the bit.
std::string to_toml(const TrainConfig& config);

/// What a key may do when a run is resumed.
enum class ResumeRule {
  kMustMatch,  ///< another value is another run
  kMayMatter,  ///< the run goes on, but its numbers may differ in the last bits
  kMayChange,
  kAtStart,  ///< acts on a fresh run alone: one that does not set it keeps what it was started with
};

/// Makes `now` the configuration of a run that goes on with the one that `saved` began in `folder`:
/// keys of ResumeRule::kAtStart that it does not set get the saved values. Throws
/// ErrorCode::kInvalidArgument, naming each key with both values, if it changes what a resumed run
/// cannot change.
void go_on_from(const TrainConfig& saved, std::string_view folder, TrainConfig& now);

/// Throws ErrorCode::kInvalidArgument unless the examples of a run that goes on have the
/// fingerprint that `examples` ("training examples") were saved with; names the keys of [data] that
/// changed.
void require_same_examples(std::uint64_t saved_fingerprint, std::uint64_t fingerprint,
                           std::string_view examples, const TrainConfig& saved,
                           const TrainConfig& now);

/// "training.seed (1, now 2)" for every key of that rule whose values differ.
std::vector<std::string> changed_keys(const TrainConfig& saved, const TrainConfig& now,
                                      ResumeRule rule);

}  // namespace sluice::training
