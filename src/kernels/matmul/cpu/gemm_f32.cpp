#include <dnnl.h>

#include "base/check.h"
#include "kernels/matmul/cpu/gemm.h"

namespace sluice::kernels::matmul::cpu {

template <>
void gemm<float>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                 float beta, float* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_matrix(m, n, beta, c, ldc);
  const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k,
                                          alpha, a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success) {
    base::fail(ErrorCode::kInternal,
               "dnnl_sgemm failed with status {} for m {}, n {}, k {}, lda {}, ldb {}, ldc {}",
               static_cast<int>(status), m, n, k, lda, ldb, ldc);
  }
}

}  // namespace sluice::kernels::matmul::cpu
