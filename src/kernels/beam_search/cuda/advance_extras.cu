#include "base/dtype.h"
#include "kernels/beam_search/coverage.h"
#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/beam_search/cuda/best_list.h"
#include "kernels/beam_search/cuda/extra_row.h"
#include "kernels/beam_search/kept.h"
#include "runtime/cuda/launch.h"

/// A step of a search with extras in three launches: a team a row, a block an input, an end. It is
/// the CPU's advance_extras.cpp, and not made for speed: plain searches have advance.cu.
namespace sluice::kernels::beam_search::cuda {
namespace {

using loss::cuda::kRowThreads;

/// kSize as loss::cuda has it for rows of that length, so that scores have its bits.
template <int kSize, typename T>
__global__ void __launch_bounds__(kSize)
    extra_rows_kernel(Rules rules, ExtraView v, const T* logits, std::int64_t vocabulary,
                      const T* attention) {
  __shared__ ExtraMemory<kSize> memory;
  const std::int64_t row = blockIdx.x, input = row / v.beam;
  const Team<kSize> team{static_cast<int>(threadIdx.x), memory.scratch};
  const std::int32_t step = v.step[input];
  double* scores = v.candidate_scores + row * v.width;
  for (std::int64_t i = team.rank; i < v.width; i += kSize) scores[i] = no_score();
  if (v.scores[row] == no_score()) return;
  team.sync();
  if (v.history_attention != nullptr && step < v.max_length) {
    T* to = static_cast<T*>(v.history_attention) + (step * v.rows() + row) * v.source_time;
    for (std::int64_t s = team.rank; s < v.source_time; s += kSize) {
      to[s] = attention[row * v.source_time + s];
    }
  }
  if (v.coverage != nullptr) {
    double* sums = v.coverage_of_row(step, row);
    for (std::int64_t s = team.rank; s < v.source_time; s += kSize) {
      sums[s] =
          (step == 0 ? 0.0 : sums[s]) + static_cast<double>(attention[row * v.source_time + s]);
    }
  }
  ExtraRow<kSize, T> one(team, rules, v, logits, vocabulary, step, row, memory);
  if (!one.fill() && team.rank == 0) v.faults[input] = step + 1;
}

constexpr int kSelectThreads = 256;

/// Ranks of candidates that are still there: the bank that has had the fewest turns, then that
/// with the fewest tokens to come, then the larger key, then the lower row and place.
struct Order {
  std::int32_t uses, left;
  double key;
  int place;  ///< -1: none

  __device__ bool before(const Order& other) const {
    if (place < 0 || other.place < 0) return other.place < 0 && place >= 0;
    if (uses != other.uses) return uses < other.uses;
    if (left != other.left) return left < other.left;
    return key != other.key ? key > other.key : place < other.place;
  }
};

/// Shared memory of a block that chooses among an input's candidates.
struct ChooseMemory {
  double scratch[kSelectThreads / kWarp];
  Order parts[kSelectThreads / kWarp];
};

/// Chooses for one input, by a block.
class InputChoice {
 public:
  __device__ InputChoice(const Rules& rules, const ExtraView& view, std::int32_t step,
                         std::int64_t input, ChooseMemory& memory)
      : team_{static_cast<int>(threadIdx.x), memory.scratch},
        rules_(rules),
        v_(view),
        step_(step),
        input_(input),
        first_row_(input * view.beam),
        memory_(memory),
        kept_{view.best_scores + input * view.nbest, view.best_normalised + input * view.nbest,
              view.best_lengths + input * view.nbest, view.best_rows + input * view.nbest,
              view.nbest} {}

  __device__ void run() {
    if (v_.done[input_] != 0) return;
    int live = 0;
    if (v_.faults[input_] == 0) live = choose();
    __syncthreads();
    if (team_.rank == 0) {
      const bool is_done =
          live == 0 || is_beaten(live) || (rules_.stop_when_full && v_.finished[input_] >= v_.beam);
      v_.done[input_] = is_done ? 1 : 0;
    }
    __syncthreads();
    if (v_.done[input_] != 0) live = 0;
    for (std::int64_t b = live + team_.rank; b < v_.beam; b += kSelectThreads) {
      v_.scores[first_row_ + b] = no_score();
      v_.tokens[first_row_ + b] = rules_.pad;
      v_.parents[first_row_ + b] = static_cast<std::int32_t>(first_row_ + b);
    }
    bring_along(live);
    __syncthreads();
  }

 private:
  __device__ std::int64_t candidates() const { return v_.beam * v_.width; }
  __device__ std::int64_t at(int place) const { return first_row_ * v_.width + place; }
  __device__ std::int32_t* uses() const {
    return v_.bank_uses + input_ * (v_.phrases * v_.phrase_time + 1);
  }

  /// Takes the penalty for tokens that rows of the groups before have just chosen from the keys.
  __device__ void penalise() const {
    if (v_.groups == 1) return;
    const std::int64_t first = (input_ - input_ % v_.groups) * v_.beam;
    for (std::int64_t c = team_.rank; c < candidates(); c += kSelectThreads) {
      const std::int64_t here = at(static_cast<int>(c));
      if (v_.candidate_scores[here] == no_score()) continue;
      int count = 0;
      for (std::int64_t row = first; row < first_row_; ++row) {
        const bool is_same = v_.tokens[row] == v_.candidate_tokens[here];
        count += is_same && v_.scores[row] != no_score() ? 1 : 0;
      }
      v_.candidate_keys[here] -= v_.diversity * count;
    }
  }

  __device__ Order best_left() const {
    Order best{0, 0, 0, -1};
    for (std::int64_t c = team_.rank; c < candidates(); c += kSelectThreads) {
      const std::int64_t here = at(static_cast<int>(c));
      if (v_.candidate_scores[here] == no_score()) continue;
      const std::int32_t left = v_.phrases > 0 ? v_.candidate_left[here] : 0;
      const Order one{v_.phrases > 0 ? uses()[left] : 0, left, v_.candidate_keys[here],
                      static_cast<int>(c)};
      if (one.before(best)) best = one;
    }
    return best_of_block(best);
  }
  __device__ Order best_of_block(Order best) const {
    best = best_of_lanes(best);
    __syncthreads();  // what stood there may still be read
    if (team_.rank % kWarp == 0) memory_.parts[team_.rank / kWarp] = best;
    __syncthreads();
    const int lane = team_.rank % kWarp;
    return best_of_lanes(lane < kSelectThreads / kWarp ? memory_.parts[lane] : Order{0, 0, 0, -1});
  }
  static __device__ Order best_of_lanes(Order best) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const Order other{__shfl_xor_sync(kAllLanes, best.uses, distance),
                        __shfl_xor_sync(kAllLanes, best.left, distance),
                        __shfl_xor_sync(kAllLanes, best.key, distance),
                        __shfl_xor_sync(kAllLanes, best.place, distance)};
      if (other.before(best)) best = other;
    }
    return best;
  }

  /// Returns how many live on.
  __device__ int choose() {
    penalise();
    for (std::int64_t i = team_.rank; v_.phrases > 0 && i <= v_.phrases * v_.phrase_time;
         i += kSelectThreads) {
      uses()[i] = 0;
    }
    __syncthreads();
    int live = 0;
    for (std::int64_t rank = 0; live < v_.beam; ++rank) {
      const Order best = best_left();
      if (best.place < 0) break;
      const std::int64_t here = at(best.place);
      const std::int32_t token = v_.candidate_tokens[here];
      const double score = v_.candidate_scores[here];
      const auto row = static_cast<std::int32_t>(first_row_ + best.place / v_.width);
      if (token != rules_.eos) {
        if (team_.rank == 0) continue_with(live, here, row, token, score);
        ++live;
      } else if (rank < v_.beam) {
        keep(here, row, score);
      }
      __syncthreads();
      if (team_.rank == 0) {
        v_.candidate_scores[here] = no_score();
        if (v_.phrases > 0) ++uses()[best.left];
      }
      __syncthreads();
    }
    return live;
  }

  __device__ void continue_with(int b, std::int64_t here, std::int32_t row, std::int32_t token,
                                double score) const {
    const std::int64_t to = first_row_ + b, history = step_ * v_.rows() + to;
    v_.history_parents[history] = v_.parents[to] = row;
    v_.history_tokens[history] = v_.tokens[to] = token;
    v_.scores[to] = score;
    if (!v_.draws()) return;
    v_.perturbed[to] = v_.candidate_keys[here];
    v_.log_q[to] = v_.candidate_log_q[here];
  }

  __device__ void keep(std::int64_t here, std::int32_t row, double score) const {
    double normalised =
        v_.draws() ? v_.candidate_keys[here] : score / penalty_of(rules_, std::int64_t{step_} + 1);
    if (v_.coverage != nullptr) {
      const double* sums = v_.coverage_of_row(step_, row);
      double total = 0;
      for (std::int64_t s = team_.rank; s < v_.source_lengths[input_]; s += kSelectThreads) {
        total += coverage_of(sums[s]);
      }
      normalised += v_.coverage_penalty * team_.reduce(total, Add{});
    }
    if (team_.rank != 0) return;
    ++v_.finished[input_];
    kept_.add({score, normalised, step_, row});
  }

  /// As on the CPU.
  __device__ bool is_beaten(int live) const {
    if (!kept_.is_full()) return false;
    double most = no_score();
    for (int b = 0; b < live; ++b) {
      most = fmax(most, v_.draws() ? v_.perturbed[first_row_ + b]
                                   : v_.scores[first_row_ + b] /
                                         penalty_of(rules_, v_.longest(input_) + 1));
    }
    return most <= kept_.worst();
  }

  /// Rows take over the coverage and the progress of the prefixes that they continue.
  __device__ void bring_along(int live) const {
    for (int b = 0; v_.coverage != nullptr && b < live; ++b) {
      const double* from = v_.coverage_of_row(step_, v_.parents[first_row_ + b]);
      double* to = v_.coverage_of_row(step_ + 1, first_row_ + b);
      for (std::int64_t s = team_.rank; s < v_.source_time; s += kSelectThreads) to[s] = from[s];
    }
    if (v_.phrases == 0) return;
    const Phrases phrases = v_.phrases_of(input_);
    for (std::int64_t i = team_.rank; i < live * v_.phrases; i += kSelectThreads) {
      const std::int64_t row = first_row_ + i / v_.phrases, p = i % v_.phrases;
      v_.progress_of(step_ + 1, row)[p] =
          progress_after(phrases.at(p), phrases.lengths[p],
                         v_.progress_of(step_, v_.parents[row])[p], v_.tokens[row]);
    }
  }

  Team<kSelectThreads> team_;
  const Rules& rules_;
  const ExtraView& v_;
  std::int32_t step_;
  std::int64_t input_, first_row_;
  ChooseMemory& memory_;
  Kept kept_;
};

/// A block for the groups of one input, which choose one after the other.
__global__ void __launch_bounds__(kSelectThreads) choose_kernel(Rules rules, ExtraView v) {
  __shared__ ChooseMemory memory;
  for (std::int64_t group = 0; group < v.groups; ++group) {
    const std::int64_t input = std::int64_t{blockIdx.x} * v.groups + group;
    InputChoice(rules, v, v.step[input], input, memory).run();
  }
}

__global__ void __launch_bounds__(kSelectThreads) end_step_kernel(ExtraView v) {
  __shared__ double scratch[kSelectThreads / kWarp];
  const Team<kSelectThreads> team{static_cast<int>(threadIdx.x), scratch};
  int unfinished = 0;
  for (std::int64_t input = team.rank; input < v.inputs; input += kSelectThreads) {
    unfinished += v.done[input] == 0 ? 1 : 0;
    ++v.step[input];
  }
  unfinished = team.reduce(unfinished, Add{});
  if (team.rank == 0) *v.unfinished = unfinished;
}

template <typename T>
void launch_step(Stream& stream, const Rules& rules, const ExtraView& view, const T* logits,
                 std::int64_t vocabulary, const T* attention) {
  constexpr const char* kWhat = "advance a beam search with extras";
  const auto rows = static_cast<unsigned>(view.rows());
  if (vocabulary <= loss::cuda::kWarpVocabulary) {
    runtime::cuda::launch(stream, kWhat, extra_rows_kernel<kWarp, T>, rows, kWarp, 0, rules, view,
                          logits, vocabulary, attention);
  } else {
    runtime::cuda::launch(stream, kWhat, extra_rows_kernel<kRowThreads, T>, rows, kRowThreads, 0,
                          rules, view, logits, vocabulary, attention);
  }
  runtime::cuda::launch(stream, kWhat, choose_kernel,
                        static_cast<unsigned>(view.inputs / view.groups), kSelectThreads, 0, rules,
                        view);
  runtime::cuda::launch(stream, kWhat, end_step_kernel, 1, kSelectThreads, 0, view);
}

}  // namespace

void advance_extras(Stream& stream, const Rules& rules, const Extras& extras, const State& state,
                    const Tensor& logits, const Tensor& attention) {
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_step(stream, rules, ExtraView(state, extras), logits.data_as<const T>(), logits.size(1),
                data_or_null<const T>(attention));
  });
}

}  // namespace sluice::kernels::beam_search::cuda
