#include <algorithm>
#include <array>

#include "base/dtype.h"
#include "kernels/sampling/cuda/sampling.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::sampling::cuda {
namespace {

using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;

constexpr int kWarps = 4;

template <typename T>
struct Scheduled {
  std::int64_t first_time, time, rows, vocabulary;
  const T* logits;
  std::int32_t* tokens;
  const std::int32_t *lengths, *ids;
  const double* probability;
  bool draws;
  runtime::DropoutSource source;

  explicit Scheduled(const ScheduledInputsArgs& args)
      : first_time(args.first_time),
        time(std::min(args.time, args.tokens.size(0) - 1 - args.first_time)),
        rows(args.rows),
        vocabulary(args.logits.size(1)),
        logits(args.logits.data_as<const T>()),
        tokens(args.tokens.data_as<std::int32_t>()),
        lengths(args.lengths.data_as<const std::int32_t>()),
        ids(args.row_ids.data_as<const std::int32_t>()),
        probability(args.probability.data_as<const double>()),
        draws(args.draws),
        source(args.source) {}
};

/// Drawn by its probability, by a warp; `likeliest` where there are none.
template <typename T>
__device__ int drawn_token(const T* logits, std::int64_t vocabulary, int likeliest,
                           const std::array<std::uint32_t, 4>& words) {
  const T largest = logits[likeliest];
  const auto weight_of = [&](std::int64_t v) {
    return v < vocabulary ? weight(logits[v], largest, Distribution::kUnitScale) : std::uint64_t{0};
  };
  std::uint64_t mine = 0;
  for (std::int64_t v = 1 + threadIdx.x; v < vocabulary; v += kWarp) mine += weight_of(v);
  const std::uint64_t total = runtime::cuda::combine_warp(mine, runtime::cuda::Add{});
  if (total == 0) return likeliest;
  std::uint64_t place = place_of_draw(words, total);
  for (std::int64_t first = 1; first < vocabulary; first += kWarp) {
    std::uint64_t until = weight_of(first + threadIdx.x);  // of the tokens up to this lane's
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const std::uint64_t before = __shfl_up_sync(kAllLanes, until, distance);
      if (static_cast<int>(threadIdx.x) >= distance) until += before;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, until > place);
    if (beyond != 0) return static_cast<int>(first) + __ffs(static_cast<int>(beyond)) - 1;
    place -= __shfl_sync(kAllLanes, until, kWarp - 1);
  }
  return likeliest;
}

/// A token and its logit; token 0 stands for none.
template <typename T>
struct Candidate {
  T logit;
  int token = 0;

  __device__ void consider(T other, int other_token) {
    if (other_token == 0 || isnan(other)) return;
    if (token == 0 || other > logit || (other == logit && other_token < token)) {
      logit = other;
      token = other_token;
    }
  }
};

/// A warp a token: most of them draw their coin and are done.
template <typename T>
__global__ void __launch_bounds__(kWarp* kWarps) scheduled_kernel(Scheduled<T> s) {
  const std::int64_t n = std::int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (n >= s.time * s.rows) return;
  const std::int64_t fed = s.first_time + n / s.rows + 1, row = n % s.rows;
  if (fed >= s.lengths[row]) return;
  const auto id = static_cast<std::uint32_t>(s.ids == nullptr ? row : s.ids[row]);
  const auto words = s.source.key().words(id, static_cast<std::uint32_t>(fed), 0);
  if (!takes_prediction(words[0], *s.probability)) return;

  Candidate<T> best{};
  const T* logits = s.logits + n * s.vocabulary;
  for (std::int64_t v = 1 + threadIdx.x; v < s.vocabulary; v += kWarp) {
    best.consider(logits[v], static_cast<int>(v));
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    best.consider(__shfl_xor_sync(kAllLanes, best.logit, distance),
                  __shfl_xor_sync(kAllLanes, best.token, distance));
  }
  int token = best.token == 0 ? 1 : best.token;
  if (s.draws) token = drawn_token(logits, s.vocabulary, token, words);
  if (threadIdx.x == 0) s.tokens[fed * s.rows + row] = token;
}

}  // namespace

void schedule_inputs(Stream& stream, const ScheduledInputsArgs& args) {
  base::dispatch_master(args.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Scheduled<T> scheduled(args);
    const std::int64_t count = scheduled.time * scheduled.rows;
    if (count == 0) return;
    runtime::cuda::launch(stream, "schedule inputs", scheduled_kernel<T>,
                          static_cast<unsigned>((count + kWarps - 1) / kWarps), dim3(kWarp, kWarps),
                          0, scheduled);
  });
}

}  // namespace sluice::kernels::sampling::cuda
