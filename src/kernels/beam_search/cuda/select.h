#pragma once

#include "kernels/beam_search/cuda/best_list.h"
#include "kernels/beam_search/cuda/merge.h"

/// What lives on and what finishes of one input, by one warp.
namespace sluice::kernels::beam_search::cuda {

/// An input's step.
struct InputStep {
  const Rules& rules;
  const View& view;
  std::int64_t input;
  std::int32_t step;

  __device__ std::int64_t first_row() const { return input * view.beam; }
  __device__ std::int32_t row_of(const InputCandidates& candidates,
                                 const Ranked<double>& one) const {
    return static_cast<std::int32_t>(first_row()) + one.id() / (candidates.beam + 1);
  }
  /// Makes a candidate the row of that rank.
  __device__ void continue_with(const InputCandidates& candidates, const Ranked<double>& one,
                                int rank) const {
    const std::int64_t row = first_row() + rank, history = step * view.rows() + row;
    const std::int32_t token = candidates.tokens[one.id()];
    view.history_parents[history] = view.parents[row] = row_of(candidates, one);
    view.history_tokens[history] = view.tokens[row] = token;
    view.scores[row] = candidates.scores[one.id()];
  }
};

/// Of up to 32 beams, whose lists are merged. Fills the rows with what lives on, best first;
/// returns how many. Those that end are kept.
__device__ inline int continue_merged(const InputStep& s, const InputCandidates& candidates,
                                      const ListMemory& memory, BestList& list) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), beam = candidates.beam;
  const Ranked<double> own = lane < beam ? memory.lists[0][lane] : Ranked<double>::none();
  const int live = __popc(__ballot_sync(kAllLanes, own.exists()));
  if (own.exists()) s.continue_with(candidates, own, lane);

  // Of those that end, the few that are above the last place; each goes to the lane of its rank
  // among them.
  const Ranked<double> last = live == beam ? of_lane(own, beam - 1) : Ranked<double>::none();
  const Ranked<double> end = lane < beam ? memory.ends[lane] : Ranked<double>::none();
  Ranked<double> ranked = Ranked<double>::none();
  int kept = 0;
  for (unsigned left = __ballot_sync(kAllLanes, end.above(last)); left != 0; left &= left - 1) {
    const Ranked<double> one = of_lane(end, __ffs(static_cast<int>(left)) - 1);
    const int ahead = __popc(__ballot_sync(kAllLanes, end.above(one)));
    const int living = __popc(__ballot_sync(kAllLanes, own.above(one)));
    if (ahead + living >= beam) continue;
    if (lane == ahead) ranked = one;
    ++kept;
  }
  if (kept == 0) return live;
  const bool is_kept = ranked.exists();
  list.keep(s.rules, s.step, kept, is_kept ? candidates.scores[ranked.id()] : 0.0,
            is_kept ? s.row_of(candidates, ranked) : 0);
  return live;
}

/// The same of any number, one after another; heads is shared, [beam].
__device__ inline int continue_in_turn(const InputStep& s, const InputCandidates& candidates,
                                       std::int32_t* heads, BestList& list) {
  Merge merge(candidates, heads);
  int live = 0;
  for (int rank = 0; live < candidates.beam; ++rank) {
    const Ranked<double> next = merge.next();
    if (!next.exists()) break;
    if (candidates.tokens[next.id()] != s.rules.eos) {
      if (threadIdx.x % kWarp == 0) s.continue_with(candidates, next, live);
      ++live;
    } else if (rank < candidates.beam) {
      list.keep(s.rules, s.step, 1, candidates.scores[next.id()], s.row_of(candidates, next));
    }
  }
  return live;
}

/// Where a block selects: shared memory.
struct SelectMemory {
  ListMemory* lists;    ///< of up to 32 beams
  std::int32_t* heads;  ///< of more, [beam]
  unsigned char* rest;  ///< for whatever else, aligned to 16 bytes

  static __host__ __device__ std::size_t bytes(std::int64_t beam) {
    const std::size_t needed =
        beam <= kWarp ? sizeof(ListMemory) : static_cast<std::size_t>(beam) * sizeof(std::int32_t);
    return (needed + 15) / 16 * 16;
  }
  __device__ SelectMemory(unsigned char* memory, std::int64_t beam)
      : lists(reinterpret_cast<ListMemory*>(memory)),
        heads(reinterpret_cast<std::int32_t*>(memory)),
        rest(memory + bytes(beam)) {}
};

/// Whether nothing comes of the live prefixes: log p only falls, and a longer hypothesis is divided
/// by at most the penalty of the greatest length.
__device__ inline bool nothing_to_gain(const InputStep& s, const BestList& list) {
  if (!list.is_full()) return false;
  const double best = s.view.scores[s.first_row()];
  return best / penalty_of(s.rules, s.view.longest(s.input) + 1) <= list.worst();
}

/// Ends the step of an input that wasn't done before it, with so many live rows.
__device__ inline void end_input(const InputStep& s, int live, const BestList& list) {
  const View& v = s.view;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  __syncwarp();  // the first row's score may be another lane's
  const bool done = live == 0 || nothing_to_gain(s, list) ||
                    (s.rules.stop_when_full && list.finished() >= v.beam);
  __syncwarp();
  for (std::int64_t b = (done ? 0 : live) + lane; b < v.beam; b += kWarp) {
    const std::int64_t row = s.first_row() + b;
    v.scores[row] = no_score();
    v.tokens[row] = s.rules.pad;
    v.parents[row] = static_cast<std::int32_t>(row);
  }
  if (done && lane == 0) {
    v.done[s.input] = 1;
    atomicSub(v.unfinished, 1);
  }
}

/// By one warp: what `continue_rows` makes of an input's step. An input of faulty logits ends.
template <typename Continue>
__device__ void finish_step(const InputStep& s, bool is_faulty, bool was_done, BestList& list,
                            const Continue& continue_rows) {
  if (threadIdx.x == 0) s.view.step[s.input] = s.step + 1;
  if (was_done) return;
  end_input(s, is_faulty ? 0 : continue_rows(), list);
}

/// By the block, behind a barrier: of up to 32 beams, which are listed.
__device__ inline void select_merged(const InputStep& s, const InputCandidates& candidates,
                                     ListMemory& lists, bool is_faulty, bool was_done,
                                     BestList& list) {
  merge_lists(candidates.beam, lists);
  if (threadIdx.x >= kWarp) return;
  finish_step(s, is_faulty, was_done, list,
              [&] { return continue_merged(s, candidates, lists, list); });
}

/// The same of any number, of which up to 32 are listed.
__device__ inline void select_input(const InputStep& s, const InputCandidates& candidates,
                                    const SelectMemory& memory, bool is_faulty, bool was_done,
                                    BestList& list) {
  if (candidates.beam <= kWarp) {
    return select_merged(s, candidates, *memory.lists, is_faulty, was_done, list);
  }
  if (threadIdx.x >= kWarp) return;
  finish_step(s, is_faulty, was_done, list,
              [&] { return continue_in_turn(s, candidates, memory.heads, list); });
}

}  // namespace sluice::kernels::beam_search::cuda
