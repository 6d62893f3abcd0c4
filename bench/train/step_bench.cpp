#include "bench/train/step_bench.h"

#include <cmath>

#include "base/check.h"
#include "bench/statistics.h"
#include "kernels/loss/loss.h"
#include "runtime/span.h"

namespace sluice::bench::train {

using training::StepSums;
using training::TrainingStep;

namespace {

constexpr int kWarmUp = 3;
constexpr profiling::StepRange kProfiledSteps{1, 3};

std::string name_of(bool captured) { return captured ? "sluice+graph" : "sluice"; }

}  // namespace

StepBench::StepBench(TrainWork work, std::int64_t repeats, const ProfileRequest& profile,
                     profiling::Session& session)
    : work_(std::move(work)),
      repeats_(repeats),
      profile_(profile),
      session_(session),
      device_(runtime::open_device(work_.device)),
      context_(*device_) {
  context_.set_precision(runtime::Precision::parse(work_.dtype));
  // Then it does so only where a tool watches, which is to see the timed steps.
  if (!profile_.is_asked_for()) session_.attach(context_, kProfiledSteps);
}

StepBench::~StepBench() { session_.detach(); }

TrainingStep::Options StepBench::step_options(bool captured) const {
  return {.label_smoothing = work_.label_smoothing,
          .seed = work_.seed,
          .static_shapes = captured,
          .loss_scaling = work_.dtype == "float16",
          .ranks = work_.ranks,
          .exchange = work_.exchange};
}

std::int64_t StepBench::ranks() const { return work_.ranks == nullptr ? 1 : work_.ranks->size(); }

StepSums StepBench::queue(TrainingStep& step, const data::Batch& batch, std::int64_t number) {
  return step.run(context_, {&batch, 1}, number, work_.learning_rate,
                  batch.target_tokens() * ranks());
}

StepResult StepBench::run(bool captured) {
  device_->reset_memory_peak();
  const std::unique_ptr<models::Model> model = work_.make_model(context_);
  TrainingStep step(context_, *model, work_.optimizer, step_options(captured));
  const std::unique_ptr<BatchSource> batches = work_.make_batches();
  std::int64_t number = 0, targets = 0;
  StepSums sums;
  std::vector<double> times;
  for (int round = 0; round < kWarmUp + repeats_; ++round) {
    const std::span<const data::Batch> next = batches->next();
    const double time = context_.stream().milliseconds_of([&] {
      for (const data::Batch& batch : next) {
        sums = queue(step, batch, ++number);
      }
    });
    if (round >= kWarmUp) times.push_back(time);
    targets = next.back().target_tokens() * ranks();
  }
  const double loss =
      context_.download<double>(sums.loss)[kernels::loss::kLoss] / static_cast<double>(targets);
  if (!std::isfinite(loss)) {
    base::fail(ErrorCode::kNumeric, "{} in {} on {}: the loss is {} after {} steps", work_.name,
               work_.dtype, device_->name(), loss, number);
  }
  return {.implementation = name_of(captured),
          .device = device_->name(),
          .device_model = device_->model(),
          .is_default = captured == can_capture(),
          .milliseconds = median(times),
          .peak_bytes = device_->memory_peak(),
          .parameters = model->parameters().element_count(),
          .loss = loss,
          .ranks = ranks(),
          .exchange = work_.exchange};
}

void StepBench::profile(bool captured) {
  if (!profile_.is_asked_for()) return;
  const std::int64_t last = profile_.last_step > 0 ? profile_.last_step : kProfiledSteps.last;
  session_.attach(context_, kProfiledSteps);
  const std::unique_ptr<models::Model> model = work_.make_model(context_);
  TrainingStep step(context_, *model, work_.optimizer, step_options(captured));
  const std::unique_ptr<BatchSource> batches = work_.make_batches();
  std::span<const data::Batch> round = batches->next();
  std::int64_t number = 0;
  // The same batches again, for captured steps to be captured before the first is recorded.
  for (int warm_up = 0; warm_up < kWarmUp; ++warm_up) {
    for (const data::Batch& batch : round) {
      queue(step, batch, ++number);
    }
  }
  const std::string name = fmt::format("{} {} step", work_.name, name_of(captured));
  for (std::int64_t recorded = 1, at = 0; recorded <= last; ++recorded) {
    const data::Batch& batch = round[static_cast<std::size_t>(at++ % std::ssize(round))];
    runtime::run_step(context_, name, recorded, [&] { queue(step, batch, ++number); });
  }
  session_.detach();
}

}  // namespace sluice::bench::train
