#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "runtime/span.h"
#include "training/averaged_weights.h"
#include "training/ranks/dealt_rows.h"
#include "training/trainer.h"

/// What a trainer does once it has a model: steps, validations, checkpoints.
namespace sluice::training {

namespace {

// Watching costs a wait for the device; more often nobody can read it anyway.
constexpr double kReadSeconds = 0.5;

// Examples that a model is measured on before it is saved. Weights that are beyond hope show in
// any; so few need no more memory than the step had, whose batch is planned for as many at least.
constexpr std::size_t kJudgedRows = 16;

}  // namespace

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
  std::optional<RunReport> report;
  if (leads()) {
    report.emplace(folder_->tensorboard(), state_.step + 1, config_.output.log_every, hooks,
                   context_->warnings());
    report_ = &*report;
  }
  stop_ = hooks.stop;
  read_time_ = steady_seconds();
  weights_step_ = state_.step;
  if (ranks_ != nullptr && config_.distributed.mode == "async") {
    shared_.emplace(*context_, *ranks_, model_->parameters(), step_->optimizer(),
                    config_.distributed.max_staleness);
    reported_totals_.assign(static_cast<std::size_t>(ranks_->size()), {});
    reported_step_ = state_.step;
  }
  const TrainOutcome outcome = loop();
  if (shared_) shared_->finish();
  shared_.reset();
  return {outcome, state_.step, state_.best};
}

TrainOutcome Trainer::loop() {
  while (true) {
    if (state_.validation_due || checkpoint_due_ || limit_reached()) log_weights();
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
    if (may_stop_ && stop_asked()) break;
    if (is_async()) {
      train_apart();
    } else {
      runtime::run_step(*context_, "step", state_.step + 1, [this] { train_step(); });
    }
    after_step();
  }
  save_last();
  return TrainOutcome::kStopped;
}

void Trainer::train_step() {
  const std::int64_t epoch = state_.position.epoch;
  std::vector<data::Batch> batches = next_batches();
  ++state_.step;
  state_.position = cursor_->position();
  StepReport report = report_of(batches);
  report.epoch = epoch + 1;
  unsaved_ = true;
  const StepSums sums = run_step(std::move(batches), report);
  if (compare_implementations_) warn_of_other_implementations();
  step_log_.push(*context_, report, sums);
}

StepReport Trainer::report_of(std::span<const data::Batch> batches) const {
  StepReport report;
  report.step = state_.step;
  report.fraction = fraction_done();
  report.learning_rate = learning_rate_.at(state_.step);
  for (const data::Batch& batch : batches) {
    report.source_tokens += batch.source_tokens();
    report.target_tokens += batch.target_tokens();
  }
  return report;
}

StepSums Trainer::run_step(std::vector<data::Batch> batches, const StepReport& report) {
  if (ranks_ == nullptr) return step_->run(*context_, batches, report.step, report.learning_rate);
  const auto tokens = static_cast<double>(report.target_tokens);
  if (is_async()) {
    return step_->run_apart(*context_, batches, report.step, report.learning_rate, tokens,
                            &*shared_);
  }
  if (!steps_own_parameters()) {
    const WholeStep whole = whole_step_of(batches, config_.sampling.schedule != "none");
    return step_->run_together(*context_, own_rows(std::move(batches)), report.step,
                               report.learning_rate, whole);
  }
  batches = own_rows(std::move(batches));
  // The mean of the gradients of all ranks is then that of the whole batch.
  return step_->run_apart(*context_, batches, report.step, report.learning_rate,
                          tokens / static_cast<double>(ranks_->size()), nullptr);
}

/// Calls visit(rows) for each batch of the next step. A step keeps within an epoch, so that its end
/// is never in the midst of one.
void Trainer::pass_batches(const std::function<void(const data::BatchRows&)>& visit) {
  std::int64_t count = 0;
  do {
    visit(cursor_->next());
  } while (++count < config_.loop.accumulate && cursor_->position().batch != 0);
}

std::vector<data::Batch> Trainer::next_batches() {
  const runtime::Span span(*context_, "data", "next batch");
  std::vector<data::Batch> batches;
  pass_batches([&](const data::BatchRows& rows) {
    last_rows_ = rows;
    batches.push_back(data_.train->assemble(last_rows_));
  });
  return batches;
}

std::vector<data::Batch> Trainer::own_rows(std::vector<data::Batch> batches) const {
  const bool carries = data_.train->rows_in_order() > 0;
  for (data::Batch& batch : batches) {
    batch = dealt_rows(batch, ranks_->rank(), ranks_->size(), carries);
  }
  return batches;
}

// All ranks stop before the same step.
bool Trainer::stop_asked() const {
  const bool asked = stop_ != nullptr && *stop_;
  return ranks_ == nullptr ? asked : distributed::any(*ranks_, asked);
}

void Trainer::after_step() {
  state_.validation_due = validation_is_due();
  checkpoint_due_ = checkpoint_is_due();
  may_stop_ = parameters_agree();
  if (!may_stop_) return;
  if (steps_own_parameters()) average();
  const bool averages = config_.distributed.mode == "average";
  if (step_log_.is_full(averages ? config_.distributed.average_every : 1) || is_time_to_read()) {
    read_steps();
  }
}

bool Trainer::checkpoint_is_due() const {
  const std::int64_t every = config_.loop.checkpoint_every;
  return every > 0 ? state_.step % every == 0 : at_boundary();
}

bool Trainer::is_time_to_read() const { return steady_seconds() - read_time_ >= kReadSeconds; }

void Trainer::read_steps() {
  const runtime::Span span(*context_, "step_log", "read");
  if (is_async()) return read_shared_steps();
  step_log_.read(*context_, [this](const StepReport& report) {
    if (report_ != nullptr) report_->tell(report);
  });
  read_time_ = steady_seconds();
}

// To be called where training waits for the device anyway.
void Trainer::log_weights() {
  const std::int64_t every = config_.output.histogram_every;
  if (every == 0 || state_.step - weights_step_ < every) return;
  read_steps();  // of a run that has diverged nothing is shown
  step_->gather_gradients(*context_);
  if (report_ != nullptr) report_->tell(*context_, model_->parameters(), state_.step);
  weights_step_ = state_.step;
}

// Rank 0 validates, for all have the same weights. The others wait for its verdict.
std::optional<ValidationReport> Trainer::validate() {
  read_steps();
  if (ranks_ == nullptr) return validate_alone();
  std::optional<ValidationReport> report;
  if (leads()) report = validate_alone();
  const std::string told = distributed::from_first(
      *ranks_, report ? fmt::format("{:a} {}", report->metric, report->improved) : "");
  if (leads() || told.empty()) return report;
  report.emplace();
  report->step = state_.step;
  report->metric = std::strtod(told.c_str(), nullptr);
  report->improved = told.ends_with("true");
  if (report->improved) state_.best = {true, report->metric, state_.step, 0};
  return report;
}

std::optional<ValidationReport> Trainer::validate_alone() {
  const runtime::Span span(*context_, "validation");
  const AveragedWeights averaged(*context_, model_->parameters(), step_->optimizer(), state_.step);
  const Context unwatched = unwatched_context();
  const base::Watch watch = [this](std::string_view what, double done) {
    report_->tell_work(what, done);
  };
  std::optional<ValidationReport> report =
      validation_->run(unwatched, *model_, step_->plans(), state_.step, stop_, watch);
  if (!report) return std::nullopt;
  refuse_diverged("the validation loss", report->loss);
  const std::int64_t drawn = config_.output.attention_images;
  if (drawn > 0 && data_.samples)
    report_->tell(data_.samples(unwatched, *model_, drawn), state_.step);
  report->improved = !state_.best.known || report->metric < state_.best.value;
  if (report->improved) {
    model_files::save_model(*context_, folder_->best(), *model_, data_.tokenizers,
                            to_toml(config_));
    state_.best = {true, report->metric, state_.step, 0};
  }
  return report;
}

// The state changes only when all is done: a validation cut short is done anew.
bool Trainer::validate_and_note() {
  const std::optional<ValidationReport> report = validate();
  if (!report) return false;
  if (!report->improved) ++state_.best.stalled;
  learning_rate_.validated(report->metric);
  state_.learning_rate = learning_rate_.state();
  state_.validation_due = false;
  unsaved_ = true;
  if (report_ != nullptr) report_->tell(*report);
  return true;
}

// Off the schedule, so what is saved to resume from knows nothing of it: a resumed run with a
// higher limit goes on as if it had always had that limit. Its best model may stay, though.
bool Trainer::validate_at_the_end() {
  const std::optional<ValidationReport> report = validate();
  if (report && report_ != nullptr) report_->tell(*report);
  return report.has_value();
}

Context Trainer::unwatched_context() const {
  Context context = *context_;
  context.set_profiler(nullptr);
  return context;
}

void Trainer::refuse_diverged(std::string_view what, double loss) const {
  if (loss <= most_loss_) return;  // which NaN isn't
  base::fail(ErrorCode::kNumeric,
             "training diverged at step {}: {} after it is {} (it may be {:.6g} at most); lower "
             "training.learning_rate or training.clip_norm, or lengthen training.warmup_steps",
             state_.step, what, loss, most_loss_);
}

// A step's loss is that of the weights before it: what the last step made of them would show in the
// next one's.
void Trainer::judge_last_step() {
  if (last_rows_.empty()) return;
  const auto ranks = static_cast<std::size_t>(ranks_ == nullptr ? 1 : ranks_->size());
  last_rows_.resize(std::min((last_rows_.size() + ranks - 1) / ranks, kJudgedRows));
  const runtime::Span span(*context_, "validation");
  refuse_diverged("the loss",
                  mean_loss(unwatched_context(), step_->plans(), *data_.train, last_rows_));
}

void Trainer::save_last() {
  read_steps();
  if (!unsaved_) return;
  const std::vector<CarriedTensor> carried = ranks_ == nullptr
                                                 ? download_carried(*context_, *model_)
                                                 : gather_carried(*context_, *model_, *ranks_);
  step_->gather_moments(*context_);
  unsaved_ = false;
  if (!leads()) return;
  judge_last_step();
  for (const std::string& name : step_->plans().implementations())
    state_.implementations.insert(name);
  if (context_->tuning() != nullptr) state_.tuning = context_->tuning()->choices();
  save_checkpoint(*context_, folder_->last(), *model_, data_.tokenizers, config_,
                  step_->optimizer(), state_, carried);
}

}  // namespace sluice::training
