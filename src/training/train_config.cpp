#include "training/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "training/config_keys.h"
#include "training/gate_bias.h"
#include "training/key_limits.h"
#include "training/parameter_patterns.h"
#include "training/task.h"

namespace sluice::training {
namespace {

using base::fail;

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

void check_optimizer(const OptimizerConfig& config) {
  const ParameterPatterns freeze("training.freeze", config.freeze);
}

void check_learning_rate(const LearningRateConfig& config) {
  SLUICE_CHECK(config.schedule != "inverse_sqrt" || config.warmup_steps >= 1,
               "training.warmup_steps is {}; training.schedule is inverse_sqrt, for which it must "
               "be at least 1",
               config.warmup_steps);
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

void check_sampling(const SamplingConfig& config) {
  SLUICE_CHECK(config.schedule == "none" || config.steps > 0,
               "training.scheduled_sampling is {}, which needs to know over how many steps: set "
               "training.sampling_steps",
               config.schedule);
  SLUICE_CHECK(config.schedule != "none" || !config.draw,
               "training.sampling_draw is true, but training.scheduled_sampling is none, so that "
               "nothing is sampled: set training.scheduled_sampling or leave sampling_draw out");
}

void check_loop(const LoopConfig& config) {
  SLUICE_CHECK(config.max_epochs > 0 || config.max_steps > 0 || config.patience > 0,
               "training would never end: set training.max_epochs, max_steps or patience");
}

void check_initial(const InitialConfig& config, std::string_view cell) {
  gate_bias_of(config, cell);  // refuses what isn't the cell's
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

/// ": this kind has model.encoder_layers and model.decoder_layers instead" of model.layers.
std::string of_both_sides(std::span<const std::string_view> useless, const Task& task) {
  std::vector<std::string> found;
  for (const std::string_view key : useless) {
    for (const char* side : {"encoder", "decoder"}) {
      const std::string name = fmt::format("model.{}_{}", side, key.substr(key.find('.') + 1));
      if (std::ranges::find(task.keys(), name) != task.keys().end()) found.push_back(name);
    }
  }
  if (found.empty()) return "";
  return fmt::format(": this kind has {} instead", fmt::join(found, " and "));
}

void check_task(const TrainConfig& config) {
  const Task& task = task_of(config);
  const std::vector<std::string_view> useless = useless_keys(config, task.keys(), keys_of_kinds());
  SLUICE_CHECK(useless.empty(), "model.kind is '{}', which has no use for {}; leave {} out{}",
               task.kind(), fmt::join(useless, ", "), useless.size() == 1 ? "it" : "them",
               of_both_sides(useless, task));
  if (task.find_metric(config.loop.keep_best) == nullptr) {
    std::vector<std::string_view> known;
    for (const ValidationMetric& metric : task.metrics()) known.push_back(metric.key);
    fail(ErrorCode::kInvalidArgument, "training.keep_best is '{}'; use one of: {}",
         config.loop.keep_best, fmt::join(known, ", "));
  }
  task.check(config);
}

// ", of seq2seq" for a key that not every kind has a use for.
std::string of_kinds(std::string_view key) {
  const std::vector<std::string_view> kinds = kinds_using(key);
  return kinds.empty() ? "" : fmt::format(", of {}", fmt::join(kinds, ", "));
}

void check_distributed(const TrainConfig& config) {
  const DistributedConfig& ranks = config.distributed;
  if (ranks.mode == "sync") return;
  SLUICE_CHECK(ranks.exchange == "float32" && !ranks.shard,
               "distributed.mode is '{}'; distributed.exchange = bfloat16 and distributed.shard = "
               "true are for mode sync",
               ranks.mode);
  SLUICE_CHECK(config.precision != "float16",
               "machine.precision is 'float16', but with distributed.mode = {} each rank would "
               "scale its loss in its own way; use bfloat16",
               ranks.mode);
  if (ranks.mode != "async") return;
  SLUICE_CHECK(config.loop.bptt == 0,
               "training.bptt is {}, but with distributed.mode = async the batches of a text go to "
               "any rank; use mode sync or average",
               config.loop.bptt);
  SLUICE_CHECK(
      config.optimizer.ema_decay == 0,
      "training.ema_decay is {}, but with distributed.mode = async no rank sees all steps; "
      "use mode sync or average",
      config.optimizer.ema_decay);
}

}  // namespace

void TrainConfig::validate() const {
  check_limits(*this);
  SLUICE_CHECK(data.hold_out_fold <= data.hold_out_every,
               "data.hold_out_fold is {}; it must be in 0..{}, which data.hold_out_every is",
               data.hold_out_fold, data.hold_out_every);
  check_optimizer(optimizer);
  check_learning_rate(learning_rate);
  check_sampling(sampling);
  check_loop(loop);
  check_initial(initial, model.cell);
  check_task(*this);
  check_distributed(*this);
  SLUICE_CHECK(!output.directory.empty(), "output.directory is empty; name a folder");
  SLUICE_CHECK(precision != "float16" || device != "cpu",
               "machine.precision is 'float16', in which a CPU does not train; use float32");
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
    return fmt::format("# {} ({}{})\n", key.help, key.type(), of_kinds(key.name));
  });
}

std::string to_toml(const TrainConfig& config) {
  return write_toml(config, [](const ConfigKey&) { return ""; });
}

namespace {

void keep_start(const TrainConfig& saved, TrainConfig& now) {
  TrainConfig kept = saved, unset;
  for (const ConfigKey& key : config_keys()) {
    if (key.rule != ResumeRule::kAtStart || key.value_of(now) != key.value_of(unset)) continue;
    std::visit([&](auto* value) { *value = *std::get<decltype(value)>(key.target(kept)); },
               key.target(now));
  }
}

}  // namespace

void go_on_from(const TrainConfig& saved, std::string_view folder, TrainConfig& now) {
  keep_start(saved, now);
  std::vector<std::string> changed = changed_keys(saved, now, ResumeRule::kMustMatch);
  for (std::string& key : changed_keys(saved, now, ResumeRule::kAtStart)) {
    changed.push_back(std::move(key));
  }
  SLUICE_CHECK(changed.empty(),
               "the run in '{}' was started with other values of {}; a resumed run cannot change "
               "them: set them as they were, or choose another output.directory",
               folder, fmt::join(changed, ", "));
}

void require_same_examples(std::uint64_t saved_fingerprint, std::uint64_t fingerprint,
                           std::string_view examples, const TrainConfig& saved,
                           const TrainConfig& now) {
  if (saved_fingerprint == fingerprint) return;
  std::vector<std::string> changed = changed_keys(saved, now, ResumeRule::kMayChange);
  std::erase_if(changed, [](const std::string& key) { return !key.starts_with("data."); });
  base::fail(ErrorCode::kInvalidArgument,
             "the run in '{}' was started with other {}: {}; name files with the same examples, or "
             "choose another output.directory",
             now.output.directory, examples,
             changed.empty() ? "its files hold something else now"
                             : fmt::format("changed since are {}", fmt::join(changed, ", ")));
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
