#pragma once

#include "model_files/batch_upload.h"
#include "model_files/plan_cache.h"
#include "runtime/plan_store.h"
#include "sluice/model_info.h"

namespace sluice::api {

/// What a model keeps from call to call: plans, packed weights and captured steps, within
/// Placement::plan_cache_bytes. The weights must stay as they are loaded.
class KeptPlans {
 public:
  /// `model` must outlive it.
  KeptPlans(const Placement& placement, const models::Model& model);

  /// Does the work of one call of the model, and then drops what is beyond the bound.
  void call(const std::function<void()>& work);
  /// A call that evaluates all of `examples` in batches of at most so many tokens and rows, the
  /// longest first: `evaluate` is given each as assembled and as it lies on the device. If memory
  /// runs out in it, what is kept is dropped and it is called once more.
  using Evaluate = std::function<void(const data::Batch&, const models::Batch&)>;
  void each_batch(const runtime::Context& context, const data::Examples& examples,
                  std::int64_t max_tokens, std::int64_t max_rows, const Evaluate& evaluate);

  PlanCacheUse use() const;

  runtime::PlanStore store;
  model_files::PlanCache batches;  ///< plans to evaluate batches
  model_files::BatchUpload uploads;

 private:
  int threads_ = 0;  ///< of OpenMP, that the plans were made for
};

}  // namespace sluice::api
