#include "api/kept_plans.h"

#include <omp.h>

#include <algorithm>

#include "base/check.h"
#include "data/batches.h"
#include "runtime/span.h"

namespace sluice::api {
namespace {

/// Room for a few plans of small models; for large ones, whose weights may be packed in two ways.
constexpr std::size_t kLeast = std::size_t{1} << 30;

std::size_t most_bytes(const Placement& placement, const models::Model& model) {
  SLUICE_CHECK(placement.plan_cache_bytes >= -1,
               "plan_cache_bytes is {}; it must be a number of bytes, or -1 for the default",
               placement.plan_cache_bytes);
  if (placement.plan_cache_bytes >= 0) {
    return static_cast<std::size_t>(placement.plan_cache_bytes);
  }
  return std::max(kLeast, 2 * model.parameters().values().byte_size());
}

}  // namespace

KeptPlans::KeptPlans(const Placement& placement, const models::Model& model)
    : store(most_bytes(placement, model)), batches(model, store) {}

void KeptPlans::call(const std::function<void()>& work) {
  // Plans divide their work among so many threads.
  const int threads = omp_get_max_threads();
  if (threads_ != threads) store.clear();
  threads_ = threads;
  try {
    work();
  } catch (...) {
    store.trim();
    throw;
  }
  store.trim();
}

void KeptPlans::each_batch(const runtime::Context& context, const data::Examples& examples,
                           std::int64_t max_tokens, std::int64_t max_rows,
                           const Evaluate& evaluate) {
  const auto lengths = examples.lengths();
  const auto options =
      data::with_room_for(lengths, {.max_tokens = max_tokens, .max_rows = max_rows, .pool = 1});
  std::int64_t count = 0;
  call([&] {
    for (const data::BatchRows& rows : data::sorted_batches(lengths, options)) {
      runtime::run_step(context, "batch", ++count, [&] {
        const data::Batch batch = examples.assemble(rows);
        store.with_room([&] { evaluate(batch, uploads.upload(context, batch)); });
      });
    }
  });
}

PlanCacheUse KeptPlans::use() const {
  return {.plans = static_cast<std::int64_t>(store.plans()),
          .bytes = static_cast<std::int64_t>(store.bytes()),
          .plans_made = store.plans_made(),
          .weights_packed = store.packs()};
}

}  // namespace sluice::api
