#include "kernels/matmul/cuda/matmul.h"

#include <algorithm>
#include <bit>

#include "kernels/matmul/cuda/finish_rows.h"
#include "kernels/matmul/cuda/halved.h"
#include "kernels/matmul/cuda/products.h"
#include "runtime/cuda/blas.h"
#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::matmul::cuda {
namespace {

using runtime::cuda::CudaStream;
using runtime::cuda::ProductSpec;

/// A single row may carry any stride; as a leading dimension it must cover the row.
std::int64_t leading_dimension(const Tensor& matrix) {
  return matrix.size(0) == 1 ? matrix.size(1) : std::max(matrix.stride(0), matrix.size(1));
}

/// The largest power of two up to 16 that divides all addresses.
template <typename Args>
std::uint32_t alignment_of(const Args& args) {
  std::uintptr_t bits = 16;
  for (const Tensor& tensor : {args.a, args.b, args.c, args.bias}) {
    bits |= reinterpret_cast<std::uintptr_t>(tensor.data());
  }
  return 1u << std::countr_zero(bits);
}

template <typename Args>
ProductSpec spec_of(const Args& args, bool bias) {
  ProductSpec spec;
  spec.m = args.c.size(0);
  spec.n = args.c.size(1);
  spec.k = args.a.size(args.transpose_a ? 0 : 1);
  spec.transpose_a = args.transpose_a;
  spec.transpose_b = args.transpose_b;
  spec.input = args.a.dtype();
  spec.output = args.c.dtype();
  spec.lda = leading_dimension(args.a);
  spec.ldb = leading_dimension(args.b);
  spec.ldc = leading_dimension(args.c);
  spec.bias = bias;
  spec.alignment = alignment_of(args);
  return spec;
}

void run(const Context& context, const MatmulArgs& args) {
  if (args.c.element_count() == 0) return;
  if (args.a.element_count() == 0) {
    return finish_rows(context.stream(), args.c, args.beta, args.bias);
  }
  // cuBLASLt adds no bias to float64.
  const bool fused = args.bias && args.c.dtype() != base::DType::kFloat64;
  ProductSpec spec = spec_of(args, fused);
  spec.tf32 = context.tf32() && spec.input == base::DType::kFloat32;
  multiply(runtime::cuda::blas_of(context), static_cast<CudaStream&>(context.stream()), spec,
           {args.a.data(), args.b.data(), args.c.data(), args.alpha, args.beta,
            fused ? args.bias.data() : nullptr});
  if (args.bias && !fused) finish_rows(context.stream(), args.c, 1, args.bias);
}

void multiply_halved(const Context& context, const HalvedMatmulArgs& args) {
  ProductSpec spec = spec_of(args, static_cast<bool>(args.bias));
  spec.device_scalars = true;
  const auto* alpha = args.alpha.data_as<const float>();
  const float* beta = alpha + (args.accumulate ? 2 : 1);
  runtime::cuda::blas_of(context).product(spec).run(static_cast<CudaStream&>(context.stream()),
                                                    alpha, args.a.data(), args.b.data(), beta,
                                                    args.c.data(), args.c.data(), args.bias.data());
}

constexpr HalvedLeaves kHalved{halve, make_alphas, multiply_halved};

}  // namespace

const Leaves kLeaves{run, &kHalved};

}  // namespace sluice::kernels::matmul::cuda
