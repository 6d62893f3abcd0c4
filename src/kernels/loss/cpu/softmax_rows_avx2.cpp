#include "kernels/loss/cpu/softmax_rows_body.h"

namespace sluice::kernels::loss::cpu {

const SoftmaxRows<float>& avx2_rows() { return kRows<float, 8>; }

}  // namespace sluice::kernels::loss::cpu
