#include <algorithm>

#include "kernels/loss/cuda/sums.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::loss::cuda {
namespace {

using runtime::cuda::Add;
using runtime::cuda::kWarp;
using runtime::cuda::Team;

constexpr int kTotalThreads = 512;

/// Each block adds up every gridDim.x-th 512 tokens to a part; a single one ends with the sums.
__global__ void __launch_bounds__(kTotalThreads)
    add_up_kernel(const TokenResult* results, std::int64_t count, TokenResult* parts, double* sums,
                  bool accumulate) {
  __shared__ double scratch[kTotalThreads / kWarp];
  const Team<kTotalThreads> team{static_cast<int>(threadIdx.x), scratch};
  const std::int64_t first = std::int64_t{blockIdx.x} * kTotalThreads + threadIdx.x;
  TokenResult total{};
#pragma unroll 4
  for (std::int64_t n = first; n < count; n += std::int64_t{gridDim.x} * kTotalThreads) {
    total.loss += results[n].loss;
    total.nll += results[n].nll;
    total.counted += results[n].counted;
    total.correct += results[n].correct;
  }
  total = {team.reduce(total.loss, Add{}), team.reduce(total.nll, Add{}),
           team.reduce(total.counted, Add{}), team.reduce(total.correct, Add{})};
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1) {
    parts[blockIdx.x] = total;
    return;
  }
  const double all[kSums] = {total.loss, total.nll, total.counted, total.correct};
  for (int i = 0; i < kSums; ++i) sums[i] = accumulate ? sums[i] + all[i] : all[i];
}

/// Blocks that add up, so many as to depend on the number of tokens alone.
std::int64_t parts_for(std::int64_t tokens) {
  constexpr std::int64_t kTokensPerPart = 4 * kTotalThreads;
  return std::clamp((tokens + kTokensPerPart - 1) / kTokensPerPart, std::int64_t{1}, kLossParts);
}

}  // namespace

void add_up(Stream& stream, TokenResult* results, std::int64_t tokens, double* sums,
            bool accumulate) {
  const std::int64_t count = parts_for(tokens);
  TokenResult* parts = results + tokens;
  const auto launch = [&](const TokenResult* from, std::int64_t numbers, std::int64_t blocks) {
    runtime::cuda::launch(stream, "add up losses", add_up_kernel, static_cast<unsigned>(blocks),
                          kTotalThreads, 0, from, numbers, parts, sums, accumulate);
  };
  launch(results, tokens, count);
  if (count > 1) launch(parts, count, 1);
}

}  // namespace sluice::kernels::loss::cuda
