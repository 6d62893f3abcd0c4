#include <algorithm>

#include "base/dtype.h"
#include "kernels/sampling/cuda/sampling.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::sampling::cuda {
namespace {

constexpr int kWarp = 32, kWarps = 4;
constexpr unsigned kAllLanes = 0xffffffff;

template <typename T>
struct Scheduled {
  std::int64_t first_time, time, rows, vocabulary;
  const T* logits;
  std::int32_t* tokens;
  const std::int32_t *lengths, *ids;
  const double* probability;
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
        source(args.source) {}
};

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
  const std::uint32_t word = s.source.key().word(id, static_cast<std::uint32_t>(fed), 0);
  if (!takes_prediction(word, *s.probability)) return;

  Candidate<T> best{};
  const T* logits = s.logits + n * s.vocabulary;
  for (std::int64_t v = 1 + threadIdx.x; v < s.vocabulary; v += kWarp) {
    best.consider(logits[v], static_cast<int>(v));
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    best.consider(__shfl_xor_sync(kAllLanes, best.logit, distance),
                  __shfl_xor_sync(kAllLanes, best.token, distance));
  }
  if (threadIdx.x == 0) s.tokens[fed * s.rows + row] = best.token == 0 ? 1 : best.token;
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
