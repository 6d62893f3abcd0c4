#include "kernels/beam_search/state.h"

#include "kernels/check.h"

namespace sluice::kernels::beam_search {
namespace {

using base::Shape;

// Calls visit(name, tensor, dtype, shape, asked_for) for the extras' tensors.
template <typename AnyState, typename Visit>
void visit_extras(AnyState& state, Visit&& visit) {
  const Extent& e = state.extent;
  const std::int64_t rows = e.rows(), drawn = e.sampled_vocabulary;
  const Shape candidates{rows, e.width()};
  const bool forces = e.phrases > 0, draws = drawn > 0;
  visit("phrase_tokens", state.phrase_tokens, DType::kInt32,
        Shape{e.inputs, e.phrases, e.phrase_time}, forces);
  visit("phrase_lengths", state.phrase_lengths, DType::kInt32, Shape{e.inputs, e.phrases}, forces);
  visit("progress", state.progress, DType::kInt32, Shape{2, rows, e.phrases}, forces);
  visit("candidate_left", state.candidate_left, DType::kInt32, candidates, forces);
  visit("bank_uses", state.bank_uses, DType::kInt32, Shape{e.inputs, e.phrases * e.phrase_time + 1},
        forces);
  visit("source_lengths", state.source_lengths, DType::kInt32, Shape{e.inputs}, e.coverage);
  visit("coverage", state.coverage, DType::kFloat64, Shape{2, rows, e.source_time}, e.coverage);
  visit("input_ids", state.input_ids, DType::kInt32, Shape{e.inputs}, draws);
  visit("perturbed", state.perturbed, DType::kFloat64, Shape{rows}, draws);
  visit("log_q", state.log_q, DType::kFloat64, Shape{rows}, draws);
  visit("noisy", state.noisy, DType::kFloat64, Shape{rows, drawn}, draws);
  visit("candidate_log_q", state.candidate_log_q, DType::kFloat64, candidates, draws);
  visit("candidate_order", state.candidate_order, DType::kInt32, candidates, !e.is_plain());
  visit("candidate_keys", state.candidate_keys, DType::kFloat64, candidates, draws || e.groups > 1);
}

// Calls visit(name, tensor, dtype, shape, asked_for) for every tensor of a state: the one list that
// booking, viewing and checking share.
template <typename AnyState, typename Visit>
void visit_tensors(AnyState& state, Visit&& visit_any) {
  const Extent& e = state.extent;
  const auto visit = [&](const char* name, auto& tensor, DType dtype, const Shape& shape,
                         bool asked_for = true) {
    visit_any(name, tensor, dtype, shape, asked_for);
  };
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
  visit("history_attention", state.history_attention, e.dtype,
        Shape{e.max_length, rows, e.source_time}, e.attention);
  visit("finished", state.finished, DType::kInt32, Shape{e.inputs});
  visit("best_scores", state.best_scores, DType::kFloat64, Shape{e.inputs, e.nbest});
  visit("best_normalised", state.best_normalised, DType::kFloat64, Shape{e.inputs, e.nbest});
  visit("best_lengths", state.best_lengths, DType::kInt32, Shape{e.inputs, e.nbest});
  visit("best_rows", state.best_rows, DType::kInt32, Shape{e.inputs, e.nbest});
  visit("candidate_scores", state.candidate_scores, DType::kFloat64, Shape{rows, e.width()});
  visit("candidate_tokens", state.candidate_tokens, DType::kInt32, Shape{rows, e.width()});
  visit("arrivals", state.arrivals, DType::kInt32, Shape{e.inputs});
  visit_extras(state, visit);
}

}  // namespace

StateSlots::StateSlots(runtime::ArenaPlanner& planner, const Extent& capacity) {
  State state;
  state.extent = capacity;
  visit_tensors(state, [&](const char*, Tensor&, DType dtype, const Shape& shape, bool is_there) {
    slots_.push_back(is_there ? planner.saved(dtype, shape) : runtime::Slot{});
  });
}

State StateSlots::view(const runtime::Arena& arena, const Extent& extent) const {
  State state;
  state.extent = extent;
  std::size_t next = 0;
  visit_tensors(state,
                [&](const char*, Tensor& tensor, DType dtype, const Shape& shape, bool is_there) {
                  if (is_there) tensor = arena.tensor(slots_.at(next), dtype, shape);
                  ++next;
                });
  SLUICE_ASSERT(next == slots_.size());
  return state;
}

void check_state(const State& state, const char* operation) {
  visit_tensors(state, [&](const char* name, const Tensor& tensor, DType dtype, const Shape& shape,
                           bool is_there) {
    if (is_there) check_tensor(tensor, dtype, shape, operation, name);
  });
}

}  // namespace sluice::kernels::beam_search
