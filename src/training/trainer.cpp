#include "training/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/log.h"
#include "io/directory_swap.h"
#include "kernels/loss/loss.h"
#include "training/exact_match.h"
#include "training/threads.h"

namespace sluice::training {

namespace {

namespace fs = std::filesystem;
namespace loss = kernels::loss;
using base::log;
using base::LogLevel;

// Watching costs a wait for the device; more often nobody can read it anyway.
constexpr double kReadSeconds = 0.5;

double steady_seconds() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TrainConfig validated(const TrainConfig& config) {
  config.validate();
  return config;
}

data::BatchOptions batch_options(const TrainConfig& config) {
  return {config.loop.max_tokens, config.loop.max_rows, config.loop.pool};
}

/// Makes the folder and holds it for as long as the lock lives: two runs that took turns in writing
/// one checkpoint would leave neither's.
io::DirectoryLock claim(const fs::path& output) {
  std::error_code reason;
  fs::create_directories(output, reason);
  if (reason) {
    base::fail(ErrorCode::kIo, "cannot make the folder '{}': {}", output.native(),
               reason.message());
  }
  io::DirectoryLock lock;
  if (lock.try_lock(output) == io::DirectoryLock::Result::kBusy) {
    base::fail(ErrorCode::kIo,
               "another process is training in '{}': wait for it or choose another "
               "output.directory",
               output.native());
  }
  return lock;
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

/// What goes to TensorBoard: training values are means over the steps since the last ones.
struct Trainer::MetricsWindow {
  MetricsWindow(const fs::path& directory, std::int64_t first_step)
      : file(directory, first_step), start(steady_seconds()) {}

  void add(const StepReport& report, std::int64_t log_every) {
    loss_sum += report.loss * static_cast<double>(report.target_tokens);
    target_tokens += report.target_tokens;
    all_tokens += report.source_tokens + report.target_tokens;
    if (report.step % log_every != 0) return;
    const double now = steady_seconds();
    file.scalar("train/loss", report.step, loss_sum / static_cast<double>(target_tokens));
    file.scalar("train/learning_rate", report.step, report.learning_rate);
    file.scalar("train/gradient_norm", report.step, report.gradient_norm);
    if (now > start) {
      file.scalar("train/tokens_per_second", report.step,
                  static_cast<double>(all_tokens) / (now - start));
    }
    loss_sum = 0;
    target_tokens = all_tokens = 0;
    start = now;
  }

  MetricsLog file;
  double start;
  double loss_sum = 0;
  std::int64_t target_tokens = 0;
  std::int64_t all_tokens = 0;
};

Trainer::Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start)
    : context_(&context),
      config_(validated(config)),
      data_(std::move(data)),
      output_(config.output.directory),
      learning_rate_(config.learning_rate),
      schedule_(data::lengths_of(data_.train), batch_options(config),
                static_cast<std::uint64_t>(config.loop.seed)),
      step_log_(context) {
  state_.threads = use_threads(context, config.threads);
  state_.device = context.device().name();
  state_.train_fingerprint = data::fingerprint(data_.train);
  if (has_validation()) {
    state_.validation_fingerprint = data::fingerprint(data_.validation);
    validation_batches_ =
        data::sorted_batches(data::lengths_of(data_.validation), batch_options(config));
  } else {
    require_validation(config);
  }
  const bool saved = has_checkpoint(last_path());
  SLUICE_CHECK(start == Start::kResume || !saved,
               "'{}' holds a checkpoint: resume it or choose another output.directory",
               output_.native());
  if (saved) {
    resume();
  } else {
    start_fresh();
  }
  cursor_.emplace(schedule_, state_.position);
  plans_.emplace(*model_);
}

Trainer::~Trainer() = default;

void Trainer::start_fresh() {
  model_ = make_model(*context_, config_, data_.tokenizers);
  optimizer_.emplace(*context_, model_->parameters(), config_.optimizer);
}

void Trainer::resume() {
  LoadedModel loaded = load_model(*context_, last_path(), true);
  const std::vector<std::string> changed =
      changed_keys(loaded.config, config_, ResumeRule::kMustMatch);
  SLUICE_CHECK(changed.empty(),
               "the run in '{}' was started with other values of {}; a resumed run cannot change "
               "them",
               output_.native(), fmt::join(changed, ", "));
  model_ = std::move(loaded.model);
  optimizer_.emplace(*context_, model_->parameters(), config_.optimizer);
  TrainingState saved = load_training_state(*context_, last_path(), *optimizer_);
  SLUICE_CHECK(saved.train_fingerprint == state_.train_fingerprint,
               "the run in '{}' was started with other training examples", output_.native());
  SLUICE_CHECK(saved.validation_fingerprint == state_.validation_fingerprint,
               "the run in '{}' was started with other examples to validate on", output_.native());
  if (saved.threads != state_.threads || saved.device != state_.device) {
    log(LogLevel::kWarning,
        "the run in '{}' was saved with {} threads on device {} and goes on with {} on {}: numbers "
        "may differ in their last bits",
        output_.native(), saved.threads, saved.device, state_.threads, state_.device);
  }
  saved.threads = state_.threads;
  saved.device = state_.device;
  state_ = std::move(saved);
  learning_rate_.restore(state_.learning_rate);
  compare_implementations_ = true;
  unsaved_ = false;
}

bool Trainer::at_boundary() const {
  const std::int64_t every = config_.loop.validate_every;
  return every > 0 ? state_.step % every == 0 : state_.position.batch == 0;
}

bool Trainer::limit_reached() const {
  const LoopConfig& loop = config_.loop;
  return (loop.max_steps > 0 && state_.step >= loop.max_steps) ||
         (loop.max_epochs > 0 && state_.position.epoch >= loop.max_epochs);
}

bool Trainer::stalled() const {
  return config_.loop.patience > 0 && state_.best.stalled >= config_.loop.patience;
}

double Trainer::fraction_done() const {
  const LoopConfig& loop = config_.loop;
  double fraction = -1;
  if (loop.max_steps > 0) {
    fraction = static_cast<double>(state_.step) / static_cast<double>(loop.max_steps);
  }
  if (loop.max_epochs > 0) {
    const double epochs = static_cast<double>(state_.position.epoch) +
                          static_cast<double>(state_.position.batch) /
                              static_cast<double>(cursor_->batches_in_epoch());
    fraction = std::max(fraction, epochs / static_cast<double>(loop.max_epochs));
  }
  return fraction;
}

TrainResult Trainer::run(const TrainHooks& hooks) {
  const io::DirectoryLock lock = claim(output_);
  hooks_ = hooks;
  read_time_ = steady_seconds();
  metrics_ = std::make_unique<MetricsWindow>(output_ / "tensorboard", state_.step + 1);
  // Also when training fails, what is said of it starts on a line of its own.
  struct Finish {
    ~Finish() {
      if (progress != nullptr) progress->finish();
    }
    Progress* progress;
  } finish{hooks.progress};
  const TrainOutcome outcome = loop();
  return {outcome, state_.step, state_.best};
}

TrainOutcome Trainer::loop() {
  while (true) {
    if (state_.validation_due && !validate_and_note()) break;
    if (checkpoint_due_) save_last();
    if (stalled() || limit_reached()) {
      save_last();
      checkpoint_due_ = false;
      if (stalled()) return TrainOutcome::kEarlyStopped;
      if (!has_validation() || at_boundary()) return TrainOutcome::kFinished;
      return validate_at_the_end() ? TrainOutcome::kFinished : TrainOutcome::kStopped;
    }
    checkpoint_due_ = false;
    if (stop_asked()) break;
    train_step();
    after_step();
  }
  save_last();
  return TrainOutcome::kStopped;
}

void Trainer::train_step() {
  const std::int64_t epoch = state_.position.epoch;
  const data::PairBatch host = data::assemble_pairs(data_.train, cursor_->next());
  const models::Seq2SeqBatch batch = upload_.upload(*context_, host);
  models::Seq2SeqTraining& plan = plans_->plan(*context_, batch.extent, true);
  if (compare_implementations_) warn_of_other_implementations();

  unsaved_ = true;
  ++state_.step;
  state_.position = cursor_->position();
  StepReport report;
  report.epoch = epoch + 1;
  report.step = state_.step;
  report.fraction = fraction_done();
  for (const std::int32_t length : host.source_lengths) report.source_tokens += length;
  report.target_tokens = host.target_tokens();
  report.learning_rate = learning_rate_.at(state_.step);

  models::Seq2SeqPass pass;
  pass.label_smoothing = config_.loop.label_smoothing;
  pass.scale = 1.0 / static_cast<double>(report.target_tokens);
  pass.seed = static_cast<std::uint64_t>(config_.loop.seed);
  pass.step = static_cast<std::uint32_t>(state_.step);
  context_->zero(model_->parameters().gradients());
  const Tensor sums = plan.forward_backward(*context_, plans_->arena(), batch, pass);
  optimizer_->step(*context_, state_.step, report.learning_rate);
  step_log_.push(*context_, report, sums, optimizer_->sum_of_squares());
}

void Trainer::after_step() {
  const std::int64_t every = config_.loop.checkpoint_every;
  state_.validation_due = has_validation() && at_boundary();
  checkpoint_due_ = every > 0 ? state_.step % every == 0 : at_boundary();
  if (step_log_.is_full() || steady_seconds() - read_time_ >= kReadSeconds) read_steps();
}

void Trainer::warn_of_other_implementations() {
  compare_implementations_ = false;
  for (const std::string& now : plans_->implementations()) {
    if (state_.implementations.contains(now)) continue;
    log(LogLevel::kWarning,
        "the run in '{}' was computed by {} and goes on with {}: numbers may differ in their last "
        "bits",
        output_.native(), fmt::join(state_.implementations, ", "), now);
  }
}

void Trainer::read_steps() {
  step_log_.read(*context_, [this](const StepReport& report) { tell(report); });
  upload_.release();
  read_time_ = steady_seconds();
}

void Trainer::tell(const StepReport& report) {
  metrics_->add(report, config_.output.log_every);
  if (hooks_.on_step) hooks_.on_step(report);
  if (hooks_.progress == nullptr) return;
  hooks_.progress->update({report.epoch, report.step, report.fraction,
                           report.source_tokens + report.target_tokens, report.loss,
                           report.learning_rate});
}

void Trainer::tell(const ValidationReport& report) {
  MetricsLog& file = metrics_->file;
  file.scalar("validation/loss", report.step, report.loss);
  file.scalar("validation/perplexity", report.step, report.perplexity);
  file.scalar("validation/accuracy", report.step, report.accuracy);
  if (report.exact_match) file.scalar("validation/exact_match", report.step, *report.exact_match);
  if (hooks_.on_validation) hooks_.on_validation(report);
  if (hooks_.progress == nullptr) return;
  std::string line = fmt::format("step {}: validation loss {:.4f}, perplexity {:.3f}", report.step,
                                 report.loss, report.perplexity);
  if (report.exact_match) line += fmt::format(", exact match {:.2f}%", 100 * *report.exact_match);
  hooks_.progress->message(line + (report.improved ? ", best so far" : ""));
}

std::optional<ValidationReport> Trainer::validate() {
  read_steps();
  std::array<double, loss::kSums> total{};
  for (const data::BatchRows& rows : validation_batches_) {
    if (stop_asked()) return std::nullopt;
    const models::Seq2SeqBatch batch =
        upload_.upload(*context_, data::assemble_pairs(data_.validation, rows));
    models::Seq2SeqTraining& plan = plans_->plan(*context_, batch.extent, false);
    const std::vector<double> sums =
        context_->download<double>(plan.evaluate(*context_, plans_->arena(), batch, {}));
    upload_.release();
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
  }
  ValidationReport report;
  report.step = state_.step;
  report.loss = total[loss::kNll] / total[loss::kTokens];
  report.perplexity = std::exp(report.loss);
  report.accuracy = total[loss::kCorrect] / total[loss::kTokens];
  if (!std::isfinite(report.loss)) {
    base::fail(ErrorCode::kNumeric, "the validation loss after step {} is {}: training diverged",
               report.step, report.loss);
  }
  if (config_.loop.keep_best == "exact_match") {
    report.exact_match = exact_match(*context_, *model_, data_.validation, hooks_.stop);
    if (stop_asked()) return std::nullopt;
  }
  return report;
}

double Trainer::metric_of(const ValidationReport& report) const {
  return report.exact_match ? -*report.exact_match : report.loss;
}

// The state changes only when all is done: a validation cut short is done anew.
bool Trainer::validate_and_note() {
  std::optional<ValidationReport> report = validate();
  if (!report) return false;
  const double metric = metric_of(*report);
  report->improved = !state_.best.known || metric < state_.best.value;
  if (report->improved) {
    save_best();
    state_.best = {true, metric, state_.step, 0};
  } else {
    ++state_.best.stalled;
  }
  learning_rate_.validated(metric);
  state_.learning_rate = learning_rate_.state();
  state_.validation_due = false;
  unsaved_ = true;
  tell(*report);
  return true;
}

// Off the schedule, so what is saved to resume from knows nothing of it: a resumed run with a
// higher limit goes on as if it had always had that limit. Its best model may stay, though.
bool Trainer::validate_at_the_end() {
  std::optional<ValidationReport> report = validate();
  if (!report) return false;
  const double metric = metric_of(*report);
  report->improved = !state_.best.known || metric < state_.best.value;
  if (report->improved) {
    save_best();
    state_.best = {true, metric, state_.step, 0};
  }
  tell(*report);
  return true;
}

void Trainer::save_last() {
  read_steps();
  if (!unsaved_) return;
  for (const std::string& name : plans_->implementations()) state_.implementations.insert(name);
  save_checkpoint(*context_, last_path(), *model_, data_.tokenizers, config_, *optimizer_, state_);
  unsaved_ = false;
}

void Trainer::save_best() {
  save_model(*context_, best_path(), *model_, data_.tokenizers, config_);
}

}  // namespace sluice::training
