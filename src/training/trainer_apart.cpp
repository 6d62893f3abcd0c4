#include <limits>

#include "kernels/elementwise/elementwise.h"
#include "runtime/span.h"
#include "training/trainer.h"

/// Ranks of a run that step apart: by themselves, until all take the mean of their parameters, or
/// one after the other on parameters that they share.
namespace sluice::training {

bool Trainer::steps_own_parameters() const {
  return ranks_ != nullptr && config_.distributed.mode == "average" &&
         state_.step > config_.distributed.average_from;
}

/// Whether all ranks have the same parameters after this step.
bool Trainer::parameters_agree() const {
  return !steps_own_parameters() || state_.step % config_.distributed.average_every == 0 ||
         state_.validation_due || checkpoint_due_ || limit_reached();
}

// Frozen parameters are the same on all ranks, and a mean could change their last bits.
void Trainer::average() {
  const runtime::Span span(*context_, "distributed", "mean of parameters");
  std::vector<Tensor> arenas{model_->parameters().values()};
  for (const Tensor& tensor : step_->optimizer().state()) {
    if (tensor.shape() == arenas.front().shape()) arenas.push_back(tensor);
  }
  for (const Tensor& arena : arenas) {
    for (const distributed::Share& range : step_->optimizer().trained()) {
      const Tensor values = arena.slice(0, range.begin, range.end);
      ranks_->all_reduce(*context_, values, distributed::Reduction::kSum);
      kernels::elementwise::scale(*context_, values, 1 / static_cast<double>(ranks_->size()));
    }
  }
  step_log_.share(*context_, *ranks_);
}

/// Steps on shared parameters until a validation, a checkpoint or the end is due, or a rank was
/// asked to stop.
void Trainer::train_apart() {
  const std::int64_t begun_at = state_.step;
  std::optional<std::int64_t> last;
  shared_->begin(begun_at);
  while (const std::optional<std::int64_t> step = shared_->draw()) {
    while (state_.step + 1 < *step && !is_due(begun_at)) skip_step();
    if (is_due(begun_at)) {
      last = state_.step;
      break;
    }
    runtime::run_step(*context_, "step", *step, [this] { train_step(); });
    if (step_log_.is_full() || is_time_to_read()) read_steps();
    if (stop_ != nullptr && *stop_) shared_->close();
  }
  read_steps();
  const std::int64_t done = shared_->end(*context_, last);
  model_->parameters().note_change();
  while (state_.step < done) skip_step();
  unsaved_ = true;
}

/// Whether ranks that began to step apart after step `begun_at` meet after this one.
bool Trainer::is_due(std::int64_t begun_at) const {
  return state_.step > begun_at && (validation_is_due() || checkpoint_is_due() || limit_reached());
}

/// Leaves a step to another rank.
void Trainer::skip_step() {
  pass_batches([](const data::BatchRows&) {});
  ++state_.step;
  state_.position = cursor_->position();
}

/// Reports, on rank 0, the steps of all ranks since the last report, as far as they are known.
void Trainer::read_shared_steps() {
  StepReport report;
  report.gradient_norm = std::numeric_limits<double>::quiet_NaN();
  step_log_.read(*context_, [&](const StepReport& own) {
    report = own;
    shared_->count(own.source_tokens, own.target_tokens,
                   own.loss * static_cast<double>(own.target_tokens));
  });
  read_time_ = steady_seconds();
  if (report_ == nullptr) return;
  const std::vector<RankTotals> totals = shared_->totals();
  std::int64_t steps = 0;
  double loss = 0;
  report.source_tokens = report.target_tokens = 0;
  report.ranks.clear();
  for (std::size_t rank = 0; rank < totals.size(); ++rank) {
    const RankTotals own = totals[rank].since(reported_totals_[rank]);
    steps += own.steps;
    loss += own.loss;
    report.source_tokens += own.source_tokens;
    report.target_tokens += own.target_tokens;
    report.ranks.push_back({own.target_tokens, own.loss, own.steps,
                            static_cast<double>(own.staleness) / static_cast<double>(totals.size()),
                            own.dropped});
  }
  if (steps == 0 || report.target_tokens == 0) return;
  reported_totals_ = totals;
  reported_step_ += steps;
  report.loss = report.nll = loss / static_cast<double>(report.target_tokens);
  report.step = reported_step_;
  // Once the last batch of an epoch was given, the position is in the next.
  const data::DataPosition& position = state_.position;
  report.epoch = position.epoch + (position.batch == 0 && position.epoch > 0 ? 0 : 1);
  report.fraction = fraction_done();
  report.learning_rate = learning_rate_.at(reported_step_);
  report_->tell(report);
}

}  // namespace sluice::training
