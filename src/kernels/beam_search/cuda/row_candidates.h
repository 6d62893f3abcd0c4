#pragma once

#include "kernels/beam_search/cuda/ranked.h"
#include "kernels/beam_search/cuda/view.h"
#include "kernels/loss/cuda/softmax_row.h"

/// The best continuations of one row.
namespace sluice::kernels::beam_search::cuda {

using loss::cuda::Group;
using loss::cuda::Row;

/// Which tokens may follow a prefix.
struct Allowed {
  std::int32_t pad, bos, eos, unknown;
  bool eos_only, eos_too;

  __device__ Allowed(const Rules& rules, std::int64_t step, std::int64_t max_length)
      : pad(rules.pad),
        bos(rules.bos),
        eos(rules.eos),
        unknown(rules.unknown),
        eos_only(step >= max_length),
        eos_too(step >= rules.min_length) {}
  __device__ bool operator()(int token) const {
    if (token == eos) return eos_only || eos_too;
    return !eos_only && token != pad && token != bos && token != unknown;
  }
};

/// What a block needs for one row; warps need none.
template <typename T>
struct BlockMemory {
  static constexpr int kCapacity = 1024;
  Ranked<T> ranked[kCapacity];
  Ranked<T> parts[loss::cuda::kRowThreads / kWarp];
  double scratch[loss::cuda::kRowThreads / kWarp];
  int count;
};

/// Calls visit(ranked) for this thread's elements that may follow.
template <int kSize, typename T, typename Visit>
__device__ void for_each_allowed(const Team<kSize>& team, const Row<T>& row, const Allowed& allowed,
                                 const Visit& visit) {
  loss::cuda::for_each_group(team, row, [&](int g, const Group<T>& values) {
    for (int i = 0; i < 4; ++i) {
      if (values.at[i] > -static_cast<T>(INFINITY) && allowed(4 * g + i)) {
        visit(Ranked<T>::of(values.at[i], 4 * g + i));
      }
    }
  });
}

template <int kSize, typename T>
__device__ Ranked<T> best_below(const Team<kSize>& team, const Row<T>& row, const Allowed& allowed,
                                const Ranked<T>& limit) {
  Ranked<T> best = Ranked<T>::none();
  for_each_allowed(team, row, allowed, [&](const Ranked<T>& one) {
    if (limit.above(one) && one.above(best)) best = one;
  });
  return best;
}

/// Writes the best `count` tokens, one after another, to `tokens`; returns how many there are.
/// `own` is the best of this thread's.
template <int kSize, typename T>
__device__ int take_in_turn(const Team<kSize>& team, const Row<T>& row, const Allowed& allowed,
                            Ranked<T> own, int count, std::int32_t* tokens, Ranked<T>* parts) {
  for (int i = 0; i < count; ++i) {
    const Ranked<T> best = best_of_team(team, own, parts);
    if (!best.exists()) return i;
    if (team.rank == 0) tokens[i] = best.id();
    if (best.token == own.token) own = best_below(team, row, allowed, best);
  }
  return count;
}

/// The same by a block at once: the count-th best of the threads' best is a bound that little more
/// than `count` tokens reach; they are gathered and sorted. More than there is room for, as where
/// logits are equal, are taken in turn.
template <int kSize, typename T>
__device__ int take_at_once(const Team<kSize>& team, const Row<T>& row, const Allowed& allowed,
                            int count, std::int32_t* tokens, BlockMemory<T>& memory) {
  const Ranked<T> own = best_below(team, row, allowed, Ranked<T>::above_all());
  Ranked<T>* ranked = memory.ranked;
  ranked[team.rank] = own;
  if (team.rank == 0) memory.count = 0;
  sort_ranked(team, ranked, kSize);
  const Ranked<T> bound = count <= kSize ? ranked[count - 1] : Ranked<T>::none();
  team.sync();
  for_each_allowed(team, row, allowed, [&](const Ranked<T>& one) {
    if (bound.above(one)) return;
    const int place = atomicAdd(&memory.count, 1);
    if (place < BlockMemory<T>::kCapacity) ranked[place] = one;
  });
  team.sync();
  const int gathered = memory.count;
  if (gathered > BlockMemory<T>::kCapacity) {
    return take_in_turn(team, row, allowed, own, count, tokens, memory.parts);
  }
  int size = 1;
  while (size < gathered) size *= 2;
  for (int i = gathered + team.rank; i < size; i += kSize) ranked[i] = Ranked<T>::none();
  sort_ranked(team, ranked, size);
  const int found = gathered < count ? gathered : count;
  for (int i = team.rank; i < found; i += kSize) tokens[i] = ranked[i].id();
  return found;
}

/// Where a row's candidates go: `count` places, best first, no_score() where there are fewer.
struct Candidates {
  int count;
  double* scores;
  std::int32_t* tokens;

  template <int kSize>
  __device__ void clear(const Team<kSize>& team, int from) const {
    for (int i = from + team.rank; i < count; i += kSize) scores[i] = no_score();
  }
};

/// Fills `out` with prefix + log p of the best continuations. Returns false, with `out` empty, if
/// the logits have no softmax. Scores are those of loss::cuda, to the bit. `cache` as there.
template <int kSize, typename T>
__device__ bool row_candidates(const Team<kSize>& team, Row<T> row, Group<T>* cache,
                               const Allowed& allowed, double prefix, const Candidates& out,
                               BlockMemory<T>* memory) {
  const T* logits = row.data;
  const auto norm = loss::cuda::normaliser(team, row, cache);
  if (isnan(norm.log_sum)) {
    out.clear(team, 0);
    return false;
  }
  int found = 0;
  if constexpr (kSize == kWarp) {
    const Ranked<T> own = best_below(team, row, allowed, Ranked<T>::above_all());
    found = take_in_turn(team, row, allowed, own, out.count, out.tokens,
                         static_cast<Ranked<T>*>(nullptr));
  } else {
    found = take_at_once(team, row, allowed, out.count, out.tokens, *memory);
  }
  team.sync();
  for (int i = team.rank; i < found; i += kSize) {
    const auto logit = static_cast<double>(logits[out.tokens[i]]);
    out.scores[i] = prefix + ((logit - static_cast<double>(norm.largest)) - norm.log_sum);
  }
  out.clear(team, found);
  return true;
}

}  // namespace sluice::kernels::beam_search::cuda
