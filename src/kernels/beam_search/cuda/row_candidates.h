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

/// What a row's logits are worth: those of loss::cuda, to the bit.
template <typename T>
struct Scores {
  double prefix;
  loss::cuda::Normaliser<T> norm;

  __device__ double operator()(T logit) const {
    return prefix +
           ((static_cast<double>(logit) - static_cast<double>(norm.largest)) - norm.log_sum);
  }
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

/// Logits of the longest row whose tokens' places a warp counts.
inline constexpr int kPerLane = 8, kMostCounted = kPerLane * kWarp;

/// Fills `out` by a warp from such a row in the cache, which it overwrites: a token's place is the
/// number of those above it. Returns how many places are taken.
template <typename T>
__device__ int take_by_places(const Team<kWarp>& team, const Row<T>& row, Group<T>* cache,
                              const Allowed& allowed, const Scores<T>& scores,
                              const Candidates& out) {
  using Bits = typename Ranked<T>::Bits;
  auto* keys = reinterpret_cast<Group<Bits>*>(cache);
  T values[kPerLane];
  Bits own[kPerLane];
#pragma unroll
  for (int r = 0; r < kPerLane; ++r) {
    const int token = r * kWarp + team.rank;
    values[r] = token < row.count ? row.data[token] : -static_cast<T>(INFINITY);
    const bool may_follow = values[r] > -static_cast<T>(INFINITY) && allowed(token);
    own[r] = may_follow ? ordered(values[r]) : 0;
  }
  team.sync();
#pragma unroll
  for (int r = 0; r < kPerLane; ++r) {
    const int token = r * kWarp + team.rank;
    if (token < row.count) keys[token / 4].at[token % 4] = own[r];
  }
  team.sync();
  int above[kPerLane] = {};
#pragma unroll 1
  for (int part = 0; part < kPerLane; ++part) {
    const int end = min((part + 1) * kWarp / 4, row.groups());
    for (int g = part * kWarp / 4; g < end; ++g) {
      const Group<Bits> others = keys[g];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int r = 0; r < kPerLane; ++r) {
          // Of equal ones those before.
          const bool is_before = part == r ? 4 * g + i < r * kWarp + team.rank : part < r;
          above[r] += others.at[i] >= own[r] + (is_before ? 0 : 1) ? 1 : 0;
        }
      }
    }
  }
  int found = 0;
#pragma unroll
  for (int r = 0; r < kPerLane; ++r) {
    const bool is_taken = own[r] != 0 && above[r] < out.count;
    if (is_taken) {
      out.tokens[above[r]] = r * kWarp + team.rank;
      out.scores[above[r]] = scores(values[r]);
    }
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
    const Ranked<T> other = of_lane_across(shared, distance);
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

/// Fills `out` with the best continuations of a row that stands at `logits`, and is read from where
/// the normaliser has put it. A warp needs a cache; a block doesn't use it.
template <int kSize, typename T>
__device__ void take_candidates(const Team<kSize>& team, const T* logits, const Row<T>& row,
                                Group<T>* cache, const Allowed& allowed, const Scores<T>& scores,
                                const Candidates& out, BlockMemory<T>* memory) {
  int found = 0;
  if constexpr (kSize == kWarp) {
    team.sync();  // what other lanes put into the cache
    if (row.count <= kMostCounted) {
      return out.clear(team, take_by_places(team, row, cache, allowed, scores, out));
    }
    const Ranked<T> own = best_of_own(team, row, allowed);
    found = take_in_turn(team, row, allowed, own, out.count, out.tokens,
                         static_cast<Ranked<T>*>(nullptr));
  } else {
    found = take_at_once(team, row, allowed, out.count, out.tokens, *memory);
  }
  team.sync();
  for (int i = team.rank; i < found; i += kSize) out.scores[i] = scores(logits[out.tokens[i]]);
  out.clear(team, found);
}

}  // namespace sluice::kernels::beam_search::cuda
