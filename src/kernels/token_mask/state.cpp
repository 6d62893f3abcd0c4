#include "kernels/token_mask/state.h"

#include "kernels/check.h"

namespace sluice::kernels::token_mask {
namespace {

using base::Shape;

// Calls visit(name, tensor, shape) for every tensor of a state, all int32: the one list that
// booking, viewing and checking share.
template <typename AnyState, typename Visit>
void visit_tensors(AnyState& state, Visit&& visit) {
  const Extent& e = state.extent;
  const std::int64_t words = words_of(e.vocabulary);
  visit("allowed", state.allowed, Shape{words});
  visit("phrase_ends", state.phrase_ends, Shape{e.phrases});
  visit("phrase_tokens", state.phrase_tokens, Shape{e.phrase_tokens});
  visit("history", state.history, Shape{2, e.rows, e.max_length});
  visit("mask", state.mask, Shape{e.rows, words});
}

}  // namespace

StateSlots::StateSlots(runtime::ArenaPlanner& planner, const Extent& capacity) {
  State state;
  state.extent = capacity;
  visit_tensors(state, [&](const char*, Tensor&, const Shape& shape) {
    slots_.push_back(planner.saved(DType::kInt32, shape));
  });
}

State StateSlots::view(const runtime::Arena& arena, const Extent& extent) const {
  State state;
  state.extent = extent;
  std::size_t next = 0;
  visit_tensors(state, [&](const char*, Tensor& tensor, const Shape& shape) {
    tensor = arena.tensor(slots_.at(next++), DType::kInt32, shape);
  });
  return state;
}

void check_state(const State& state, const char* operation) {
  visit_tensors(state, [&](const char* name, const Tensor& tensor, const Shape& shape) {
    check_tensor(tensor, DType::kInt32, shape, operation, name);
  });
}

}  // namespace sluice::kernels::token_mask
