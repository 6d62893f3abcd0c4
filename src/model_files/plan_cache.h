#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "models/model.h"
#include "runtime/arena.h"

namespace sluice::model_files {

using runtime::Context;

/// Plans for the batches of a run, one for each bucket of extents, made when a batch first needs
/// it; all share one arena that grows to the largest. Which plan a batch gets depends on its extent
/// alone, so that a resumed run computes as the uninterrupted one.
class PlanCache {
 public:
  /// `model` must outlive the cache.
  explicit PlanCache(const models::Model& model) : model_(&model) {}

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
  const runtime::Arena& arena() const { return arena_; }

  /// Who runs the plans made so far, but for uncounted ones.
  const std::set<std::string>& implementations() const { return implementations_; }

 private:
  enum class Use { kEvaluation, kTraining, kUncounted };

  models::TrainingPlan& plan(const Context& context, const models::Extent& extent, Use use);
  [[noreturn]] void refuse(const Context& context, const models::Extent& capacity, bool training,
                           std::size_t needed) const;

  using Key = std::array<std::int64_t, 5>;  ///< rounded extent, use

  const models::Model* model_;
  std::map<Key, std::unique_ptr<models::TrainingPlan>> plans_;
  std::set<std::string> implementations_;
  std::size_t saved_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
  runtime::Arena arena_;
};

}  // namespace sluice::model_files
