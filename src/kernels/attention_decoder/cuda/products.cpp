#include "kernels/attention_decoder/cuda/products.h"

#include <numeric>

#include "base/check.h"
#include "kernels/matmul/cuda/products.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

/// What all addresses are a multiple of, at most 16 bytes.
std::uint32_t alignment_of(const Product& p) {
  const auto input = static_cast<std::int64_t>(base::size_of(p.input));
  const auto output = static_cast<std::int64_t>(base::size_of(p.output));
  std::int64_t alignment = 16;
  for (const void* pointer : {p.a.data, p.b.data, static_cast<const void*>(p.c)}) {
    alignment =
        std::gcd(alignment, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer)));
  }
  for (const std::int64_t bytes : {p.a.stride * input, p.b.stride * input, p.stride * output}) {
    alignment = std::gcd(alignment, bytes);
  }
  return static_cast<std::uint32_t>(alignment);
}

}  // namespace

void multiply(const runtime::Context& context, const Product& p) {
  if (p.m == 0 || p.n == 0 || (p.k == 0 && p.accumulate)) return;
  runtime::cuda::ProductSpec spec;
  spec.m = p.m;
  spec.n = p.n;
  spec.k = p.k;
  spec.transpose_a = p.a.transposed;
  spec.transpose_b = p.b.transposed;
  spec.input = p.input;
  spec.output = p.output;
  spec.lda = p.a.stride;
  spec.ldb = p.b.stride;
  spec.ldc = p.stride;
  spec.tf32 = context.tf32();
  spec.alignment = alignment_of(p);
  spec.device_scalars = p.alpha != nullptr;
  auto& stream = static_cast<runtime::cuda::CudaStream&>(context.stream());
  runtime::cuda::Blas& blas = runtime::cuda::blas_of(context);
  if (p.alpha == nullptr) {
    return matmul::cuda::multiply(blas, stream, spec,
                                  {p.a.data, p.b.data, p.c, 1.0, p.accumulate ? 1.0 : 0.0});
  }
  SLUICE_ASSERT(p.accumulate);
  blas.product(spec).run(stream, p.alpha, p.a.data, p.b.data, p.alpha + 1, p.c, p.c);
}

}  // namespace sluice::kernels::attention_decoder::cuda
