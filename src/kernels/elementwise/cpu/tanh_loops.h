#pragma once

#include "kernels/vector_math.h"

namespace sluice::kernels::elementwise::cpu {

/// y = tanh(x) for `count` elements; y may be x. One body for all widths.
template <typename T, int W>
inline void tanh_loop(const T* x, T* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + W <= count; i += W) store<T, W>(y + i, tanh_of<W>(load<T, W>(x + i)));
  if (i == count) return;
  T rest[W] = {};
  for (std::int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  store<T, W>(rest, tanh_of<W>(load<T, W>(rest)));
  for (std::int64_t j = i; j < count; ++j) y[j] = rest[j - i];
}

void tanh_portable(const float* x, float* y, std::int64_t count);
void tanh_portable(const double* x, double* y, std::int64_t count);
/// Only where the processor has the instructions.
void tanh_avx2(const float* x, float* y, std::int64_t count);
void tanh_avx512(const float* x, float* y, std::int64_t count);

}  // namespace sluice::kernels::elementwise::cpu
