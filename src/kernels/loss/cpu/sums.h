#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/loss/leaves.h"

/// What the losses have in common.
namespace sluice::kernels::loss::cpu {

/// The factor of the loss sum's gradient.
template <typename Args>
double scale_of(const Args& args) {
  const auto number = [](const Tensor& x) { return x ? x.data_as<const double>()[0] : 1; };
  return number(args.scale) * number(args.loss_scale);
}

/// The results of all tokens, in rising order, into the sums.
inline void add_up(const TokenResult* results, std::int64_t count, double* sums, bool accumulate) {
  TokenResult total{};
  for (std::int64_t n = 0; n < count; ++n) {
    total.loss += results[n].loss;
    total.nll += results[n].nll;
    total.counted += results[n].counted;
    total.correct += results[n].correct;
  }
  if (!accumulate) std::fill(sums, sums + kSums, 0.0);
  sums[kLoss] += total.loss;
  sums[kNll] += total.nll;
  sums[kTokens] += total.counted;
  sums[kCorrect] += total.correct;
}

}  // namespace sluice::kernels::loss::cpu
