#pragma once

#include <cstdint>

#include "kernels/embedding/embedding.h"
#include "runtime/cuda/numbers.h"

/// Dropout on the way, for .cu files.
namespace sluice::kernels::embedding::cuda {

/// Neighbouring elements that share a draw.
inline constexpr int kDrawn = 4;

/// The dropout of rows of tokens [time, rows], of whose elements threads have kDrawn at a time.
struct Dropped {
  runtime::DropoutSource source;
  std::uint32_t rows;
  const std::int32_t* row_ids;  ///< or null
  std::uint32_t threshold;
  float factor;

  Dropped(const Dropout& dropout, const Tensor& tokens)
      : source(dropout.source),
        rows(dropout.rate > 0 ? static_cast<std::uint32_t>(tokens.size(1)) : 1),
        row_ids(dropout.row_ids.data_as<const std::int32_t>()),
        threshold(runtime::dropout_threshold(dropout.rate)),
        factor(static_cast<float>(1 / (1 - dropout.rate))) {}

  /// What keys the draws of token i.
  struct Token {
    std::uint32_t id, time;
  };
  __device__ Token token(std::int64_t i) const {
    const std::uint32_t place = static_cast<std::uint32_t>(i), row = place % rows;
    return {static_cast<std::uint32_t>(row_ids != nullptr ? row_ids[row] : row), place / rows};
  }
  /// Its elements `feature` and on; the same rounding as that of a pass of its own.
  template <typename T>
  __device__ void drop(const runtime::DropoutKey& key, const Token& of, std::int64_t feature,
                       T (&values)[kDrawn]) const {
    const auto words = key.words(of.id, of.time, static_cast<std::uint32_t>(feature / kDrawn));
#pragma unroll
    for (int k = 0; k < kDrawn; ++k) {
      const float kept = runtime::cuda::widened(values[k]) * factor;
      values[k] = runtime::cuda::narrowed<T>(words[k] >= threshold ? kept : 0.0f);
    }
  }
};

}  // namespace sluice::kernels::embedding::cuda
