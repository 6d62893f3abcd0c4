#include "kernels/beam_search/state.h"

#include "kernels/check.h"

namespace sluice::kernels::beam_search {
namespace {

using base::Shape;

// Calls visit(name, tensor, dtype, shape) for every tensor of a state: the one list that booking,
// viewing and checking share.
template <typename AnyState, typename Visit>
void visit_tensors(AnyState& state, Visit&& visit) {
  const Extent& e = state.extent;
  const std::int64_t rows = e.rows();
  visit("step", state.step, DType::kInt32, Shape{e.inputs});
  visit("unfinished", state.unfinished, DType::kInt32, Shape{1});
  visit("max_lengths", state.max_lengths, DType::kInt32, Shape{e.inputs});
  visit("prefix", state.prefix, DType::kInt32, Shape{e.inputs, e.prefix_time});
  visit("prefix_lengths", state.prefix_lengths, DType::kInt32, Shape{e.inputs});
  visit("done", state.done, DType::kInt32, Shape{e.inputs});
  visit("faults", state.faults, DType::kInt32, Shape{e.inputs});
  visit("input_of_row", state.input_of_row, DType::kInt32, Shape{rows});
  visit("tokens", state.tokens, DType::kInt32, Shape{rows});
  visit("parents", state.parents, DType::kInt32, Shape{rows});
  visit("scores", state.scores, DType::kFloat64, Shape{rows});
  visit("history_tokens", state.history_tokens, DType::kInt32, Shape{e.max_length, rows});
  visit("history_parents", state.history_parents, DType::kInt32, Shape{e.max_length, rows});
  if (e.attention) {
    visit("history_attention", state.history_attention, e.dtype,
          Shape{e.max_length, rows, e.source_time});
  }
  visit("finished", state.finished, DType::kInt32, Shape{e.inputs});
  visit("best_scores", state.best_scores, DType::kFloat64, Shape{e.inputs, e.nbest});
  visit("best_normalised", state.best_normalised, DType::kFloat64, Shape{e.inputs, e.nbest});
  visit("best_lengths", state.best_lengths, DType::kInt32, Shape{e.inputs, e.nbest});
  visit("best_rows", state.best_rows, DType::kInt32, Shape{e.inputs, e.nbest});
  visit("candidate_scores", state.candidate_scores, DType::kFloat64, Shape{rows, e.beam + 1});
  visit("candidate_tokens", state.candidate_tokens, DType::kInt32, Shape{rows, e.beam + 1});
  visit("arrivals", state.arrivals, DType::kInt32, Shape{e.inputs});
}

}  // namespace

StateSlots::StateSlots(runtime::ArenaPlanner& planner, const Extent& capacity) {
  State state;
  state.extent = capacity;
  visit_tensors(state, [&](const char*, Tensor&, DType dtype, const Shape& shape) {
    slots_.push_back(planner.saved(dtype, shape));
  });
}

State StateSlots::view(const runtime::Arena& arena, const Extent& extent) const {
  State state;
  state.extent = extent;
  std::size_t next = 0;
  visit_tensors(state, [&](const char*, Tensor& tensor, DType dtype, const Shape& shape) {
    tensor = arena.tensor(slots_.at(next++), dtype, shape);
  });
  SLUICE_ASSERT(next == slots_.size());
  return state;
}

void check_state(const State& state, const char* operation) {
  visit_tensors(state,
                [&](const char* name, const Tensor& tensor, DType dtype, const Shape& shape) {
                  check_tensor(tensor, dtype, shape, operation, name);
                });
}

}  // namespace sluice::kernels::beam_search
