#include "kernels/loss/cpu/softmax_rows.h"

namespace sluice::kernels::loss::cpu {

template <>
const SoftmaxRows<float>& softmax_rows<float>() {
  if (__builtin_cpu_supports("avx512f")) return avx512_rows();
  if (__builtin_cpu_supports("avx2")) return avx2_rows();
  return portable_rows<float>();
}

template <>
const SoftmaxRows<double>& softmax_rows<double>() {
  return portable_rows<double>();
}

}  // namespace sluice::kernels::loss::cpu
