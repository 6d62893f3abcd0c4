#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "decoding/poll.h"
#include "models/step_model.h"
#include "runtime/arena.h"
#include "runtime/graph_cache.h"

namespace sluice::decoding {

/// A key of sizes, in their order.
runtime::GraphKey key_of(std::initializer_list<std::int64_t> sizes);

/// Takes the steps of one plan's searches, one search after another: graphs that it keeps hold on
/// to the plan's memory and rules. Streams that they were queued on must outlive it.
class Steps {
 public:
  /// Calls `take(first)`, which queues one step of a search, `most` times or until the poll finds
  /// nothing `unfinished`. Where the device captures work and the model's steps can be captured,
  /// most steps are queued by eights, as one piece of work that is captured once and kept for later
  /// searches. `key`: what of a step's work differs from search to search, but for the model's
  /// part and where `arena` lies; the model must be the same each time, and so must the places in
  /// the arena that `take` names.
  void take(const runtime::Context& context, const models::StepModel& model, const Poll& poll,
            std::int64_t most, const runtime::Tensor& unfinished, const runtime::Arena& arena,
            runtime::GraphKey key, const std::function<void(bool first)>& take);

 private:
  static constexpr std::size_t kMostGraphs = 8;
  runtime::GraphCache graphs_{kMostGraphs};
};

}  // namespace sluice::decoding
