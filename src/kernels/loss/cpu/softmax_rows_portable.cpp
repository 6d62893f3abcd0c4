#include "kernels/loss/cpu/softmax_rows_body.h"

namespace sluice::kernels::loss::cpu {

template <>
const SoftmaxRows<float>& portable_rows<float>() {
  return kRows<float, 4>;
}

template <>
const SoftmaxRows<double>& portable_rows<double>() {
  return kRows<double, 2>;
}

}  // namespace sluice::kernels::loss::cpu
