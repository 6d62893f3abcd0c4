#include "kernels/matmul/cpu/matmul.h"

#include <algorithm>

#include "kernels/matmul/cpu/gemm.h"
#include "runtime/launch.h"

namespace sluice::kernels::matmul::cpu {
namespace {

/// A single row may carry any stride; as a leading dimension it must cover the row.
std::int64_t leading_dimension(const Tensor& matrix) {
  return std::max<std::int64_t>({matrix.stride(0), matrix.size(1), 1});
}

template <typename T>
void add_bias(Sum<T>* c, std::int64_t ldc, std::int64_t m, std::int64_t n, const Sum<T>* bias) {
  const auto add_to = [=](Sum<T>* row) {
    for (std::int64_t j = 0; j < n; ++j) row[j] += bias[j];
  };
  if (m == 1) return add_to(c);
#pragma omp parallel for schedule(static) if (m * n > 65536)
  for (std::int64_t i = 0; i < m; ++i) add_to(c + i * ldc);
}

template <typename T>
void run(const MatmulArgs& args) {
  const std::int64_t m = args.c.size(0), n = args.c.size(1);
  const std::int64_t k = args.a.size(args.transpose_a ? 0 : 1);
  auto* c = args.c.data_as<Sum<T>>();
  const std::int64_t ldc = leading_dimension(args.c);
  gemm<T>(args.transpose_a, args.transpose_b, m, n, k, static_cast<Sum<T>>(args.alpha),
          args.a.data_as<const T>(), leading_dimension(args.a), args.b.data_as<const T>(),
          leading_dimension(args.b), static_cast<Sum<T>>(args.beta), c, ldc);
  if (args.bias) add_bias<T>(c, ldc, m, n, args.bias.data_as<const Sum<T>>());
}

}  // namespace

void matmul(const Context& context, const MatmulArgs& args) {
  base::dispatch_storage(args.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    runtime::launch(context.stream(), [args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::matmul::cpu
