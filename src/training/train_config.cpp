#include "training/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "metrics/bleu_tokens.h"
#include "training/config_keys.h"
#include "training/parameter_patterns.h"
#include "training/task.h"

namespace sluice::training {
namespace {

using base::fail;

constexpr double kMost = std::numeric_limits<float>::max();
// Dropout counts steps in 32 bits.
constexpr std::int64_t kMostSteps = std::numeric_limits<std::uint32_t>::max();

// Reads all of `text`; false if it is not a number of that type.
template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_value(std::string_view text, std::string* value) {
  *value = text;
  return true;
}
bool read_value(std::string_view text, std::int64_t* value) { return read_number(text, *value); }
bool read_value(std::string_view text, double* value) { return read_number(text, *value); }
bool read_value(std::string_view text, bool* value) {
  *value = text == "true";
  return *value || text == "false";
}

void check_one_of(std::string_view key, std::string_view value,
                  std::span<const std::string_view> allowed) {
  for (const std::string_view one : allowed) {
    if (value == one) return;
  }
  fail(ErrorCode::kInvalidArgument, "{} is '{}'; use one of: {}", key, value,
       fmt::join(allowed, ", "));
}
void check_one_of(std::string_view key, std::string_view value,
                  std::initializer_list<std::string_view> allowed) {
  check_one_of(key, value, std::span(allowed.begin(), allowed.size()));
}

void check_at_least(std::string_view key, std::int64_t value, std::int64_t least) {
  SLUICE_CHECK(value >= least, "{} is {}; it must be at least {}", key, value, least);
}

// `least` itself is allowed, `most` is not.
void check_range(std::string_view key, double value, double least, double most) {
  SLUICE_CHECK(value >= least && value < most, "{} is {}; it must be at least {} and less than {}",
               key, value, least, most);
}

void check_tokenizer(const TokenizerConfig& config) {
  check_one_of("tokenizer.kind", config.kind, {"bpe", "unigram", "words", "characters", "smiles"});
  check_at_least("tokenizer.source_vocabulary", config.source_vocabulary, 5);
  check_at_least("tokenizer.target_vocabulary", config.target_vocabulary, 5);
  check_at_least("tokenizer.min_count", config.min_count, 1);
  SLUICE_CHECK(config.character_coverage > 0 && config.character_coverage <= 1,
               "tokenizer.character_coverage is {}; it must be in (0, 1]",
               config.character_coverage);
}

void check_optimizer(const OptimizerConfig& config) {
  check_one_of("training.optimizer", config.optimizer, {"adam", "sgd"});
  check_range("training.beta1", config.beta1, 0, 1);
  check_range("training.beta2", config.beta2, 0, 1);
  check_range("training.momentum", config.momentum, 0, 1);
  check_range("training.epsilon", config.epsilon, 0, 1);
  check_range("training.weight_decay", config.weight_decay, 0, kMost);
  check_range("training.clip_norm", config.clip_norm, 0, kMost);
  // Nearer to one, float32 would lose what a step adds.
  check_range("training.ema_decay", config.ema_decay, 0, 0.999999);
  const ParameterPatterns freeze("training.freeze", config.freeze);
}

void check_learning_rate(const LearningRateConfig& config) {
  check_one_of("training.schedule", config.schedule,
               {"constant", "plateau", "inverse_sqrt", "cosine", "step"});
  check_range("training.learning_rate", config.learning_rate, 0, kMost);
  check_range("training.min_learning_rate", config.min_learning_rate, 0, kMost);
  check_range("training.plateau_factor", config.plateau_factor, 0, 1);
  check_at_least("training.warmup_steps", config.warmup_steps,
                 config.schedule == "inverse_sqrt" ? 1 : 0);
  check_at_least("training.plateau_patience", config.plateau_patience, 1);
  check_range("training.decay_factor", config.decay_factor, 0, 1);
  check_at_least("training.decay_steps", config.decay_steps, 0);
  const bool cosine = config.schedule == "cosine";
  SLUICE_CHECK(config.decay_steps > 0 || (!cosine && config.schedule != "step"),
               "training.schedule is {}, which needs to know over how many steps: set "
               "training.decay_steps",
               config.schedule);
  SLUICE_CHECK(!cosine || config.min_learning_rate <= config.learning_rate,
               "training.min_learning_rate is {}, where the cosine ends; it must be at most "
               "training.learning_rate, {}",
               config.min_learning_rate, config.learning_rate);
}

void check_loop(const LoopConfig& config) {
  check_range("training.label_smoothing", config.label_smoothing, 0, 1);
  check_at_least("training.bptt", config.bptt, 0);
  check_at_least("training.max_tokens", config.max_tokens, 1);
  check_at_least("training.max_rows", config.max_rows, 1);
  check_at_least("training.accumulate", config.accumulate, 1);
  check_at_least("training.pool", config.pool, 1);
  check_at_least("training.max_epochs", config.max_epochs, 0);
  check_at_least("training.max_steps", config.max_steps, 0);
  SLUICE_CHECK(config.max_steps <= kMostSteps, "training.max_steps is {}; it must be at most {}",
               config.max_steps, kMostSteps);
  SLUICE_CHECK(config.max_epochs > 0 || config.max_steps > 0 || config.patience > 0,
               "training would never end: set training.max_epochs, max_steps or patience");
  check_at_least("training.seed", config.seed, 0);
  check_at_least("training.validate_every", config.validate_every, 0);
  check_at_least("training.patience", config.patience, 0);
  check_at_least("training.checkpoint_every", config.checkpoint_every, 0);
  check_one_of("training.bleu_tokenizer", config.bleu_tokenizer, metrics::bleu_tokenizer_names());
}

void check_initial(const InitialConfig& config, std::string_view cell) {
  const std::initializer_list<std::string_view> known{"uniform", "xavier_uniform", "xavier_normal",
                                                      "orthogonal"};
  check_one_of("model.initializer", config.initializer, known);
  check_one_of("model.recurrent_initializer", config.recurrent_initializer, known);
  check_range("model.forget_bias", config.forget_bias, -kMost, kMost);
  SLUICE_CHECK(config.forget_bias == 0 || cell == "lstm",
               "model.forget_bias is {}, but only an lstm has a forget gate; model.cell is {}",
               config.forget_bias, cell);
  const ParameterPatterns only("training.init_only", config.only);
  SLUICE_CHECK(only.empty() || !config.from.empty(),
               "training.init_only is '{}', but training.init_from names no checkpoint to take "
               "parameters from",
               config.only);
}

// Keys that some kinds of models have a use for, and others may not.
std::vector<std::string_view> keys_of_kinds() {
  std::vector<std::string_view> keys;
  for (const Task* task : tasks())
    keys.insert(keys.end(), task->keys().begin(), task->keys().end());
  return keys;
}

void check_task(const TrainConfig& config) {
  const Task& task = task_of(config);
  const std::vector<std::string_view> useless = useless_keys(config, task.keys(), keys_of_kinds());
  SLUICE_CHECK(useless.empty(), "model.kind is '{}', which has no use for {}; leave {} out",
               task.kind(), fmt::join(useless, ", "), useless.size() == 1 ? "it" : "them");
  if (task.find_metric(config.loop.keep_best) == nullptr) {
    std::vector<std::string_view> known;
    for (const ValidationMetric& metric : task.metrics()) known.push_back(metric.key);
    check_one_of("training.keep_best", config.loop.keep_best, known);
  }
  task.check(config);
}

// ", of seq2seq" for a key that not every kind has a use for.
std::string kinds_using(std::string_view key) {
  std::vector<std::string_view> kinds;
  for (const Task* task : tasks()) {
    const auto keys = task->keys();
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) kinds.push_back(task->kind());
  }
  if (kinds.empty() || kinds.size() == tasks().size()) return "";
  return fmt::format(", of {}", fmt::join(kinds, ", "));
}

}  // namespace

void TrainConfig::validate() const {
  check_at_least("data.hold_out_run", data.hold_out_run, 0);
  check_at_least("data.hold_out_every", data.hold_out_every, 0);
  SLUICE_CHECK(data.hold_out_fold >= 0 && data.hold_out_fold <= data.hold_out_every,
               "data.hold_out_fold is {}; it must be in 0..{}, which data.hold_out_every is",
               data.hold_out_fold, data.hold_out_every);
  check_at_least("data.stream_vocabulary_lines", data.stream_vocabulary_lines, 1);
  check_at_least("data.max_source_tokens", data.max_source_tokens, 0);
  check_at_least("data.max_target_tokens", data.max_target_tokens, 0);
  check_tokenizer(tokenizer);
  check_optimizer(optimizer);
  check_learning_rate(learning_rate);
  check_loop(loop);
  check_initial(initial, model.cell);
  check_task(*this);
  SLUICE_CHECK(!output.directory.empty(), "output.directory is empty; name a folder");
  check_at_least("output.log_every", output.log_every, 1);
  check_at_least("output.histogram_every", output.histogram_every, 0);
  check_at_least("output.attention_images", output.attention_images, 0);
  SLUICE_CHECK(threads >= 0 && threads <= 4096, "machine.threads is {}; it must be in 0..4096",
               threads);
  check_one_of("machine.static_shapes", static_shapes, {"auto", "on", "off"});
  check_one_of("machine.precision", precision, {"float32", "tf32", "bfloat16", "float16"});
  SLUICE_CHECK(precision != "float16" || device != "cpu",
               "machine.precision is 'float16', in which a CPU does not train; use bfloat16");
}

void apply_override(TrainConfig& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  SLUICE_CHECK(equals != std::string_view::npos,
               "'{}' sets nothing; write section.key=value, e.g. training.seed=2", assignment);
  const std::string_view name = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(equals + 1);
  const ConfigKey* key = find_key(name);
  SLUICE_CHECK(key != nullptr, "unknown key '{}' in '{}'{}", name, assignment, suggest_key(name));
  const bool read =
      std::visit([&](auto* value) { return read_value(text, value); }, key->target(config));
  SLUICE_CHECK(read, "'{}': {} must be of type {}, such as {}", assignment, name, key->type(),
               key->value_of(TrainConfig()));
}

namespace {

/// All keys by section; each line is `key = value`, after what `before` gives.
template <typename Before>
std::string write_toml(const TrainConfig& config, Before&& before) {
  std::string text;
  std::string_view section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section() != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section());
      section = key.section();
    }
    text += before(key);
    text += fmt::format("{} = {}\n", key.key(), key.value_of(config));
  }
  return text;
}

}  // namespace

std::string config_reference() {
  return write_toml(TrainConfig(), [](const ConfigKey& key) {
    return fmt::format("# {} ({}{})\n", key.help, key.type(), kinds_using(key.name));
  });
}

std::string to_toml(const TrainConfig& config) {
  return write_toml(config, [](const ConfigKey&) { return ""; });
}

void keep_start(const TrainConfig& saved, TrainConfig& now) {
  TrainConfig kept = saved, unset;
  for (const ConfigKey& key : config_keys()) {
    if (key.rule != ResumeRule::kAtStart || key.value_of(now) != key.value_of(unset)) continue;
    std::visit([&](auto* value) { *value = *std::get<decltype(value)>(key.target(kept)); },
               key.target(now));
  }
}

std::vector<std::string> changed_keys(const TrainConfig& saved, const TrainConfig& now,
                                      ResumeRule rule) {
  std::vector<std::string> changed;
  for (const ConfigKey& key : config_keys()) {
    if (key.rule != rule) continue;
    const std::string before = key.value_of(saved);
    const std::string after = key.value_of(now);
    if (before != after) changed.push_back(fmt::format("{} ({}, now {})", key.name, before, after));
  }
  return changed;
}

}  // namespace sluice::training
