#include "training/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/warn.h"
#include "runtime/threads.h"
#include "training/batch_limit.h"
#include "training/initial_weights.h"

namespace sluice::training {

namespace {

TrainConfig validated(const TrainConfig& config) {
  config.validate();
  return config;
}

data::BatchOptions batch_options(const TrainConfig& config) {
  return {config.loop.max_tokens, config.loop.max_rows, config.loop.pool};
}

/// Steps between two means are kept until then.
std::int64_t log_capacity(const TrainConfig& config) {
  const bool averages = config.distributed.mode == "average";
  return std::max(StepLog::kCapacity, averages ? config.distributed.average_every : 0);
}

/// The configuration without the keys that may differ between ranks.
TrainConfig without_place(TrainConfig config) {
  config.device.clear();
  config.threads = 0;
  return config;
}

TrainData batchable(const TrainConfig& config, TrainData data) {
  require_in_batches(config, *data.train, "training");
  if (data.validation) require_in_batches(config, *data.validation, "validation");
  return data;
}

void require_validation(const TrainConfig& config) {
  SLUICE_CHECK(config.loop.patience == 0,
               "training.patience is {}, but there are no examples to validate on: name validation "
               "files or set data.hold_out_run and hold_out_every",
               config.loop.patience);
  SLUICE_CHECK(config.learning_rate.schedule != "plateau",
               "training.schedule is plateau, but there are no examples to validate on: name "
               "validation files or set data.hold_out_run and hold_out_every");
}

}  // namespace

Trainer::Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start)
    : Trainer(context, config, std::move(data), start, RunFolder(config.output.directory)) {}

Trainer::Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start,
                 RunFolder folder)
    : Trainer(context, config, std::move(data), start, std::optional(std::move(folder)), nullptr) {}

Trainer::Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start,
                 std::optional<RunFolder> folder, distributed::Communicator* ranks)
    : context_(&context),
      ranks_(ranks),
      config_(validated(config)),
      task_(&task_of(config_)),
      data_(batchable(config_, std::move(data))),
      folder_(std::move(folder)),
      learning_rate_(config.learning_rate),
      schedule_(data_.train->lengths(), data::in_their_order(*data_.train, batch_options(config)),
                static_cast<std::uint64_t>(config.loop.seed)),
      most_loss_(task_->divergence_bound(data_)),
      step_log_(context, most_loss_, ranks == nullptr ? 1 : ranks->size(), log_capacity(config)) {
  state_.threads = runtime::use_threads(context, config.threads);
  state_.device = context.device().name();
  if (ranks_ != nullptr) state_.device += fmt::format(" x {}", ranks_->size());
  state_.train_fingerprint = data_.train->fingerprint();
  if (data_.validation) {
    state_.validation_fingerprint = data_.validation->fingerprint();
    validation_.emplace(data_, batch_options(config), *task_, config.loop.keep_best);
  } else {
    require_validation(config);
  }
  SLUICE_ASSERT(leads() == folder_.has_value());
  if (ranks_ != nullptr) require_same_start();
  if (leads()) {
    const bool saved = has_checkpoint(folder_->last());
    SLUICE_CHECK(start == Start::kResume || !saved,
                 "'{}' holds a checkpoint: resume it or choose another output.directory",
                 folder_->path().native());
    if (saved) {
      resume();
    } else {
      start_fresh();
    }
  }
  if (ranks_ != nullptr) share_start();
  cursor_.emplace(schedule_, state_.position);
}

void Trainer::make_step() {
  task_->prepare_training(*context_, config_, data_, *model_);
  TrainingStep::Options options;
  options.label_smoothing = config_.loop.label_smoothing;
  options.seed = static_cast<std::uint64_t>(config_.loop.seed);
  options.sampling = ScheduledSampling(config_.sampling);
  options.static_shapes = config_.static_shapes == "auto" ? context_->stream().can_capture()
                                                          : config_.static_shapes == "on";
  options.loss_scaling = context_->precision().storage == runtime::DType::kFloat16;
  options.ranks = ranks_;
  options.exchange = {config_.distributed.exchange == "bfloat16", config_.distributed.shard};
  step_.emplace(*context_, *model_, config_.optimizer, options);
}

void Trainer::start_fresh() {
  model_ = make_model(*context_, config_, data_);
  start_notes_ = set_initial_weights(*context_, config_, data_.tokenizers, model_->parameters());
  // Resumed after a kill before its first checkpoint, the run could be told to start otherwise.
  checkpoint_due_ = !start_notes_.empty();
  make_step();
}

void Trainer::resume() {
  LoadedModel loaded = model_files::load_model(*context_, folder_->last(), true);
  const TrainConfig started = run_config(loaded);
  go_on_from(started, folder_->path().native(), config_);
  model_ = std::move(loaded.model);
  make_step();
  TrainingState saved =
      load_training_state(*context_, folder_->last(), *model_, step_->optimizer());
  require_same_examples(saved.train_fingerprint, state_.train_fingerprint, "training examples",
                        started, config_);
  require_same_examples(saved.validation_fingerprint, state_.validation_fingerprint,
                        "examples to validate on", started, config_);
  if (saved.threads != state_.threads || saved.device != state_.device) {
    base::warn(
        context_->warnings(),
        "the run in '{}' was saved with {} on device {} and continues with {} on {}: numbers may "
        "differ in their last bits",
        folder_->path().native(), base::counted(saved.threads, "thread"), saved.device,
        state_.threads, state_.device);
  }
  if (started.precision != config_.precision) {
    base::warn(context_->warnings(), "the run in '{}' was computed in {} and continues in {}",
               folder_->path().native(), started.precision, config_.precision);
  }
  const auto warn_of = [&](std::string_view what, const auto& then, const auto& now) {
    if (then == now) return;
    base::warn(
        context_->warnings(),
        "the run in '{}' was computed with {} = {} and continues with {}: numbers may differ in "
        "their "
        "last bits",
        folder_->path().native(), what, then, now);
  };
  warn_of("machine.static_shapes", started.static_shapes, config_.static_shapes);
  warn_of("machine.autotune", started.autotune, config_.autotune);
  if (ranks_ != nullptr) {
    warn_of("distributed.mode", started.distributed.mode, config_.distributed.mode);
    warn_of("distributed.exchange", started.distributed.exchange, config_.distributed.exchange);
    warn_of("distributed.shard", started.distributed.shard, config_.distributed.shard);
  }
  saved.threads = state_.threads;
  saved.device = state_.device;
  state_ = std::move(saved);
  learning_rate_.restore(state_.learning_rate);
  if (context_->tuning() != nullptr) *context_->tuning() = runtime::Tuning(state_.tuning);
  compare_implementations_ = true;
  unsaved_ = false;
}

void Trainer::require_same_start() {
  SLUICE_CHECK(
      !config_.autotune,
      "machine.autotune is true, but {} ranks would each choose by their own clock; set it "
      "to false",
      ranks_->size());
  const auto agree = [&](std::string_view what, const std::string& own) {
    distributed::agree(*ranks_, what, own);
  };
  agree("configuration", to_toml(without_place(config_)));
  agree("set of training examples", std::to_string(state_.train_fingerprint));
  agree("set of examples to validate on", std::to_string(state_.validation_fingerprint));
}

// In the order in which all ranks say and hear it.
void Trainer::share_start() {
  const std::string config = distributed::from_first(*ranks_, to_toml(config_));
  if (!leads()) {
    TrainConfig firsts = parse_train_config(config, "rank 0");
    firsts.device = config_.device;
    firsts.threads = config_.threads;
    config_ = std::move(firsts);
    model_ = make_model(*context_, config_, data_);
    make_step();
  }
  // Ranks that share parameters get them when they open the window.
  if (config_.distributed.mode != "async") {
    ranks_->broadcast(*context_, model_->parameters().values(), 0);
    for (const runtime::Tensor& tensor : step_->optimizer().state()) {
      ranks_->broadcast(*context_, tensor, 0);
    }
    context_->synchronize();
  }
  model_->parameters().note_change();
  scatter_carried(*context_, *model_, *ranks_);
  const std::string state = distributed::from_first(*ranks_, to_json(state_));
  checkpoint_due_ = distributed::any(*ranks_, checkpoint_due_);
  unsaved_ = distributed::from_first(*ranks_, unsaved_ ? "1" : "0") == "1";
  if (leads()) return;
  TrainingState firsts = parse_training_state(state, "rank 0");
  firsts.threads = state_.threads;
  firsts.device = state_.device;
  state_ = std::move(firsts);
  learning_rate_.restore(state_.learning_rate);
}

void Trainer::warn_of_other_implementations() {
  compare_implementations_ = false;
  if (state_.implementations.empty()) return;  // stopped before its first step
  for (const std::string& now : step_->plans().implementations()) {
    if (state_.implementations.contains(now)) continue;
    base::warn(context_->warnings(),
               "the run in '{}' was computed by {} and continues with {}: numbers may differ in "
               "their last "
               "bits",
               folder_->path().native(), fmt::join(state_.implementations, ", "), now);
  }
}

}  // namespace sluice::training
