#include "models/state_rows.h"

#include "base/dtype.h"

namespace sluice::models {
namespace {

namespace recurrent = kernels::recurrent;

std::size_t bytes_of(DType dtype, const Shape& shape) {
  constexpr std::size_t kAlignment = 256;
  return base::align_up(base::size_of(dtype) * static_cast<std::size_t>(shape.element_count()),
                        kAlignment);
}

bool has_cell_state(const recurrent::Descriptor& stack) {
  return stack.cell == recurrent::CellType::kLstm;
}

}  // namespace

StateRows::StateRows(const Context& context, const recurrent::Descriptor& stack, DType storage,
                     std::int64_t rows)
    : stack_(stack), storage_(storage), h_bytes_(bytes_of(storage, stack.h_shape(rows))) {
  const DType cell = base::policy_of(storage).cell_state;
  const std::size_t c_bytes = has_cell_state(stack) ? bytes_of(cell, stack.c_shape(rows)) : 0;
  memory_ = runtime::Buffer(context.device(), h_bytes_ + c_bytes);
}

StackStates StateRows::view(std::int64_t rows) const {
  StackStates states{memory_.tensor(storage_, stack_.h_shape(rows)), {}};
  if (has_cell_state(stack_)) {
    states.c = memory_.tensor(base::policy_of(storage_).cell_state, stack_.c_shape(rows), h_bytes_);
  }
  return states;
}

std::vector<StateTensor> StateRows::state(std::int64_t rows) const {
  const StackStates states = view(rows);
  std::vector<StateTensor> tensors{{"h", states.h, 1}};
  if (states.c) tensors.push_back({"c", states.c, 1});
  return tensors;
}

}  // namespace sluice::models
