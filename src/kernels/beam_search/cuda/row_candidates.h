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
  std::int32_t only;  ///< this and nothing else; -1: what is not ruled out below
  std::int32_t pad, bos, eos, unknown;
  bool eos_too;

  /// `forced` is the token of the input's prefix, or -1.
  __device__ Allowed(const Rules& rules, std::int64_t step, std::int64_t max_length,
                     std::int32_t forced)
      : only(step >= max_length ? rules.eos : forced),
        pad(rules.pad),
        bos(rules.bos),
        eos(rules.eos),
        unknown(rules.unknown),
        eos_too(step >= rules.min_length) {}
  __device__ bool operator()(int token) const {
    if (only >= 0) return token == only;
    if (token == eos) return eos_too;
    return token != pad && token != bos && token != unknown;
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

/// The best of this thread's elements that may follow.
template <int kSize, typename T>
__device__ Ranked<T> best_of_own(const Team<kSize>& team, const Row<T>& row,
                                 const Allowed& allowed) {
  T best = -static_cast<T>(INFINITY);
  int token = -1;
  loss::cuda::for_each_group(team, row, [&](int g, const Group<T>& values) {
    for (int i = 0; i < 4; ++i) {
      // Tokens rise, so the first of equal ones stays.
      if (values.at[i] > best && allowed(4 * g + i)) {
        best = values.at[i];
        token = 4 * g + i;
      }
    }
  });
  return token < 0 ? Ranked<T>::none() : Ranked<T>::of(best, token);
}

/// Calls visit(ranked) for this thread's elements of at least `least` that may follow.
template <int kSize, typename T, typename Visit>
__device__ void for_each_allowed(const Team<kSize>& team, const Row<T>& row, const Allowed& allowed,
                                 T least, const Visit& visit) {
  constexpr T kImpossible = -static_cast<T>(INFINITY);
  loss::cuda::for_each_group(team, row, [&](int g, const Group<T>& values) {
    for (int i = 0; i < 4; ++i) {
      const T value = values.at[i];
      if (value >= least && value > kImpossible && allowed(4 * g + i)) {
        visit(Ranked<T>::of(value, 4 * g + i));
      }
    }
  });
}

/// The best of this thread's elements that come after `limit`.
template <int kSize, typename T>
__device__ Ranked<T> best_below(const Team<kSize>& team, const Row<T>& row, const Allowed& allowed,
                                const Ranked<T>& limit) {
  Ranked<T> best = Ranked<T>::none();
  for_each_allowed(team, row, allowed, -static_cast<T>(INFINITY), [&](const Ranked<T>& one) {
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

/// The same by a warp for rows of up to 32 * kPerLane logits, which it sorts.
template <int kPerLane, typename T>
__device__ int take_sorted(const Team<kWarp>& team, const Row<T>& row, const Allowed& allowed,
                           int count, std::int32_t* tokens) {
  Ranked<T> all[kPerLane];
#pragma unroll
  for (int r = 0; r < kPerLane; ++r) {
    const int token = r * kWarp + team.rank;
    const T value = token < row.count ? row.data[token] : -static_cast<T>(INFINITY);
    const bool may_follow = value > -static_cast<T>(INFINITY) && allowed(token);
    all[r] = may_follow ? Ranked<T>::of(value, token) : Ranked<T>::none();
  }
  sort_in_warp(all);
  int found = 0;
#pragma unroll
  for (int r = 0; r < kPerLane; ++r) {
    const int place = r * kWarp + team.rank;
    const bool is_taken = place < count && all[r].exists();
    if (is_taken) tokens[place] = all[r].id();
    found += __popc(__ballot_sync(kAllLanes, is_taken));
  }
  return found;
}

/// The same by a block at once: the count-th best of some of the tokens, the best of four threads
/// each, is a bound that little more than `count` reach; those are gathered and sorted. More than
/// there is room for, as where logits are equal, are taken in turn.
template <int kSize, typename T>
__device__ int take_at_once(const Team<kSize>& team, const Row<T>& row, const Allowed& allowed,
                            int count, std::int32_t* tokens, BlockMemory<T>& memory) {
  constexpr int kShare = 4, kBounds = kSize / kShare;
  const Ranked<T> own = best_of_own(team, row, allowed);
  Ranked<T>* ranked = memory.ranked;
  Ranked<T> shared = own;
  for (int distance = 1; distance < kShare; distance *= 2) {
    const Ranked<T> other{__shfl_xor_sync(kAllLanes, shared.logit, distance),
                          __shfl_xor_sync(kAllLanes, shared.token, distance)};
    if (other.above(shared)) shared = other;
  }
  if (team.rank % kShare == 0) ranked[team.rank / kShare] = shared;
  if (team.rank == 0) memory.count = 0;
  sort_ranked(team, ranked, kBounds);
  const Ranked<T> bound = count <= kBounds ? ranked[count - 1] : Ranked<T>::none();
  const T least = bound.exists() ? row.data[bound.id()] : -static_cast<T>(INFINITY);
  team.sync();
  for_each_allowed(team, row, allowed, least, [&](const Ranked<T>& one) {
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
    team.sync();  // what other lanes put into the cache
    if (row.count <= 2 * kWarp) {
      found = take_sorted<2>(team, row, allowed, out.count, out.tokens);
    } else if (row.count <= 8 * kWarp) {
      found = take_sorted<8>(team, row, allowed, out.count, out.tokens);
    } else {
      const Ranked<T> own = best_of_own(team, row, allowed);
      found = take_in_turn(team, row, allowed, own, out.count, out.tokens,
                           static_cast<Ranked<T>*>(nullptr));
    }
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
