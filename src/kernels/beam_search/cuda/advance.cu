#include <algorithm>

#include "base/dtype.h"
#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/beam_search/cuda/row_candidates.h"
#include "kernels/beam_search/cuda/select.h"
#include "kernels/beam_search/cuda/short_row.h"
#include "runtime/cuda/launch_early.h"

/// One launch a step. Inputs don't wait for each other; of an input's rows who comes last goes on
/// with what needs all of them.
namespace sluice::kernels::beam_search::cuda {
namespace {

using loss::cuda::kRowThreads;

template <typename T>
struct Step {
  Rules rules;
  View view;
  const T* logits;
  std::int64_t vocabulary;
  const T* attention;
  bool aligned;
  std::size_t cache_bytes;  ///< of shared memory for one row; 0: rows are read again
  bool share_candidates;    ///< whether an input's candidates are in shared memory
};

std::size_t candidate_bytes(std::int64_t beam) {
  return static_cast<std::size_t>(beam * (beam + 1)) * (sizeof(double) + sizeof(std::int32_t));
}

/// Candidates of an input in `shared`, or else in the state.
struct CandidateMemory {
  double* scores;
  std::int32_t* tokens;

  __device__ CandidateMemory(unsigned char* shared, const View& v, std::int64_t input) {
    const std::int64_t count = v.beam * (v.beam + 1);
    scores =
        shared != nullptr ? reinterpret_cast<double*>(shared) : v.candidate_scores + input * count;
    tokens = shared != nullptr ? reinterpret_cast<std::int32_t*>(scores + count)
                               : v.candidate_tokens + input * count;
  }
};

/// Where the step looked, by row as it was when the model took the step.
template <int kSize, typename T>
__device__ void record_attention(const Team<kSize>& team, const Step<T>& s, std::int32_t step,
                                 std::int64_t row) {
  if (s.view.history_attention == nullptr || step >= s.view.max_length) return;
  const T* from = s.attention + row * s.view.source_time;
  T* to =
      static_cast<T*>(s.view.history_attention) + (step * s.view.rows() + row) * s.view.source_time;
  for (std::int64_t i = team.rank; i < s.view.source_time; i += kSize) to[i] = from[i];
}

/// Fills `out` with a row's candidates. Returns false, with none, if its logits have no softmax.
template <int kSize, typename T>
__device__ bool continue_row(const Team<kSize>& team, const Step<T>& s, const InputStep& of,
                             std::int64_t row, Group<T>* cache, const Candidates& out,
                             BlockMemory<T>* memory) {
  const double prefix = s.view.scores[row];
  const T* data = s.logits + row * s.vocabulary;
  Row<T> logits{data, static_cast<int>(s.vocabulary), s.aligned};
  const auto is_dead = [&] { return prefix == no_score(); };
  // A block's row is long. That of a warp is on its way together with the prefix.
  if (kSize > kWarp && is_dead()) return out.clear(team, 0), true;
  const Scores<T> scores{prefix, loss::cuda::normaliser(team, logits, cache)};
  if (is_dead()) return out.clear(team, 0), true;
  record_attention(team, s, of.step, row);
  if (isnan(scores.norm.log_sum)) {
    out.clear(team, 0);
    if (team.rank == 0) s.view.faults[of.input] = of.step + 1;
    return false;
  }
  const Allowed allowed(s.rules, of.step, s.view.longest(of.input),
                        s.view.forced(of.input, of.step));
  take_candidates(team, data, logits, cache, allowed, scores, out, memory);
  return true;
}

/// A block an input, a warp a row of few logits.
template <typename T>
__global__ void __launch_bounds__(1024) advance_inputs_kernel(Step<T> s) {
  extern __shared__ __align__(16) unsigned char shared[];
  runtime::cuda::begin_behind_kernel_ahead();
  const View& v = s.view;
  const std::int64_t input = blockIdx.x;
  const auto beam = static_cast<int>(v.beam), width = beam + 1;
  const auto warps = static_cast<int>(blockDim.x / kWarp),
             warp = static_cast<int>(threadIdx.x / kWarp);
  const Team<kWarp> team{static_cast<int>(threadIdx.x % kWarp), nullptr};
  // What the end reads is on its way from here on.
  const InputStep input_step{s.rules, v, input, v.step[input]};
  const bool was_done = v.done[input] != 0;
  BestList list(v, input);

  const SelectMemory memory(shared + warps * s.cache_bytes, beam);
  auto* cache = reinterpret_cast<Group<T>*>(shared + warp * s.cache_bytes);
  const CandidateMemory own(s.share_candidates ? memory.rest : nullptr, v, input);
  const InputCandidates candidates{beam, own.scores, own.tokens};
  bool is_faulty = false;
  for (int b = warp; b < beam; b += warps) {
    const Candidates out{width, own.scores + b * width, own.tokens + b * width};
    const bool is_sound =
        continue_row<kWarp, T>(team, s, input_step, input * beam + b, cache, out, nullptr);
    is_faulty |= !is_sound;
    team.sync();
    if (beam <= kWarp) list_beam(candidates, b, s.rules.eos, *memory.lists);
  }
  is_faulty = __syncthreads_or(is_faulty) != 0;
  select_input(input_step, candidates, memory, is_faulty, was_done, list);
}

/// The same of short rows and up to 32 beams, a warp a beam.
template <typename T>
__global__ void __launch_bounds__(1024) advance_short_rows_kernel(Step<T> s) {
  extern __shared__ __align__(16) unsigned char shared[];
  runtime::cuda::begin_behind_kernel_ahead();
  const View& v = s.view;
  const std::int64_t input = blockIdx.x;
  const auto beam = static_cast<int>(v.beam), b = static_cast<int>(threadIdx.x / kWarp);
  const Team<kWarp> team{static_cast<int>(threadIdx.x % kWarp), nullptr};
  const std::int64_t row = input * beam + b;
  // All that is read is on its way at once.
  T values[kLogitsOfLane];
#pragma unroll
  for (int r = 0; r < kLogitsOfLane; ++r) {
    const bool has_one = token_of_lane(r) < s.vocabulary;
    values[r] =
        has_one ? s.logits[row * s.vocabulary + token_of_lane(r)] : -static_cast<T>(INFINITY);
  }
  const double prefix = v.scores[row];
  const InputStep input_step{s.rules, v, input, v.step[input]};
  const Allowed allowed(s.rules, input_step.step, v.longest(input),
                        v.forced(input, input_step.step));
  const bool was_done = v.done[input] != 0;
  BestList list(v, input);

  const Scores<T> scores{prefix, loss::cuda::normaliser_of_lanes(values)};
  const bool is_live = prefix != no_score(), is_sound = !isnan(scores.norm.log_sum);
  if (is_live) record_attention(team, s, input_step.step, row);
  if (is_live && !is_sound && team.rank == 0) v.faults[input] = input_step.step + 1;
  using Keys = Group<typename Ranked<T>::Bits>;
  auto* keys = reinterpret_cast<Keys*>(shared + b * s.cache_bytes);
  const SelectMemory memory(shared + beam * s.cache_bytes, beam);
  const CandidateMemory own(memory.rest, v, input);
  list_short_row(values, static_cast<int>(s.vocabulary), allowed, scores, is_live && is_sound, keys,
                 b, beam, own.scores, own.tokens, *memory.lists);
  const bool is_faulty = __syncthreads_or(is_live && !is_sound) != 0;
  select_merged(input_step, {beam, own.scores, own.tokens}, *memory.lists, is_faulty, was_done,
                list);
}

/// Whether this block is the last of its input's rows.
__device__ bool is_last_row(const View& v, std::int64_t input) {
  __shared__ int last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(v.arrivals + input, 1) == v.beam - 1 ? 1 : 0;
    if (last != 0) v.arrivals[input] = 0;
  }
  __syncthreads();
  __threadfence();
  return last != 0;
}

/// A block a row.
template <typename T>
__global__ void __launch_bounds__(kRowThreads) advance_rows_kernel(Step<T> s) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ BlockMemory<T> block_memory;
  runtime::cuda::begin_behind_kernel_ahead();
  const View& v = s.view;
  const std::int64_t row = blockIdx.x, input = row / v.beam;
  const auto beam = static_cast<int>(v.beam), width = beam + 1;
  const Team<kRowThreads> team{static_cast<int>(threadIdx.x), block_memory.scratch};
  const InputStep input_step{s.rules, v, input, v.step[input]};
  auto* cache = s.cache_bytes > 0 ? reinterpret_cast<Group<T>*>(shared) : nullptr;
  const Candidates out{width, v.candidate_scores + row * width, v.candidate_tokens + row * width};
  continue_row(team, s, input_step, row, cache, out, &block_memory);
  if (!is_last_row(v, input)) return;

  const SelectMemory memory(shared, beam);
  const CandidateMemory all(nullptr, v, input);
  const CandidateMemory own(s.share_candidates ? memory.rest : nullptr, v, input);
  if (s.share_candidates) {
    for (int i = static_cast<int>(threadIdx.x); i < beam * width; i += kRowThreads) {
      own.scores[i] = all.scores[i];
      own.tokens[i] = all.tokens[i];
    }
  }
  const InputCandidates candidates{beam, own.scores, own.tokens};
  if (beam <= kWarp) {
    for (int b = static_cast<int>(threadIdx.x / kWarp); b < beam; b += kRowThreads / kWarp) {
      list_beam(candidates, b, s.rules.eos, *memory.lists);
    }
  }
  __syncthreads();
  BestList list(v, input);
  select_input(input_step, candidates, memory, v.faults[input] != 0, v.done[input] != 0, list);
}

template <typename T>
void launch_step(Stream& stream, Step<T> s) {
  constexpr const char* kWhat = "advance a beam search";
  const auto& gpu = runtime::cuda::gpu_of(stream);
  const std::size_t most_candidates = gpu.shared_bytes / 4, most_caches = gpu.shared_bytes / 2;
  const View& v = s.view;
  if (s.vocabulary <= kShortRow && v.beam <= kWarp) {
    s.cache_bytes = kShortRow * sizeof(T);
    const auto beam = static_cast<std::size_t>(v.beam);
    return runtime::cuda::launch_early(
        stream, kWhat, advance_short_rows_kernel<T>, static_cast<unsigned>(v.inputs),
        static_cast<unsigned>(beam * kWarp),
        beam * s.cache_bytes + SelectMemory::bytes(v.beam) + candidate_bytes(v.beam), s);
  }
  const auto launch = loss::cuda::row_launch<T>(gpu, v.rows(), s.vocabulary);
  s.share_candidates = candidate_bytes(v.beam) <= most_candidates;
  // Lists of up to 32 beams are read once from where blocks left them.
  if (!launch.by_warp && v.beam <= kWarp) s.share_candidates = false;
  const std::size_t select_bytes =
      SelectMemory::bytes(v.beam) + (s.share_candidates ? candidate_bytes(v.beam) : 0);
  if (!launch.by_warp) {
    s.cache_bytes = launch.cache_bytes;
    runtime::cuda::launch_early(stream, kWhat, advance_rows_kernel<T>,
                                static_cast<unsigned>(v.rows()), kRowThreads,
                                std::max(s.cache_bytes, select_bytes), s);
    return;
  }
  s.cache_bytes = static_cast<std::size_t>((s.vocabulary + 3) / 4) * sizeof(Group<T>);
  const std::size_t most_warps = std::min<std::size_t>(32, most_caches / s.cache_bytes);
  const std::size_t warps = std::min(most_warps, static_cast<std::size_t>(v.beam));
  runtime::cuda::launch_early(stream, kWhat, advance_inputs_kernel<T>,
                              static_cast<unsigned>(v.inputs), static_cast<unsigned>(warps * kWarp),
                              warps * s.cache_bytes + select_bytes, s);
}

}  // namespace

void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention) {
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* data = logits.data_as<const T>();
    launch_step(stream, Step<T>{rules, View(state), data, logits.size(1),
                                state.extent.attention ? attention.data_as<const T>() : nullptr,
                                loss::cuda::rows_are_aligned(data, logits.size(1)), 0, false});
  });
}

}  // namespace sluice::kernels::beam_search::cuda
