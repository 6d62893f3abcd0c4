#pragma once

#include <cfloat>
#include <cstdint>
#include <type_traits>

#include "kernels/loss/cuda/row_ring.h"
#include "kernels/loss/leaves.h"
#include "runtime/cuda/numbers.h"
#include "runtime/cuda/reduce.h"

/// What a block makes of a long row of logits: the sums of its softmax, in one pass, and with them
/// a token's result.
namespace sluice::kernels::loss::cuda {

using runtime::cuda::kWarp;
using runtime::cuda::Wide;

inline constexpr int kWarps = kRingThreads / kWarp;

/// Exponentials around a reference: of float32 by powers of two, whose exponents, products with
/// kScale, are rounded once, together with the reference's.
template <typename N>
struct Powers;

template <>
struct Powers<float> {
  static constexpr float kScale = 1.4426950408889634f;  // 1 / log(2)
  static __device__ float of(float x, float reference) {
    return two_to(fmaf(x, kScale, -reference));
  }
  static __device__ float two_to(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  /// From a scaled difference, in float64, to what it is.
  static __device__ double unscaled(double x) { return x * 0.6931471805599453; }
};

template <>
struct Powers<double> {
  static constexpr double kScale = 1;
  static __device__ double of(double x, double reference) { return ::exp(x - reference); }
  static __device__ double two_to(double x) { return ::exp(x); }
  static __device__ double unscaled(double x) { return x; }
};

/// What a row's logits come to, or some of them.
template <typename N>
struct RowSums {
  N reference;     ///< the largest, scaled
  N exponentials;  ///< their sum around it
  N values;        ///< the logits' own
  bool ahead;      ///< whether a logit is larger than the target's, or as large and before it
};

template <typename N>
__device__ RowSums<N> no_sums() {
  // Finite, so that an exponential around it is never that of a difference of infinities.
  constexpr bool kWide = std::is_same_v<N, double>;
  return {static_cast<N>(kWide ? -DBL_MAX : -FLT_MAX), 0, 0, false};
}

/// By halves, in place.
template <int kCount, typename N>
__device__ N sum_of(N (&x)[kCount]) {
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) x[i] += x[i + half];
  }
  return x[0];
}

/// A token's target and its logit.
template <typename N>
struct Target {
  std::int32_t column;
  N logit;  ///< NaN for one outside the vocabulary
};

template <typename L>
__device__ Wide<L> logit_of(const RingRows<L>& rows, std::int64_t n, std::int32_t column) {
  const bool inside = column >= 0 && column < rows.columns;
  return inside ? runtime::cuda::widened(rows.data[n * rows.stride + column])
                : static_cast<Wide<L>>(NAN);
}

/// Adds a thread's numbers of a slot to its sums.
template <typename L, typename N = Wide<L>>
__device__ void add_slot(RowSums<N>& sums, N (&x)[Share<L>::kNumbers], int slot, int columns,
                         const Target<N>& target, bool smooths) {
  using S = Share<L>;
  const auto column = [&](int i) { return S::column(slot, i / S::kColumns) + i % S::kColumns; };
  const bool ends = column(S::kNumbers - 1) >= columns;  // the row, within these numbers or before
  if (ends) {
#pragma unroll
    for (int i = 0; i < S::kNumbers; ++i) {
      if (column(i) >= columns) x[i] = -static_cast<N>(INFINITY);
    }
  }
  N largest = ::fmax(::fmax(x[0], x[1]), ::fmax(x[2], x[3]));
  if constexpr (S::kNumbers == 8) {
    largest = ::fmax(largest, ::fmax(::fmax(x[4], x[5]), ::fmax(x[6], x[7])));
  }
  if (largest > target.logit) sums.ahead = true;
  if (largest == target.logit) {
#pragma unroll
    for (int i = 0; i < S::kNumbers; ++i) {
      if (x[i] == target.logit && column(i) < target.column) sums.ahead = true;
    }
  }
  using P = Powers<N>;
  const N before = sums.reference;
  sums.reference = ::fmax(before, largest * P::kScale);
  N powers[S::kNumbers];
#pragma unroll
  for (int i = 0; i < S::kNumbers; ++i) powers[i] = P::of(x[i], sums.reference);
  sums.exponentials = sums.exponentials * P::two_to(before - sums.reference) + sum_of(powers);
  if (!smooths) return;
  if (ends) {
#pragma unroll
    for (int i = 0; i < S::kNumbers; ++i) {
      if (column(i) >= columns) x[i] = 0;
    }
  }
  sums.values += sum_of(x);
}

/// The sums of several from those of each of kDistances' lanes, in all of them.
template <int... kDistances, typename N>
__device__ RowSums<N> of_lanes(const RowSums<N>& own, bool smooths) {
  using runtime::cuda::Add;
  using runtime::cuda::combine_lanes;
  RowSums<N> all{};
  all.reference = combine_lanes<kDistances...>(own.reference, runtime::cuda::Larger{});
  const N scaled = own.exponentials * Powers<N>::two_to(own.reference - all.reference);
  all.exponentials = combine_lanes<kDistances...>(scaled, Add{});
  if (smooths) all.values = combine_lanes<kDistances...>(own.values, Add{});
  all.ahead = __any_sync(runtime::cuda::kAllLanes, own.ahead) != 0;
  return all;
}

/// The sums of a row from those of its threads, in every thread. `parts` is shared, and may be
/// written again by the row after the next.
template <typename N>
__device__ RowSums<N> of_block(const RowSums<N>& own, RowSums<N>* parts, bool smooths) {
  const RowSums<N> warp = of_lanes<16, 8, 4, 2, 1>(own, smooths);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = warp;
  __syncthreads();
  static_assert(kWarps == 16);
  return of_lanes<8, 4, 2, 1>(parts[threadIdx.x % kWarps], smooths);
}

template <typename N>
__device__ TokenResult result_of(const Target<N>& target, N weight, const RowSums<N>& row,
                                 double smoothing, int columns) {
  using P = Powers<N>;
  constexpr auto kScale = static_cast<double>(P::kScale);
  const auto log_sum = static_cast<double>(::log(row.exponentials));
  const auto reference = static_cast<double>(row.reference);
  // All log-probabilities are differences from one reference, with its own rounding.
  const auto minus_log = [&](N x) {
    return P::unscaled(reference - static_cast<double>(x) * kScale) + log_sum;
  };
  const double nll = minus_log(target.logit);
  // Without smoothing the sum of all logits stays out, for it may be infinite where p is 0.
  const double smoothing_part =
      smoothing == 0 ? 0 : smoothing * minus_log(row.values / static_cast<N>(columns));
  const bool correct = !isnan(target.logit) && !row.ahead;
  return {static_cast<double>(weight) * ((1 - smoothing) * nll + smoothing_part), nll, 1,
          correct ? 1.0 : 0.0};
}

}  // namespace sluice::kernels::loss::cuda
