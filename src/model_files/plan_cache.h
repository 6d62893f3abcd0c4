#pragma once

#include <memory>
#include <set>
#include <string>

#include "models/model.h"
#include "runtime/plan_store.h"

namespace sluice::model_files {

using runtime::Context;

/// Plans for batches, one for each bucket of extents, made when a batch first needs it; they share
/// one arena (runtime::PlanStore). Which plan a batch gets depends on its extent alone, so that a
/// resumed run computes as the uninterrupted one.
class PlanCache {
 public:
  /// For a run of training, all of whose plans are kept and pack the weights each time they run.
  /// `model` must outlive the cache.
  explicit PlanCache(const models::Model& model);
  /// For a model whose plans are kept in `store` from call to call. Buckets are wider, for few
  /// plans to be enough. Both must outlive the cache.
  PlanCache(const models::Model& model, runtime::PlanStore& store)
      : model_(&model), store_(&store) {}

  /// What a plan for batches of this extent is made for. Like times stay alike; one of 0 or 1 stays
  /// what it is.
  static models::Extent capacity_of(const models::Extent& extent);

  /// The plan to train, or to evaluate, a batch of this extent. May allocate: to be called between
  /// steps. Tensors that a plan gave before are gone after a call for another extent. Throws
  /// ErrorCode::kOutOfMemory with the bytes needed and the rows that would fit; a smaller extent
  /// may be asked for then.
  models::TrainingPlan& plan(const Context& context, const models::Extent& extent, bool training) {
    return plan(context, extent, training ? Use::kTraining : Use::kEvaluation);
  }
  /// The same to evaluate what no number of the run depends on: by the rule, whatever
  /// machine.autotune measured, and not counted among implementations().
  models::TrainingPlan& uncounted_plan(const Context& context, const models::Extent& extent) {
    return plan(context, extent, Use::kUncounted);
  }
  /// Of the plan asked for last.
  const runtime::Arena& arena() const { return store_->arena(); }

  /// Who runs the plans made so far, but for uncounted ones.
  const std::set<std::string>& implementations() const { return implementations_; }

 private:
  enum class Use { kEvaluation, kTraining, kUncounted };

  models::TrainingPlan& plan(const Context& context, const models::Extent& extent, Use use);
  models::Extent bucket_of(const models::Extent& extent) const;
  [[noreturn]] void refuse(const Context& context, const models::Extent& capacity,
                           bool training) const;

  const models::Model* model_;
  std::unique_ptr<runtime::PlanStore> own_;
  runtime::PlanStore* store_;
  std::set<std::string> implementations_;
};

}  // namespace sluice::model_files
