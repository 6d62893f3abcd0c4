#include "base/dtype.h"
#include "kernels/sampling/cuda/draw.h"
#include "kernels/sampling/cuda/sampling.h"
#include "kernels/sampling/cuda/view.h"
#include "runtime/cuda/launch.h"

/// One launch a step; the row that comes last ends it.
namespace sluice::kernels::sampling::cuda {
namespace {

using loss::cuda::kRowThreads;

template <typename T>
struct Step {
  Rules rules;
  Distribution distribution;
  View view;
  const T* logits;
  std::int64_t vocabulary;
  const T* attention;
  const T* choices;  ///< what tokens are drawn by; null: logits
  bool aligned;
  std::size_t cache_bytes;  ///< of shared memory for a block's row; 0: rows are read again
};

/// What a row's team knows of it.
struct Place {
  std::int64_t row, input;
  std::int32_t step, position;
};

/// The token that follows, or -1.
template <int kSize, typename T>
__device__ std::int32_t next_token(const Team<kSize>& team, const Step<T>& s, const Place& at,
                                   const Row<T>& row, TeamMemory<kSize>& memory) {
  const std::int64_t longest = s.view.longest(at.input, s.rules.force_end ? 0 : 1);
  const Allowed allowed(s.rules, s.view.forced(at.input, at.step), at.position, at.step >= longest);
  if (allowed.only >= 0) return isfinite(row.data[allowed.only]) ? allowed.only : -1;
  Row<T> choices = row;
  if (s.choices != nullptr) choices.data = s.choices + at.row * s.vocabulary;
  RowDraw<kSize, T> draws(team, choices, s.vocabulary, allowed, s.distribution.scale, memory);
  if (!draws.has_any()) return -1;
  Kept<T> kept;
  if (s.distribution.top_k > 0) kept = draws.largest(s.distribution.top_k);
  std::uint64_t mass = draws.mass(kept);
  if (s.distribution.is_cut()) {
    kept = draws.heaviest(s.distribution.part_of(mass));
    mass = draws.mass(kept);
  }
  const auto id = static_cast<std::uint32_t>(s.view.input_ids[at.input]);
  const auto sample = static_cast<std::uint32_t>(at.row % s.view.samples);
  return draws.token_at(
      draw(s.rules.seed, id, sample, static_cast<std::uint32_t>(at.position), mass), kept);
}

__device__ void finish(const Rules& rules, const View& v, std::int64_t row, Status status) {
  v.status[row] = status;
  v.tokens[row] = rules.pad;
}

__device__ void refuse(const Rules& rules, const View& v, std::int64_t row) {
  v.lengths[row] = -1;
  finish(rules, v, row, kImpossible);
}

template <int kSize, typename T>
__device__ void emit(const Team<kSize>& team, const Step<T>& s, const Place& at,
                     std::int32_t token) {
  const View& v = s.view;
  const std::int64_t place = at.row * v.max_length + at.step;
  if (team.rank == 0) {
    v.tokens[at.row] = token;
    v.lengths[at.row] = at.step + 1;
    v.emitted[place] = token;
    if (!s.rules.force_end && at.step + 1 >= v.longest(at.input, 1)) v.status[at.row] = kCut;
  }
  if (v.attention == nullptr) return;
  T* to = static_cast<T*>(v.attention) + place * v.source_time;
  const T* from = s.attention + at.row * v.source_time;
  for (std::int64_t i = team.rank; i < v.source_time; i += kSize) to[i] = from[i];
}

template <int kSize, typename T>
__device__ void advance_row(const Team<kSize>& team, const Step<T>& s, const Place& at,
                            Group<T>* cache, TeamMemory<kSize>& memory) {
  Row<T> row{s.logits + at.row * s.vocabulary, static_cast<int>(s.vocabulary), s.aligned};
  const auto normaliser = loss::cuda::normaliser(team, row, cache);
  team.sync();  // the cache is read across threads from here on
  if (isnan(normaliser.log_sum)) {
    if (team.rank == 0) {
      s.view.faults[at.input] = at.step + 1;
      refuse(s.rules, s.view, at.row);
    }
    return;
  }
  const std::int32_t token = next_token(team, s, at, row, memory);
  if (token < 0) {
    if (team.rank == 0) refuse(s.rules, s.view, at.row);
    return;
  }
  if (team.rank == 0) {
    s.view.scores[at.row] +=
        (static_cast<double>(row.data[token]) - static_cast<double>(normaliser.largest)) -
        normaliser.log_sum;
  }
  if (token == s.rules.eos) {
    if (team.rank == 0) finish(s.rules, s.view, at.row, kEnded);
    return;
  }
  emit(team, s, at, token);
}

/// The first warp of a row tells that it is done; that of the last one ends the step.
__device__ void end_row(const View& v, std::int32_t step) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  int arrived = 0;
  __threadfence();
  __syncwarp();
  if (lane == 0) arrived = atomicAdd(v.arrivals, 1);
  if (__shfl_sync(kAllLanes, arrived, 0) != v.rows() - 1) return;
  __threadfence();
  unsigned live = 0;
  for (std::int64_t row = lane; row < v.rows(); row += kWarp) {
    live += __ldcg(v.status + row) == kLive ? 1 : 0;
  }
  live = __reduce_add_sync(kAllLanes, live);
  if (lane == 0) {
    *v.unfinished = static_cast<std::int32_t>(live);
    *v.step = step + 1;
    *v.arrivals = 0;
  }
}

constexpr int kRowsPerBlock = 8;

/// A team of kSize threads a row: a warp of up to eight in a block, or the block.
template <int kSize, typename T>
__global__ void __launch_bounds__(kSize == kWarp ? kRowsPerBlock * kWarp : kSize)
    advance_kernel(Step<T> s) {
  constexpr int kTeams = kSize == kWarp ? kRowsPerBlock : 1;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double scratch[kSize / kWarp];
  __shared__ TeamMemory<kSize> memory[kTeams];
  const unsigned rank = threadIdx.x / kSize;
  const std::int64_t row = std::int64_t{blockIdx.x} * kTeams + rank;
  if (row >= s.view.rows()) return;
  const Team<kSize> team{static_cast<int>(threadIdx.x % kSize), scratch};
  const std::int32_t step = *s.view.step;
  if (s.view.status[row] == kLive) {
    auto* cache = s.cache_bytes > 0 ? reinterpret_cast<Group<T>*>(shared) : nullptr;
    const Place at{row, row / s.view.samples, step, step + *s.view.first_step};
    advance_row(team, s, at, cache, memory[rank]);
  }
  team.sync();
  if (team.rank < kWarp) end_row(s.view, step);
}

template <typename T>
void launch_step(Stream& stream, Step<T> s) {
  constexpr const char* kWhat = "advance sampling";
  const auto launch =
      loss::cuda::row_launch<T>(runtime::cuda::gpu_of(stream), s.view.rows(), s.vocabulary);
  if (!launch.by_warp) {
    s.cache_bytes = launch.cache_bytes;
    runtime::cuda::launch(stream, kWhat, advance_kernel<kRowThreads, T>,
                          static_cast<unsigned>(s.view.rows()), kRowThreads, s.cache_bytes, s);
    return;
  }
  const auto blocks = static_cast<unsigned>((s.view.rows() + kRowsPerBlock - 1) / kRowsPerBlock);
  runtime::cuda::launch(stream, kWhat, advance_kernel<kWarp, T>, blocks, kRowsPerBlock * kWarp, 0,
                        s);
}

}  // namespace

void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Tensor& choices) {
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* data = logits.data_as<const T>();
    launch_step(stream,
                Step<T>{rules, Distribution(rules), View(state), data, logits.size(1),
                        state.extent.attention ? attention.data_as<const T>() : nullptr,
                        choices.data() == logits.data() ? nullptr : choices.data_as<const T>(),
                        loss::cuda::rows_are_aligned(data, logits.size(1)), 0});
  });
}

}  // namespace sluice::kernels::sampling::cuda
