#include "bench/train/step_bench.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "base/check.h"
#include "bench/statistics.h"
#include "kernels/loss/loss.h"
#include "runtime/span.h"
#include "runtime/threads.h"
#include "training/ranks/dealt_rows.h"

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
  if (work_.threads > 0) runtime::use_threads(context_, work_.threads);
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

StepBench::Round StepBench::deal(std::span<const data::Batch> batches) const {
  Round round;
  for (const data::Batch& batch : batches) {
    round.whole.push_back(training::whole_step_of({&batch, 1}, false));
    round.own.push_back(
        ranks() == 1 ? batch
                     : training::dealt_rows(batch, work_.ranks->rank(), ranks(), work_.carries));
  }
  return round;
}

StepSums StepBench::queue(TrainingStep& step, const Round& round, std::size_t batch,
                          std::int64_t number) {
  const std::span<const data::Batch> own{&round.own[batch], 1};
  if (work_.ranks == nullptr) return step.run(context_, own, number, work_.learning_rate);
  return step.run_together(context_, own, number, work_.learning_rate, round.whole[batch]);
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
    const Round dealt = deal(batches->next());
    const double time = context_.stream().milliseconds_of([&] {
      for (std::size_t i = 0; i < dealt.own.size(); ++i) sums = queue(step, dealt, i, ++number);
    });
    if (round >= kWarmUp) times.push_back(time);
    targets = dealt.whole.back().target_tokens;
  }
  const std::vector<double> losses = context_.download<double>(sums.loss);
  double loss = 0;
  for (std::size_t rank = 0; rank < losses.size(); rank += kernels::loss::kSums) {
    loss += losses[rank + kernels::loss::kLoss] / static_cast<double>(targets);
  }
  if (!std::isfinite(loss)) {
    base::fail(ErrorCode::kNumeric, "{} in {} on {}: the loss is {} after {} steps", work_.name,
               work_.dtype, device_->name(), loss, number);
  }
  StepResult result{.implementation = name_of(captured),
                    .device = device_->name(),
                    .device_model = device_->model(),
                    .is_default = captured == can_capture(),
                    .milliseconds = median(times),
                    .peak_bytes = device_->memory_peak(),
                    .parameters = model->parameters().element_count(),
                    .loss = loss,
                    .ranks = ranks(),
                    .exchange = work_.exchange};
  if (work_.ranks == nullptr) return result;
  result.all_reduce_milliseconds = time_all_reduce(model->parameters());
  result.apart_milliseconds = time_apart(captured);
  return result;
}

/// Rounds without any exchange, all ranks at the same time.
double StepBench::time_apart(bool captured) {
  const std::unique_ptr<models::Model> model = work_.make_model(context_);
  TrainingStep::Options options = step_options(captured);
  options.ranks = nullptr;
  TrainingStep step(context_, *model, work_.optimizer, options);
  const std::unique_ptr<BatchSource> batches = work_.make_batches();
  std::int64_t number = 0;
  std::vector<double> times;
  for (int round = 0; round < kWarmUp + repeats_; ++round) {
    const Round dealt = deal(batches->next());
    work_.ranks->exchange("");  // so that they use the machine at the same time
    const double time = context_.stream().milliseconds_of([&] {
      for (const data::Batch& batch : dealt.own) {
        step.run(context_, {&batch, 1}, ++number, work_.learning_rate);
      }
    });
    if (round >= kWarmUp) times.push_back(time);
  }
  return median(times);
}

double StepBench::time_all_reduce(const layers::Parameters& parameters) {
  runtime::Buffer memory;
  runtime::Tensor travelling = parameters.gradients();
  if (work_.exchange.bfloat16) {
    memory = runtime::Buffer(*device_, travelling.byte_size() / 2);
    travelling = memory.tensor(base::DType::kBFloat16, travelling.shape());
  }
  context_.zero(travelling);
  std::vector<double> times;
  for (int round = 0; round < kWarmUp + repeats_; ++round) {
    context_.synchronize();
    work_.ranks->exchange("");
    const double time = context_.stream().milliseconds_of(
        [&] { work_.ranks->all_reduce(context_, travelling, distributed::Reduction::kSum); });
    if (round >= kWarmUp) times.push_back(time);
  }
  return median(times);
}

AsyncResult StepBench::run_async(double seconds, double rest) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const std::unique_ptr<models::Model> model = work_.make_model(context_);
  TrainingStep step(context_, *model, work_.optimizer, step_options(can_capture()));
  training::SharedParameters shared(context_, *work_.ranks, model->parameters(), step.optimizer(),
                                    std::numeric_limits<std::int64_t>::max());
  const std::unique_ptr<BatchSource> batches = work_.make_batches();
  const Round dealt = deal(batches->next());
  const auto run = [&](std::size_t batch) {
    const auto tokens = static_cast<double>(dealt.own[batch].target_tokens());
    const auto number = shared.draw();
    step.run_apart(context_, {&dealt.own[batch], 1}, *number, work_.learning_rate, tokens, &shared);
    context_.synchronize();
    shared.count(0, 0, 0);
  };
  const auto own_totals = [&] {
    return shared.totals()[static_cast<std::size_t>(work_.ranks->rank())];
  };
  shared.begin(0);
  for (int warm_up = 0; warm_up < kWarmUp; ++warm_up) run(0);
  work_.ranks->exchange("");
  const training::RankTotals before = own_totals();
  const auto start = Clock::now();
  for (std::size_t at = 0; seconds_since(start) < seconds; ++at) {
    const auto begun = Clock::now();
    run(at % dealt.own.size());
    std::this_thread::sleep_for(std::chrono::duration<double>(rest * seconds_since(begun)));
  }
  const double whole = seconds_since(start);
  const training::RankTotals done = own_totals().since(before);
  const auto steps = static_cast<double>(done.steps);
  shared.end(context_, 0);
  shared.finish();
  return {whole * 1e3 / steps,
          static_cast<double>(done.staleness) / steps / static_cast<double>(ranks())};
}

void StepBench::profile(bool captured) {
  if (!profile_.is_asked_for()) return;
  const std::int64_t last = profile_.last_step > 0 ? profile_.last_step : kProfiledSteps.last;
  session_.attach(context_, kProfiledSteps);
  const std::unique_ptr<models::Model> model = work_.make_model(context_);
  TrainingStep step(context_, *model, work_.optimizer, step_options(captured));
  const std::unique_ptr<BatchSource> batches = work_.make_batches();
  const Round round = deal(batches->next());
  std::int64_t number = 0;
  // The same batches again, for captured steps to be captured before the first is recorded.
  for (int warm_up = 0; warm_up < kWarmUp; ++warm_up) {
    for (std::size_t i = 0; i < round.own.size(); ++i) queue(step, round, i, ++number);
  }
  const std::string name = fmt::format("{} {} step", work_.name, name_of(captured));
  for (std::int64_t recorded = 1, at = 0; recorded <= last; ++recorded) {
    const auto batch = static_cast<std::size_t>(at++ % std::ssize(round.own));
    runtime::run_step(context_, name, recorded, [&] { queue(step, round, batch, ++number); });
  }
  session_.detach();
}

}  // namespace sluice::bench::train
