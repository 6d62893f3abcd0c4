#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "kernels/recurrent/cpu/cells.h"
#include "kernels/recurrent/cpu/leaf.h"

/// A panel's worth of values for the portable leaf: the compiler's own vectors, which it lowers to
/// whatever registers the target has. Bits do not depend on that: no operation is fused.
namespace sluice::kernels::recurrent::cpu::portable {

template <typename S>
struct Lanes {
  typedef S Vector __attribute__((vector_size(kPanel * sizeof(S))));
  Vector v;

  Lanes() = default;
  explicit Lanes(S value) : v(Vector{} + value) {}
  explicit Lanes(const Vector& vector) : v(vector) {}

  friend Lanes operator+(const Lanes& a, const Lanes& b) { return Lanes(a.v + b.v); }
  friend Lanes operator-(const Lanes& a, const Lanes& b) { return Lanes(a.v - b.v); }
  friend Lanes operator*(const Lanes& a, const Lanes& b) { return Lanes(a.v * b.v); }

  friend Lanes sigmoid(const Lanes& a) {
    Lanes out = a;
    for (int lane = 0; lane < kPanel; ++lane) out.v[lane] = S(1) / (S(1) + std::exp(-a.v[lane]));
    return out;
  }
  friend Lanes tanh(const Lanes& a) {
    Lanes out = a;
    for (int lane = 0; lane < kPanel; ++lane) out.v[lane] = std::tanh(a.v[lane]);
    return out;
  }
  /// The greater of a and 0; NaN if a is.
  friend Lanes relu(const Lanes& a) {
    Lanes out = a;
    for (int lane = 0; lane < kPanel; ++lane) out.v[lane] = a.v[lane] < 0 ? S(0) : a.v[lane];
    return out;
  }
  friend Lanes hard_sigmoid(const Lanes& a) {
    Lanes out = relu(Lanes(S(0.2)) * a + Lanes(S(0.5)));
    for (int lane = 0; lane < kPanel; ++lane) out.v[lane] = out.v[lane] > 1 ? S(1) : out.v[lane];
    return out;
  }
  friend Lanes hard_sigmoid_gradient(const Lanes& d, const Lanes& value) {
    Lanes out = d;
    for (int lane = 0; lane < kPanel; ++lane) {
      out.v[lane] = cpu::hard_sigmoid_gradient<S>(d.v[lane], value.v[lane]);
    }
    return out;
  }
  /// value where a is positive, else 0.
  friend Lanes where_positive(const Lanes& a, const Lanes& value) {
    Lanes out = value;
    for (int lane = 0; lane < kPanel; ++lane) out.v[lane] = a.v[lane] > 0 ? value.v[lane] : S(0);
    return out;
  }
};

/// Sixteen consecutive values, of any alignment.
template <typename S>
inline Lanes<S> load(const S* source) {
  Lanes<S> out;
  std::memcpy(&out.v, source, sizeof out.v);
  return out;
}

inline Lanes<float> load(const base::BFloat16* source) {
  typedef std::uint16_t Halves __attribute__((vector_size(2 * kPanel)));
  typedef std::uint32_t Words __attribute__((vector_size(4 * kPanel)));
  Halves halves;
  std::memcpy(&halves, source, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  Lanes<float> out;
  std::memcpy(&out.v, &words, sizeof words);
  return out;
}

/// The first `count` values; the other lanes are zero.
template <typename T>
inline Lanes<Sum<T>> load_part(const T* source, std::int64_t count) {
  if (count >= kPanel) return load(source);
  Lanes<Sum<T>> out(Sum<T>(0));
  for (std::int64_t lane = 0; lane < count; ++lane) out.v[lane] = static_cast<Sum<T>>(source[lane]);
  return out;
}

template <typename S>
inline void store(S* target, const Lanes<S>& value) {
  std::memcpy(target, &value.v, sizeof value.v);
}

/// The first `count` lanes, rounded to T.
template <typename T>
inline void store_part(T* target, const Lanes<Sum<T>>& value, std::int64_t count) {
  const std::int64_t lanes = count < kPanel ? count : kPanel;
  for (std::int64_t lane = 0; lane < lanes; ++lane) target[lane] = static_cast<T>(value.v[lane]);
}

}  // namespace sluice::kernels::recurrent::cpu::portable
