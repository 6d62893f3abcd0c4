#include <omp.h>

#include "bench/gemm/eigen_product.h"
#include "bench/gemm/library.h"

namespace sluice::bench::gemm {

std::optional<Library> eigen_library(std::string& reason) {
  const EigenMultiply multiply = eigen_multiply();
  if (multiply == nullptr) {
    reason = "its headers were not there when this was built";
    return std::nullopt;
  }
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    reason = "it was built for AVX2 with FMA, which this processor lacks";
    return std::nullopt;
  }
#endif
  return host_library(
      "eigen", [multiply](const Product& p, const float* a, const float* b, float* c) {
        multiply({p.m, p.n, p.k, p.transpose_a(), p.transpose_b(), a, b, c}, omp_get_max_threads());
      });
}

}  // namespace sluice::bench::gemm
