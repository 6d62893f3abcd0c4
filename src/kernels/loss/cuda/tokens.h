#pragma once

#include <cstdint>

#include "kernels/loss/loss.h"

namespace sluice::kernels::loss::cuda {

/// Which tokens count and what their targets are.
struct Tokens {
  std::int64_t first_time, time, rows;
  const std::int32_t* targets;
  const std::int32_t* lengths;  ///< or null: every token counts

  template <typename Args>
  explicit Tokens(const Args& args)
      : first_time(args.first_time),
        time(args.time),
        rows(args.rows),
        targets(args.targets.template data_as<const std::int32_t>()),
        lengths(args.lengths.template data_as<const std::int32_t>()) {}

  __host__ __device__ std::int64_t count() const { return time * rows; }
  __device__ bool counts(std::int64_t n) const {
    return lengths == nullptr || first_time + n / rows < lengths[n % rows];
  }
};

/// The target's logit; NaN for a target outside the vocabulary.
template <typename T>
__device__ T target_logit(const T* logits, std::int64_t vocabulary, std::int32_t target) {
  return target >= 0 && target < vocabulary ? logits[target] : static_cast<T>(NAN);
}

}  // namespace sluice::kernels::loss::cuda
