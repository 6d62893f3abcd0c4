#include "model_files/plan_cache.h"

#include <algorithm>

#include "base/check.h"
#include "base/largest.h"
#include "runtime/span.h"

namespace sluice::model_files {
namespace {

// A plan is cheap (it holds offsets, not memory), so buckets are fine enough to waste little where
// batches are padded to them. A time step that nothing needs costs as much as any other, and there
// are few: of sentences of 14 tokens, steps of 4 waste a tenth and leave an epoch's 200 batches
// some 100 graphs; steps of 2 would spare half of that and leave hardly a graph to be used twice,
// steps of 8 waste a quarter. Rows are many and cost less than their share.
constexpr std::int64_t kRowStep = 16;
constexpr std::int64_t kTimeStep = 4;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// One step stands for a whole sequence: the label of a classifier is not the first of many.
constexpr std::int64_t round_time(std::int64_t time) {
  return time == 1 ? 1 : round_up(time, kTimeStep);
}

// What is only asked about is not measured.
Context by_rule(Context context) {
  context.set_tuning(nullptr);
  return context;
}

}  // namespace

models::Extent PlanCache::capacity_of(const models::Extent& extent) {
  return {round_up(extent.rows, kRowStep), round_time(extent.source_time),
          round_time(extent.target_time), extent.resets};
}

models::TrainingPlan& PlanCache::plan(const Context& context, const models::Extent& extent,
                                      Use use) {
  const models::Extent capacity = capacity_of(extent);
  const Key key{capacity.rows, capacity.source_time, capacity.target_time, capacity.resets ? 1 : 0,
                static_cast<std::int64_t>(use)};
  const auto found = plans_.find(key);
  if (found != plans_.end()) return *found->second;

  const runtime::Span span(context, "plan");
  const bool training = use == Use::kTraining;
  runtime::ArenaPlanner planner;
  std::unique_ptr<models::TrainingPlan> made = model_->training_plan(
      use == Use::kUncounted ? by_rule(context) : context, planner, capacity, training);
  if (planner.saved_total() > saved_bytes_ || planner.scratch_total() > scratch_bytes_) {
    saved_bytes_ = std::max(saved_bytes_, planner.saved_total());
    scratch_bytes_ = std::max(scratch_bytes_, planner.scratch_total());
    // The old arena goes first, or both would have to fit at once.
    arena_ = runtime::Arena();
    try {
      arena_ = runtime::Arena(context.device(), saved_bytes_, scratch_bytes_);
    } catch (const Error& error) {
      // Plans are good again for what comes next, if it is smaller.
      plans_.clear();
      const std::size_t needed = saved_bytes_ + scratch_bytes_;
      saved_bytes_ = scratch_bytes_ = 0;
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      refuse(context, capacity, training, needed);
    }
  }
  if (use != Use::kUncounted) implementations_.insert(made->implementations());
  return *plans_.emplace(key, std::move(made)).first->second;
}

void PlanCache::refuse(const Context& context, const models::Extent& capacity, bool training,
                       std::size_t needed) const {
  const std::size_t free = context.device().free_bytes();
  const Context unmeasured = by_rule(context);
  const auto fits = [&](std::int64_t steps) {
    runtime::ArenaPlanner planner;
    const models::Extent fewer{steps * kRowStep, capacity.source_time, capacity.target_time,
                               capacity.resets};
    model_->training_plan(unmeasured, planner, fewer, training);
    return planner.total() <= free;
  };
  const std::int64_t rows = kRowStep * base::largest_that_fits(capacity.rows / kRowStep - 1, fits);
  const std::int64_t tokens = rows * (capacity.source_time + capacity.target_time);
  const std::string advice =
      rows == 0 ? "leave out such long examples or take a smaller model"
                : fmt::format("{} rows, {} tokens with padding, would fit{}", rows, tokens,
                              training ? ": set training.max_tokens to that" : "");
  base::fail(
      ErrorCode::kOutOfMemory,
      "out of memory: a batch of {} rows with {} source and {} target positions takes {} MiB "
      "beside the model, and {} has {} MiB free; {}",
      capacity.rows, capacity.source_time, capacity.target_time, needed >> 20,
      context.device().name(), free >> 20, advice);
}

}  // namespace sluice::model_files
