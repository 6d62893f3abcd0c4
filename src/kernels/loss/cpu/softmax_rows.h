#pragma once

#include <cstdint>

namespace sluice::kernels::loss::cpu {

/// The loops over one row of `count` > 0 logits, for one instruction set. All instruction sets give
/// the same bits: sums run in 16 lanes whatever the width of a register.
template <typename T>
struct SoftmaxRows {
  /// The largest element; NaN is passed over.
  T (*maximum)(const T* x, std::int64_t count);

  struct Sums {
    double exponentials;  ///< of exp(x - maximum)
    double values;        ///< of x
  };
  /// Both sums; writes exp(x - maximum) to `exponentials`, which may be x, or is null.
  Sums (*sums)(const T* x, std::int64_t count, T maximum, T* exponentials);

  /// x = factor * x - shift
  void (*scale_and_shift)(T* x, std::int64_t count, T factor, T shift);
};

template <typename T>
const SoftmaxRows<T>& portable_rows();
/// Only to be called where the processor has the instructions.
const SoftmaxRows<float>& avx2_rows();
const SoftmaxRows<float>& avx512_rows();

/// The best for this processor.
template <typename T>
const SoftmaxRows<T>& softmax_rows();

}  // namespace sluice::kernels::loss::cpu
