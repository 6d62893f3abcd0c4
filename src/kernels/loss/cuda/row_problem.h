#pragma once

#include <cstdint>

#include "kernels/loss/cuda/row_ring.h"
#include "kernels/loss/cuda/row_sums.h"
#include "kernels/loss/cuda/sums.h"

/// What the kernels of long rows of logits are to do.
namespace sluice::kernels::loss::cuda {

/// L: of the logits; G: of their gradient.
template <typename L, typename G>
struct RowProblem {
  Tokens tokens;
  RingRows<L> logits;
  G* gradient;  ///< may be the logits, or null
  std::int64_t gradient_stride;
  int gradient_columns;  ///< as many as of the logits, or more
  bool gradient_whole;   ///< its pieces are aligned
  TokenResult* results;
  double smoothing;
  const float* class_weights;  ///< or null
  Scale scale;
  double gradient_factor;
  Wide<L>* column_sums;  ///< [blocks, columns], of what each block writes of the gradient, or null

  /// 1 for a target outside the vocabulary, whose loss is NaN anyway.
  __device__ Wide<L> weight_of(const Target<Wide<L>>& target) const {
    const bool has_weight =
        class_weights != nullptr && target.column >= 0 && target.column < logits.columns;
    return has_weight ? static_cast<Wide<L>>(class_weights[target.column]) : 1;
  }
};

/// The gradient of a row is factor * exp(x - largest) - shift, and less at the target.
template <typename N>
struct GradientFactors {
  N factor, shift, at_target;

  /// Of a target that weighs 1, and exponentials whose sum is 1.
  template <typename L, typename G>
  __device__ explicit GradientFactors(const RowProblem<L, G>& p) {
    const double all = p.scale.value() * p.gradient_factor;
    factor = static_cast<N>(all);
    shift = static_cast<N>(all * p.smoothing / static_cast<double>(p.logits.columns));
    at_target = static_cast<N>(all * (1 - p.smoothing));
  }
  __device__ GradientFactors(N of_powers, N of_all, N of_target)
      : factor(of_powers), shift(of_all), at_target(of_target) {}
  __device__ GradientFactors of(N weight, const RowSums<N>& row) const {
    return {factor * weight / row.exponentials, shift * weight, at_target * weight};
  }
};

/// Zeros in the columns of a row's gradient from `first` on.
template <typename G>
__device__ void write_zeros(G* gradient, int first, int columns) {
#pragma unroll 1
  for (int j = first + static_cast<int>(threadIdx.x); j < columns; j += kRingThreads) {
    gradient[j] = runtime::cuda::narrowed<G>(0);
  }
}

}  // namespace sluice::kernels::loss::cuda
