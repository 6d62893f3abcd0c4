#include <algorithm>

#include "base/dtype.h"
#include "kernels/beam_search/cpu/beam_search.h"
#include "kernels/beam_search/cpu/best_list.h"
#include "kernels/beam_search/cpu/row_candidates.h"
#include "kernels/beam_search/cpu/views.h"

namespace sluice::kernels::beam_search::cpu {
namespace {

/// Merges the beams' sorted candidates: calls take(beam, score, token) for the best first, lower
/// beams first among equals, until it returns false or nothing is left. heads is scratch [beam].
template <typename Take>
void merge(const InputView& view, std::int64_t beam, std::int32_t* heads, Take&& take) {
  const std::int64_t width = beam + 1;
  std::fill(heads, heads + beam, 0);
  while (true) {
    std::int64_t best = -1;
    double best_score = kNone;
    for (std::int64_t b = 0; b < beam; ++b) {
      const double score = heads[b] < width ? view.candidate_scores[b * width + heads[b]] : kNone;
      if (score > best_score) {
        best = b;
        best_score = score;
      }
    }
    if (best < 0) return;
    const std::int64_t at = best * width + heads[best]++;
    if (!take(best, best_score, view.candidate_tokens[at])) return;
  }
}

/// No live prefix can end above the worst hypothesis kept: log p only falls, and a longer
/// hypothesis is divided by at most the penalty of the greatest length.
bool nothing_to_gain(const Rules& rules, std::int64_t nbest, const InputView& view) {
  const Kept kept = kept_of(view, nbest);
  if (!kept.is_full()) return false;
  const double bound = view.scores[0] / length_penalty(view.max_length + 1, rules.length_penalty);
  return bound <= kept.worst();
}

/// Chooses what lives on and what finishes. The merge's heads take the place of the parents until
/// those are known, so the new parents are collected in the history.
void select(const Rules& rules, const State& state, std::int32_t step, std::int64_t input) {
  const Extent& e = state.extent;
  const InputView view(state, input);
  if (*view.done != 0) return;
  std::int64_t live = 0, rank = 0;
  if (*view.fault == 0) {
    const std::int64_t at = step * e.rows() + view.first_row;
    auto* new_parents = state.history_parents.data_as<std::int32_t>() + at;
    auto* new_tokens = state.history_tokens.data_as<std::int32_t>() + at;
    merge(view, e.beam, view.parents, [&](std::int64_t b, double score, std::int32_t token) {
      const auto row = static_cast<std::int32_t>(view.first_row + b);
      if (token == rules.eos) {
        if (rank < e.beam) {
          ++*view.finished;
          kept_of(view, e.nbest).add(finished(rules, score, step, row));
        }
      } else {
        new_parents[live] = row;
        new_tokens[live] = token;
        view.scores[live++] = score;
      }
      ++rank;
      return live < e.beam;
    });
    std::copy(new_parents, new_parents + live, view.parents);
    std::copy(new_tokens, new_tokens + live, view.tokens);
  }
  const bool done = live == 0 || nothing_to_gain(rules, e.nbest, view) ||
                    (rules.stop_when_full && *view.finished >= e.beam);
  *view.done = done ? 1 : 0;
  clear_rows(rules, view, done ? 0 : live, e.beam);
}

template <typename T>
void continue_row(const Rules& rules, const State& state, const Tensor& logits, std::int32_t step,
                  std::int64_t row) {
  const std::int64_t width = state.extent.beam + 1;
  const std::int64_t vocabulary = logits.size(1);
  const std::int64_t input = row / state.extent.beam;
  const double prefix = state.scores.data_as<const double>()[row];
  const Candidates out{width, state.candidate_scores.data_as<double>() + row * width,
                       state.candidate_tokens.data_as<std::int32_t>() + row * width};
  if (prefix == kNone) {
    std::fill(out.scores, out.scores + width, kNone);
    return;
  }
  const T* x = logits.data_as<const T>() + row * vocabulary;
  const Allowed allowed = allowed_at(rules, state, step, input);
  if (row_candidates(rules, x, vocabulary, allowed, prefix, out)) return;
  note_fault(state, step, input);
}

template <typename T>
void run(const Rules& rules, const State& state, const Tensor& logits, const Tensor& attention) {
  const Extent& e = state.extent;
  const std::int32_t step = e.inputs > 0 ? *state.step.data_as<const std::int32_t>() : 0;
  const std::int64_t rows = e.rows();
#pragma omp parallel for schedule(static) if (rows * logits.size(1) > 16384)
  for (std::int64_t row = 0; row < rows; ++row) {
    continue_row<T>(rules, state, logits, step, row);
    if (state.scores.data_as<const double>()[row] != kNone) {
      record_attention<T>(state, attention, step, row);
    }
  }
#pragma omp parallel for schedule(static) if (rows * e.beam > 256)
  for (std::int64_t i = 0; i < e.inputs; ++i) select(rules, state, step, i);

  end_step(state, step);
}

}  // namespace

void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention) {
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([=] { run<T>(rules, state, logits, attention); });
  });
}

}  // namespace sluice::kernels::beam_search::cpu
