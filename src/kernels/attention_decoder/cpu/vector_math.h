#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

/// Short vectors for the attention leaves. Everything is a template on the width, so that files
/// compiled for different instruction sets instantiate different functions and the linker can't
/// hand one file's code to another.
namespace sluice::kernels::attention_decoder::cpu {

/// W elements in the compiler's own vectors.
template <typename T, int W>
struct VectorOf {
  typedef T Type __attribute__((vector_size(W * sizeof(T))));
};
template <typename T, int W>
using Vector = typename VectorOf<T, W>::Type;

/// Any alignment.
template <typename T, int W>
inline Vector<T, W> load(const T* source) {
  Vector<T, W> out;
  __builtin_memcpy(&out, source, sizeof out);
  return out;
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

template <int W>
using Floats = Vector<float, W>;
template <int W>
using Ints = Vector<std::int32_t, W>;

/// exp(x) = 2^n (1 + fraction) for |x| below 87.
template <int W>
struct SplitExp {
  Floats<W> scale;     ///< 2^n
  Floats<W> fraction;  ///< exp(r) - 1 with x = n ln 2 + r, |r| <= ln 2 / 2
};

/// The polynomial of degree 6 is a minimax fit of expm1 on that interval: relative error 2e-8,
/// below half a unit in the last place.
template <int W>
inline SplitExp<W> split_exp(const Floats<W>& x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding and taking it away rounds to integers
  const Floats<W> n = (x * 1.44269504f + kRound) - kRound;
  const Floats<W> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  Floats<W> p = r * 0.00139465544f + 0.00836664438f;
  p = p * r + 0.0416662805f;
  p = p * r + 0.16666542f;
  p = p * r + 0.5f;
  const Ints<W> exponent = (__builtin_convertvector(n, Ints<W>) + 127) << 23;
  SplitExp<W> out;
  __builtin_memcpy(&out.scale, &exponent, sizeof exponent);
  out.fraction = p * r * r + r;
  return out;
}

/// exp(x) for x <= 0, which softmax asks for; below -87 it is exp(-87). NaN stays NaN.
template <int W>
inline Floats<W> exp_nonpositive(const Floats<W>& x) {
  const SplitExp<W> parts = split_exp<W>(x < -87.0f ? Floats<W>{} - 87.0f : x);
  return parts.scale * parts.fraction + parts.scale;
}

/// tanh(x) = sign(x) E / (E + 2) with E = exp(2|x|) - 1, good to a few units in the last place for
/// small arguments too. NaN stays NaN.
template <int W>
inline Floats<W> tanh_of(const Floats<W>& x) {
  Ints<W> bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  const Ints<W> sign = bits & static_cast<std::int32_t>(0x80000000u);
  bits &= 0x7fffffff;
  Floats<W> twice;
  __builtin_memcpy(&twice, &bits, sizeof bits);
  twice = twice + twice;
  twice = twice > 20.0f ? Floats<W>{} + 20.0f : twice;  // tanh(10) is 1 in float
  const SplitExp<W> parts = split_exp<W>(twice);
  const Floats<W> e = parts.scale * parts.fraction + (parts.scale - 1.0f);
  const Floats<W> magnitude = e / (e + 2.0f);
  __builtin_memcpy(&bits, &magnitude, sizeof bits);
  bits |= sign;
  Floats<W> out;
  __builtin_memcpy(&out, &bits, sizeof bits);
  return out;
}

/// float64 is for checking: the C library's functions, lane by lane.
template <int W>
inline Vector<double, W> exp_nonpositive(const Vector<double, W>& x) {
  Vector<double, W> out = x;
  for (int i = 0; i < W; ++i) out[i] = __builtin_exp(x[i]);
  return out;
}

template <int W>
inline Vector<double, W> tanh_of(const Vector<double, W>& x) {
  Vector<double, W> out = x;
  for (int i = 0; i < W; ++i) out[i] = __builtin_tanh(x[i]);
  return out;
}

}  // namespace sluice::kernels::attention_decoder::cpu
