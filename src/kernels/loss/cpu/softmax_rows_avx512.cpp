#include "kernels/loss/cpu/softmax_rows_body.h"

namespace sluice::kernels::loss::cpu {

const SoftmaxRows<float>& avx512_rows() { return kRows<float, 16>; }

}  // namespace sluice::kernels::loss::cpu
