#pragma once

#include <cstdint>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "models/part_plan.h"
#include "models/step_model.h"
#include "runtime/buffer.h"

namespace sluice::models {

/// States for `rows` rows of a recurrent stack, in their own memory.
class StateRows {
 public:
  /// `storage` is the type of h.
  StateRows(const Context& context, const kernels::recurrent::Descriptor& stack, DType storage,
            std::int64_t rows);
  /// The first `rows` rows. Views of different sizes share memory.
  StackStates view(std::int64_t rows) const;
  /// The same by name, as a decoding state.
  std::vector<StateTensor> state(std::int64_t rows = 1) const;

 private:
  kernels::recurrent::Descriptor stack_;
  DType storage_;
  std::size_t h_bytes_;
  runtime::Buffer memory_;
};

}  // namespace sluice::models
