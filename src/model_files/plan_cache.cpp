#include "model_files/plan_cache.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/largest.h"

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

PlanCache::PlanCache(const models::Model& model)
    : model_(&model),
      own_(std::make_unique<runtime::PlanStore>(runtime::PlanStore::kNoBound,
                                                runtime::PlanStore::Weights::kPackedEachRun)),
      store_(own_.get()) {}

models::Extent PlanCache::bucket_of(const models::Extent& extent) const {
  const models::Extent capacity = capacity_of(extent);
  if (own_) return capacity;
  return {runtime::round_to_few(capacity.rows), runtime::round_to_few(capacity.source_time),
          runtime::round_to_few(capacity.target_time), capacity.resets};
}

models::TrainingPlan& PlanCache::plan(const Context& context, const models::Extent& extent,
                                      Use use) {
  const models::Extent capacity = bucket_of(extent);
  const bool training = use == Use::kTraining;
  SLUICE_ASSERT(own_ || !training);
  std::string implementations;
  const auto make = [&](runtime::ArenaPlanner& planner) {
    auto made = model_->training_plan(use == Use::kUncounted ? by_rule(context) : context, planner,
                                      capacity, training);
    implementations = made->implementations();
    return made;
  };
  const std::string key = fmt::format("batch {} {} {} {} {}", capacity.rows, capacity.source_time,
                                      capacity.target_time, capacity.resets, static_cast<int>(use));
  try {
    auto& found = store_->plan<models::TrainingPlan>(context, key, make);
    if (!implementations.empty() && use != Use::kUncounted) {
      implementations_.insert(implementations);
    }
    return found;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    refuse(context, capacity, training);
  }
}

void PlanCache::refuse(const Context& context, const models::Extent& capacity,
                       bool training) const {
  const std::size_t free = context.device().free_bytes();
  const Context unmeasured = by_rule(context);
  const auto bytes_for = [&](std::int64_t rows) {
    runtime::ArenaPlanner planner;
    model_->training_plan(unmeasured, planner,
                          {rows, capacity.source_time, capacity.target_time, capacity.resets},
                          training);
    return planner.total();
  };
  const auto fits = [&](std::int64_t steps) { return bytes_for(steps * kRowStep) <= free; };
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
      capacity.rows, capacity.source_time, capacity.target_time, bytes_for(capacity.rows) >> 20,
      context.device().name(), free >> 20, advice);
}

}  // namespace sluice::model_files
