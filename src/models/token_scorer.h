#pragma once

#include "models/model.h"

namespace sluice::models {

/// Of plans of models that predict tokens one after the other.
class TokenScorer {
 public:
  virtual ~TokenScorer() = default;

  /// log p(token | tokens before, and the source if there is one) for every target token: float64
  /// [target_time, rows], zero past a row's end; a view of the arena, valid until the plan's next
  /// call. Of a plan that doesn't train.
  virtual Tensor score(const Context& context, const runtime::Arena& arena, const Batch& batch) = 0;
};

}  // namespace sluice::models
