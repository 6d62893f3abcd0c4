#include "kernels/recurrent/cuda/scaled_product.h"

namespace sluice::kernels::recurrent::cuda {

void multiply_scaled(const Run& run, std::int64_t lane, runtime::cuda::ProductSpec spec,
                     const ScaledOperands& operands) {
  const auto& [left, right, alpha, beta, sum] = operands;
  spec.input = DType::kFloat16;
  spec.output = DType::kFloat32;
  spec.alignment = alignment_of({left, right, sum});
  spec.device_scalars = true;
  runtime::cuda::blas_of(run.context)
      .product(spec)
      .run(run.engine.lanes.stream(lane), alpha, left, right, beta, sum, sum);
}

}  // namespace sluice::kernels::recurrent::cuda
