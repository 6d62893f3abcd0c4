#include <algorithm>
#include <cstring>

#include "base/dtype.h"
#include "kernels/beam_search/cpu/beam_search.h"
#include "kernels/beam_search/cpu/row_candidates.h"
#include "kernels/beam_search/cpu/views.h"

namespace sluice::kernels::beam_search::cpu {
namespace {

Allowed allowed_at(const Rules& rules, const State& state, std::int32_t step, std::int64_t input) {
  const std::int64_t time = state.extent.prefix_time;
  if (step >= state.max_lengths.data_as<const std::int32_t>()[input]) return {rules.eos, true};
  if (step < time && step < state.prefix_lengths.data_as<const std::int32_t>()[input]) {
    return {state.prefix.data_as<const std::int32_t>()[input * time + step], false};
  }
  return {-1, step >= rules.min_length};
}

/// A prefix that ended in eos, with `length` tokens before it.
struct Finished {
  double score;
  std::int32_t length;
  std::int32_t row;
};

/// Into the sorted list of the nbest; an equal one that finished earlier stays ahead.
void keep(const Rules& rules, std::int64_t nbest, const InputView& view, const Finished& one) {
  ++*view.finished;
  const double normalised = one.score / length_penalty(one.length + 1, rules.length_penalty);
  const std::int64_t last = nbest - 1;
  if (view.best_lengths[last] >= 0 && !(normalised > view.best_normalised[last])) return;
  std::int64_t place = last;
  const auto moves_back = [&](std::int64_t j) {
    return view.best_lengths[j] < 0 || view.best_normalised[j] < normalised;
  };
  for (; place > 0 && moves_back(place - 1); --place) {
    view.best_scores[place] = view.best_scores[place - 1];
    view.best_normalised[place] = view.best_normalised[place - 1];
    view.best_lengths[place] = view.best_lengths[place - 1];
    view.best_rows[place] = view.best_rows[place - 1];
  }
  view.best_scores[place] = one.score;
  view.best_normalised[place] = normalised;
  view.best_lengths[place] = one.length;
  view.best_rows[place] = one.row;
}

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
  if (view.best_lengths[nbest - 1] < 0) return false;
  const double bound = view.scores[0] / length_penalty(view.max_length + 1, rules.length_penalty);
  return bound <= view.best_normalised[nbest - 1];
}

void clear_rows(const Rules& rules, const InputView& view, std::int64_t from, std::int64_t to) {
  for (std::int64_t b = from; b < to; ++b) {
    view.scores[b] = kNone;
    view.tokens[b] = rules.pad;
    view.parents[b] = static_cast<std::int32_t>(view.first_row + b);
  }
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
        if (rank < e.beam) keep(rules, e.nbest, view, {score, step, row});
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

/// Where the step looked, by row as it was when the model took the step.
template <typename T>
void record_attention(const State& state, const Tensor& attention, std::int32_t step,
                      std::int64_t row) {
  const Extent& e = state.extent;
  if (!e.attention || step >= e.max_length) return;
  auto* to = state.history_attention.data_as<T>() + (step * e.rows() + row) * e.source_time;
  std::memcpy(to, attention.data_as<const T>() + row * e.source_time,
              static_cast<std::size_t>(e.source_time) * sizeof(T));
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
  // Rows of an input may be continued by different threads.
  auto* fault = state.faults.data_as<std::int32_t>() + input;
#pragma omp atomic write
  *fault = step + 1;
}

template <typename T>
void run(const Rules& rules, const State& state, const Tensor& logits, const Tensor& attention) {
  const Extent& e = state.extent;
  auto* steps = state.step.data_as<std::int32_t>();
  const std::int32_t step = e.inputs > 0 ? steps[0] : 0;
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

  const auto* done = state.done.data_as<const std::int32_t>();
  *state.unfinished.data_as<std::int32_t>() =
      static_cast<std::int32_t>(std::count(done, done + e.inputs, 0));
  std::fill(steps, steps + e.inputs, step + 1);
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
