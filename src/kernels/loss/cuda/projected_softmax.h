#pragma once

#include "kernels/loss/cuda/projected_tile.h"

/// Losses and gradients of a pair's 16 tokens, each of whose logits four lanes share.
namespace sluice::kernels::loss::cuda {

template <typename T, typename Combine>
__device__ T combine_four(T value, Combine combine) {
  return runtime::cuda::combine_lanes<2, 1>(value, combine);
}

/// A lane's numbers of one token: two of every eight classes.
struct TokenClasses {
  float at[kEights][2];
  int column;  ///< that of the first among the eight

  template <typename Use>
  __device__ void for_each(const Use& use) {
#pragma unroll
    for (int t = 0; t < kEights; ++t) {
#pragma unroll
      for (int e = 0; e < 2; ++e) use(8 * t + column + e, at[t][e]);
    }
  }
};

/// Turns the logits of a token into their gradient, `scale` times; all of a warp call it.
template <typename T>
__device__ TokenResult take_loss(const ProjectedProblem<T>& p, const TokenTarget& of, float scale,
                                 TokenClasses& x) {
  const bool counts = of.counts != 0;
  const std::int32_t target = of.target;
  float largest = -INFINITY, at_target = 0, values = 0;
  x.for_each([&](int j, float value) {
    largest = value > largest ? value : largest;
    if (j == target) at_target = value;
    if (j < p.classes) values += value;
  });
  largest = combine_four(largest, runtime::cuda::Larger{});
  values = combine_four(values, runtime::cuda::Add{});
  at_target = combine_four(at_target, runtime::cuda::Add{});
  if (target < 0 || target >= p.classes) at_target = NAN;
  int earlier = 0;
  float sum = 0;
  x.for_each([&](int j, float& value) {
    if (j < target && value == largest) earlier = 1;
    value = __expf(value - largest);
    sum += value;
  });
  sum = combine_four(sum, runtime::cuda::Add{});
  earlier = combine_four(earlier, [](int a, int b) { return a | b; });
  const float factor = scale / sum, shift = scale * static_cast<float>(p.uniform);
  const float goal = scale * static_cast<float>(1 - p.smoothing);
  x.for_each([&](int j, float& value) {
    value = value * factor - shift;
    if (j == target) value -= goal;
    if (!counts || j >= p.classes) value = 0;
  });
  const double log_sum = static_cast<double>(largest) + static_cast<double>(::logf(sum));
  const double nll = log_sum - static_cast<double>(at_target);
  // Without smoothing the sum of all logits stays out, for it may be infinite where p is 0.
  double smoothed = 0;
  if (p.smoothing != 0) {
    smoothed = p.smoothing * log_sum - p.uniform * static_cast<double>(values);
  }
  const bool correct = at_target == largest && earlier == 0;
  const TokenResult result{(1 - p.smoothing) * nll + smoothed, nll, 1, correct ? 1.0 : 0.0};
  return counts ? result : TokenResult{};
}

/// A warp of a pair, which has half of the logits of its 16 tokens, takes eight of these: the
/// first the upper ones. Leaves their gradient in the tile, and adds to its sums.
template <typename T, int kIn>
__device__ void take_losses(const ProjectedProblem<T>& p, ProjectedTile<T, kIn>& tile,
                            const ProjectedPlace& place, float scale,
                            const float (&logits)[kOwnEights][4]) {
  const bool lower = place.half == 1;
#pragma unroll
  for (int t = 0; t < kOwnEights; ++t) {
    tile.handed[place.pair][place.half][t][place.lane] = {lower ? logits[t][0] : logits[t][2],
                                                          lower ? logits[t][1] : logits[t][3]};
  }
  place.meet();
  TokenClasses x{{}, place.column()};
#pragma unroll
  for (int t = 0; t < kOwnEights; ++t) {
    const float2 own = {lower ? logits[t][2] : logits[t][0], lower ? logits[t][3] : logits[t][1]};
    const float2 other = tile.handed[place.pair][1 - place.half][t][place.lane];
    const float2 before = lower ? other : own, after = lower ? own : other;
    x.at[t][0] = before.x, x.at[t][1] = before.y;
    x.at[kOwnEights + t][0] = after.x, x.at[kOwnEights + t][1] = after.y;
  }
  x.for_each([&](int j, float& value) { value += tile.bias[j]; });
  const int row = place.pair * kPairTokens + place.row() + 8 * place.half;
  const TokenResult result = take_loss(p, tile.targets[row], scale, x);
  if (place.lane % 4 == 0) {
    const double all[kSums] = {result.loss, result.nll, result.counted, result.correct};
    for (int i = 0; i < kSums; ++i) tile.sums[row][i] += all[i];
  }
#pragma unroll
  for (int t = 0; t < kEights; ++t) {
    *reinterpret_cast<std::uint32_t*>(&tile.gradient[row][8 * t + place.column()]) =
        packed_pair<T>(x.at[t][0], x.at[t][1]);
  }
}

}  // namespace sluice::kernels::loss::cuda
