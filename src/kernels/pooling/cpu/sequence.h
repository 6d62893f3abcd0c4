#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/pooling/pooling.h"

namespace sluice::kernels::pooling::cpu {

/// float32, or float64 for float64: what sums are kept in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Elements that are worth threads.
inline constexpr std::int64_t kWorthThreads = 16384;

/// x, or its gradient, with the lengths of its rows.
template <typename T>
struct Sequence {
  T* data;
  std::int64_t time, rows, features;
  const std::int32_t* lengths;  ///< or null: all steps count

  Sequence(const Tensor& x, const Tensor& row_lengths)
      : data(x.data_as<T>()),
        time(x.size(0)),
        rows(x.size(1)),
        features(x.size(2)),
        lengths(row_lengths.data_as<const std::int32_t>()) {}

  std::int64_t length(std::int64_t row) const { return lengths == nullptr ? time : lengths[row]; }
  T* at(std::int64_t t, std::int64_t row) const { return data + (t * rows + row) * features; }
  std::int64_t elements() const { return time * rows * features; }
  void zero_from(std::int64_t t, std::int64_t row) const {
    for (; t < time; ++t) std::fill_n(at(t, row), features, T{});
  }
};

}  // namespace sluice::kernels::pooling::cpu
