#pragma once

#include <cstdint>

/// exp and tanh on the compiler's own short vectors. Everything is a template on the width W, so
/// that files compiled for different instruction sets instantiate different functions and the
/// linker can't hand one file's code to another: W = 4 in portable files, 8 with AVX2, 16 with
/// AVX-512. No operation is fused and each lane goes its own way: all widths give the same bits.
namespace sluice::kernels::elementwise::cpu {

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

/// exp(x) = power * (1 + rest).
template <int W>
struct ExpParts {
  Floats<W> power;  ///< 2^n
  Floats<W> rest;   ///< exp(r) - 1, with x = n log(2) + r and |r| <= log(2) / 2
};

/// For |x| <= 87. The Taylor polynomial of degree 7 is off by less than 2e-8 of exp(r) - 1, a third
/// of the rounding of float32.
template <int W>
inline ExpParts<W> exp_parts(const Floats<W>& x) {
  const float round = 12582912.0f;  // 1.5 * 2^23: what is added to it loses its fraction
  const Floats<W> n = (x * 1.44269504f + round) - round;
  // log(2) as a number of 15 bits, so that its product with n is exact, and the small remainder.
  const Floats<W> r = (x - n * 0.693145751953125f) - n * 1.42860682e-6f;
  Floats<W> p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  const Integers<W> bits = (__builtin_convertvector(n, Integers<W>) + 127) << 23;
  ExpParts<W> parts;
  __builtin_memcpy(&parts.power, &bits, sizeof bits);
  parts.rest = p * (r * r) + r;
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
  const Floats<W> magnitude = x < 0.0f ? -x : x;
  const Floats<W> limit = Floats<W>{} + 10.0f;  // from 9.02 on tanh rounds to 1
  const Floats<W> bounded = magnitude > limit ? limit : magnitude;
  const ExpParts<W> parts = exp_parts<W>(bounded + bounded);
  const Floats<W> e = parts.power * parts.rest + (parts.power - 1.0f);
  const Floats<W> y = e / (e + 2.0f);
  return x < 0.0f ? -y : y;
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

}  // namespace sluice::kernels::elementwise::cpu
