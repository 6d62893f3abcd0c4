#pragma once

#include <cstdint>

/// exp and tanh on the compiler's own short vectors of W elements: 16 bytes in portable files, W =
/// 8 with AVX2, 16 with AVX-512. Each lane goes its own way.
namespace sluice::kernels {

template <typename T, int W>
struct VectorOf {
  typedef T Type __attribute__((vector_size(W * sizeof(T))));
};
template <typename T, int W>
using Vector = typename VectorOf<T, W>::Type;

template <int W>
using Floats = Vector<float, W>;
template <int W>
using Integers = Vector<std::int32_t, W>;

// Internal linkage: files that include this are compiled for instruction sets of their own, some of
// them with fused multiply-adds, and the linker must not take one file's copy of a function for
// another's. Files that fuse nothing get the same bits for every W.
namespace {

/// Any alignment.
template <typename T, int W>
inline Vector<T, W> load(const T* source) {
  Vector<T, W> value;
  __builtin_memcpy(&value, source, sizeof value);
  return value;
}

template <typename T, int W>
inline void store(T* target, const Vector<T, W>& value) {
  __builtin_memcpy(target, &value, sizeof value);
}

/// Lanes added pairwise, in one fixed order.
template <typename T, int W>
inline T sum_of_lanes(const Vector<T, W>& value) {
  T lanes[W];
  __builtin_memcpy(lanes, &value, sizeof value);
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

/// exp(x) = power * (1 + rest).
template <int W>
struct ExpParts {
  Floats<W> power;  ///< 2^n
  Floats<W> rest;   ///< exp(r) - 1, with x = n log(2) + r and |r| <= log(2) / 2
};

/// For |x| <= 87. The polynomial of degree 6 is a minimax fit of expm1: relative error 2e-8, a
/// third of the rounding of float32.
template <int W>
inline ExpParts<W> exp_parts(const Floats<W>& x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it loses its fraction
  const Floats<W> n = (x * 1.44269504f + kRound) - kRound;
  // log(2) as a number of 10 bits, so that its product with n is exact, and the small remainder.
  const Floats<W> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats<W> p = r * 0.00139465544f + 0.00836664438f;
  p = p * r + 0.0416662805f;
  p = p * r + 0.16666542f;
  p = p * r + 0.5f;
  const Integers<W> bits = (__builtin_convertvector(n, Integers<W>) + 127) << 23;
  ExpParts<W> parts;
  __builtin_memcpy(&parts.power, &bits, sizeof bits);
  parts.rest = p * r * r + r;
  return parts;
}

/// exp(x) for x <= 0, as softmax needs it; 0 below -87 (exact: less than 2e-38). NaN stays NaN.
template <int W>
inline Floats<W> exp_nonpositive(const Floats<W>& x) {
  const Floats<W> lowest = Floats<W>{} - 87.0f;
  const ExpParts<W> parts = exp_parts<W>(x < lowest ? lowest : x);
  const Floats<W> value = parts.power * parts.rest + parts.power;
  return x < lowest ? Floats<W>{} : value;
}

/// tanh(x) = sign(x) * e / (e + 2) with e = exp(2|x|) - 1, which loses nothing for small x. NaN
/// stays NaN.
template <int W>
inline Floats<W> tanh_of(const Floats<W>& x) {
  Integers<W> bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  const Integers<W> sign = bits & static_cast<std::int32_t>(0x80000000u);
  bits &= 0x7fffffff;
  Floats<W> twice;
  __builtin_memcpy(&twice, &bits, sizeof bits);
  twice = twice + twice;
  twice = twice > 20.0f ? Floats<W>{} + 20.0f : twice;  // from 9.02 on tanh rounds to 1
  const ExpParts<W> parts = exp_parts<W>(twice);
  const Floats<W> e = parts.power * parts.rest + (parts.power - 1.0f);
  const Floats<W> magnitude = e / (e + 2.0f);
  __builtin_memcpy(&bits, &magnitude, sizeof bits);
  bits |= sign;
  Floats<W> y;
  __builtin_memcpy(&y, &bits, sizeof bits);
  return y;
}

/// float64 is there for checking: the C library's functions, lane by lane.
template <int W>
inline Vector<double, W> exp_nonpositive(const Vector<double, W>& x) {
  Vector<double, W> y = x;
  for (int i = 0; i < W; ++i) y[i] = __builtin_exp(x[i]);
  return y;
}

template <int W>
inline Vector<double, W> tanh_of(const Vector<double, W>& x) {
  Vector<double, W> y = x;
  for (int i = 0; i < W; ++i) y[i] = __builtin_tanh(x[i]);
  return y;
}

}  // namespace
}  // namespace sluice::kernels
