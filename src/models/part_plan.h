#pragma once

#include "models/model.h"

namespace sluice::models {

/// States that a stack starts from, or ended in; h [layers * directions, rows, output of a layer]
/// (kernels::recurrent::Descriptor::h_shape) in storage, c [.., rows, hidden] in the cell-state
/// dtype, absent if the cell has none.
struct StackStates {
  Tensor h;
  Tensor c;
};

/// A plan that doesn't train, whose sequences may come in parts.
class PartPlan {
 public:
  virtual ~PartPlan() = default;

  /// To be called whenever the parameters have changed.
  virtual void pack(const Context& context, const runtime::Arena& arena) = 0;
  /// What the model says of one part, until the next call: from where the part before ended
  /// (absent: zero) to where this one ends. `to` may not be `from`.
  virtual Tensor run_part(const Context& context, const runtime::Arena& arena, const Batch& part,
                          const StackStates& from, const StackStates& to) = 0;
};

}  // namespace sluice::models
