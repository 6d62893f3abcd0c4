#pragma once

#include "kernels/loss/cpu/softmax_rows.h"
#include "kernels/vector_math.h"

/// The loops behind SoftmaxRows, templates on the register width W as vector_math.h explains.
namespace sluice::kernels::loss::cpu {

inline constexpr int kLanes = 16;
/// A lane adds up at most this many elements / 16 before it goes into a float64 sum.
inline constexpr std::int64_t kBlock = 1024;

/// 16 running values.
template <typename T, int W>
struct Lanes {
  static constexpr int kParts = kLanes / W;
  Vector<T, W> part[kParts];

  explicit Lanes(T value) {
    for (auto& p : part) p = Vector<T, W>{} + value;
  }
  void add(const T* x) {
    for (int i = 0; i < kParts; ++i) part[i] += load<T, W>(x + i * W);
  }
  void raise(const T* x) {
    for (int i = 0; i < kParts; ++i) {
      const Vector<T, W> v = load<T, W>(x + i * W);
      part[i] = v > part[i] ? v : part[i];
    }
  }
  T maximum() const {
    T lanes[kLanes];
    __builtin_memcpy(lanes, part, sizeof lanes);
    T largest = lanes[0];
    for (const T lane : lanes) largest = lane > largest ? lane : largest;
    return largest;
  }
  double sum() const {
    T lanes[kLanes];
    __builtin_memcpy(lanes, part, sizeof lanes);
    double total = 0;
    for (const T lane : lanes) total += static_cast<double>(lane);
    return total;
  }
};

template <typename T, int W>
T row_maximum(const T* x, std::int64_t count) {
  const T lowest = -static_cast<T>(__builtin_inf());
  Lanes<T, W> lanes(lowest);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) lanes.raise(x + i);
  T largest = lanes.maximum();
  for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

/// exp(x - maximum) of 16 elements to y, which may be x.
template <typename T, int W>
inline void exponentials_of_16(const T* x, T maximum, T* y) {
  for (int i = 0; i < kLanes; i += W) {
    const Vector<T, W> difference = load<T, W>(x + i) - maximum;
    store<T, W>(y + i, exp_nonpositive<W>(difference));
  }
}

/// The last `count` < 16 elements, by way of a buffer.
template <typename T, int W>
typename SoftmaxRows<T>::Sums tail_sums(const T* x, std::int64_t count, T maximum,
                                        T* exponentials) {
  T buffer[kLanes];
  for (int i = 0; i < kLanes; ++i) buffer[i] = i < count ? x[i] : maximum;
  typename SoftmaxRows<T>::Sums sums{0, 0};
  for (std::int64_t i = 0; i < count; ++i) sums.values += static_cast<double>(buffer[i]);
  exponentials_of_16<T, W>(buffer, maximum, buffer);
  for (std::int64_t i = 0; i < count; ++i) {
    sums.exponentials += static_cast<double>(buffer[i]);
    if (exponentials != nullptr) exponentials[i] = buffer[i];
  }
  return sums;
}

template <typename T, int W>
typename SoftmaxRows<T>::Sums row_sums(const T* x, std::int64_t count, T maximum, T* exponentials) {
  typename SoftmaxRows<T>::Sums sums{0, 0};
  const std::int64_t whole = count - count % kLanes;
  for (std::int64_t begin = 0; begin < whole; begin += kBlock) {
    const std::int64_t end = begin + kBlock < whole ? begin + kBlock : whole;
    Lanes<T, W> values(0), powers(0);
    for (std::int64_t i = begin; i < end; i += kLanes) {
      T buffer[kLanes];
      values.add(x + i);
      exponentials_of_16<T, W>(x + i, maximum, buffer);
      powers.add(buffer);
      if (exponentials != nullptr) __builtin_memcpy(exponentials + i, buffer, sizeof buffer);
    }
    sums.values += values.sum();
    sums.exponentials += powers.sum();
  }
  const auto rest = tail_sums<T, W>(x + whole, count - whole, maximum,
                                    exponentials != nullptr ? exponentials + whole : nullptr);
  return {sums.exponentials + rest.exponentials, sums.values + rest.values};
}

template <typename T, int W>
void row_scale_and_shift(T* x, std::int64_t count, T factor, T shift) {
  std::int64_t i = 0;
  for (; i + W <= count; i += W) store<T, W>(x + i, load<T, W>(x + i) * factor - shift);
  for (; i < count; ++i) x[i] = x[i] * factor - shift;
}

template <typename T, int W>
inline constexpr SoftmaxRows<T> kRows{&row_maximum<T, W>, &row_sums<T, W>,
                                      &row_scale_and_shift<T, W>};

}  // namespace sluice::kernels::loss::cpu
