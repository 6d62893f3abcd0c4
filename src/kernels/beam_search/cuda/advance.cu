#include <algorithm>

#include "base/dtype.h"
#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/beam_search/cuda/row_candidates.h"
#include "kernels/beam_search/cuda/select.h"
#include "runtime/cuda/launch.h"

/// One launch a step. Who comes last, of the rows of an input and then of the inputs, goes on with
/// what needs all of them; the counters are integers, so their order shows nowhere.
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
  bool share_candidates;    ///< whether an input's candidates fit into shared memory
};

/// Shared memory for the selection: heads, then candidates if they fit.
struct SelectMemory {
  double* scores;
  std::int32_t *tokens, *heads;

  static __host__ __device__ std::size_t candidate_bytes(std::int64_t beam) {
    return static_cast<std::size_t>(beam * (beam + 1)) * (sizeof(double) + sizeof(std::int32_t));
  }
  static __host__ __device__ std::size_t bytes(std::int64_t beam, bool candidates) {
    return (candidates ? candidate_bytes(beam) : 0) +
           static_cast<std::size_t>(beam) * sizeof(std::int32_t);
  }
  /// Candidates of `input` in shared memory, or else in the state.
  __device__ SelectMemory(unsigned char* memory, const View& v, std::int64_t input, bool shared) {
    const std::int64_t count = v.beam * (v.beam + 1);
    scores = shared ? reinterpret_cast<double*>(memory) : v.candidate_scores + input * count;
    tokens = shared ? reinterpret_cast<std::int32_t*>(scores + count)
                    : v.candidate_tokens + input * count;
    heads = shared ? tokens + count : reinterpret_cast<std::int32_t*>(memory);
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

template <int kSize, typename T>
__device__ void continue_row(const Team<kSize>& team, const Step<T>& s, std::int32_t step,
                             std::int64_t row, Group<T>* cache, const Candidates& out,
                             BlockMemory<T>* memory) {
  const double prefix = s.view.scores[row];
  if (prefix == no_score()) return out.clear(team, 0);
  record_attention(team, s, step, row);
  const std::int64_t input = row / s.view.beam;
  const Row<T> logits{s.logits + row * s.vocabulary, static_cast<int>(s.vocabulary), s.aligned};
  const Allowed allowed(s.rules, step, s.view.longest(input), s.view.forced(input, step));
  if (!row_candidates(team, logits, cache, allowed, prefix, out, memory) && team.rank == 0) {
    s.view.faults[input] = step + 1;
  }
}

/// One warp tells that an input is selected; that of the last one ends the step.
__device__ void end_input(const View& v, std::int32_t step) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  int arrived = 0;
  __threadfence();
  __syncwarp();
  if (lane == 0) arrived = atomicAdd(v.arrivals + v.inputs, 1);
  if (__shfl_sync(kAllLanes, arrived, 0) != v.inputs - 1) return;
  __threadfence();
  unsigned unfinished = 0;
  for (std::int64_t i = lane; i < v.inputs; i += kWarp) {
    unfinished += __ldcg(v.done + i) == 0 ? 1 : 0;
  }
  unfinished = __reduce_add_sync(kAllLanes, unfinished);
  if (lane == 0) {
    *v.unfinished = static_cast<std::int32_t>(unfinished);
    *v.step = step + 1;
    v.arrivals[v.inputs] = 0;
  }
}

/// A block an input, a warp a row of few logits.
template <typename T>
__global__ void __launch_bounds__(1024) advance_inputs_kernel(Step<T> s) {
  extern __shared__ __align__(16) unsigned char shared[];
  const std::int64_t input = blockIdx.x, beam = s.view.beam;
  const unsigned warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp;
  const Team<kWarp> team{static_cast<int>(threadIdx.x % kWarp), nullptr};
  const std::int32_t step = *s.view.step;
  const SelectMemory memory(shared + warps * s.cache_bytes, s.view, input, s.share_candidates);
  auto* cache = reinterpret_cast<Group<T>*>(shared + warp * s.cache_bytes);
  const auto width = static_cast<int>(beam + 1);
  for (std::int64_t b = warp; b < beam; b += warps) {
    const Candidates out{width, memory.scores + b * width, memory.tokens + b * width};
    continue_row<kWarp, T>(team, s, step, input * beam + b, cache, out, nullptr);
  }
  __syncthreads();
  if (warp != 0) return;
  select_input(s.rules, s.view, step, input, memory.scores, memory.tokens, memory.heads);
  end_input(s.view, step);
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
  const View& v = s.view;
  const std::int64_t row = blockIdx.x, input = row / v.beam, width = v.beam + 1;
  const Team<kRowThreads> team{static_cast<int>(threadIdx.x), block_memory.scratch};
  const std::int32_t step = *v.step;
  auto* cache = s.cache_bytes > 0 ? reinterpret_cast<Group<T>*>(shared) : nullptr;
  const Candidates out{static_cast<int>(width), v.candidate_scores + row * width,
                       v.candidate_tokens + row * width};
  continue_row(team, s, step, row, cache, out, &block_memory);
  if (!is_last_row(v, input)) return;

  const SelectMemory memory(shared, v, input, s.share_candidates);
  if (s.share_candidates) {
    const std::int64_t count = v.beam * width;
    for (std::int64_t i = threadIdx.x; i < count; i += kRowThreads) {
      memory.scores[i] = __ldcg(v.candidate_scores + input * count + i);
      memory.tokens[i] = __ldcg(v.candidate_tokens + input * count + i);
    }
    __syncthreads();
  }
  if (threadIdx.x >= kWarp) return;
  select_input(s.rules, v, step, input, memory.scores, memory.tokens, memory.heads);
  end_input(v, step);
}

template <typename T>
void launch_step(Stream& stream, Step<T> s) {
  constexpr const char* kWhat = "advance a beam search";
  const auto& gpu = runtime::cuda::gpu_of(stream);
  const std::size_t most_candidates = gpu.shared_bytes / 4, most_caches = gpu.shared_bytes / 2;
  const View& v = s.view;
  s.share_candidates = SelectMemory::candidate_bytes(v.beam) <= most_candidates;
  const std::size_t select_bytes = SelectMemory::bytes(v.beam, s.share_candidates);
  const auto launch = loss::cuda::row_launch<T>(gpu, v.rows(), s.vocabulary);
  if (!launch.by_warp) {
    s.cache_bytes = launch.cache_bytes;
    runtime::cuda::launch(stream, kWhat, advance_rows_kernel<T>, static_cast<unsigned>(v.rows()),
                          kRowThreads, std::max(s.cache_bytes, select_bytes), s);
    return;
  }
  s.cache_bytes = static_cast<std::size_t>((s.vocabulary + 3) / 4) * sizeof(Group<T>);
  const std::size_t most_warps = std::min<std::size_t>(32, most_caches / s.cache_bytes);
  const std::size_t warps = std::min(most_warps, static_cast<std::size_t>(v.beam));
  runtime::cuda::launch(stream, kWhat, advance_inputs_kernel<T>, static_cast<unsigned>(v.inputs),
                        static_cast<unsigned>(warps * kWarp), warps * s.cache_bytes + select_bytes,
                        s);
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
