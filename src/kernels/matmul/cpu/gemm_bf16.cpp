#include <dnnl.hpp>
#include <vector>

#include "base/check.h"
#include "kernels/matmul/cpu/gemm.h"

namespace sluice::kernels::matmul::cpu {
namespace {

using base::BFloat16;
using dnnl::memory;

struct Problem {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  float alpha, beta;
  const BFloat16* a;
  std::int64_t lda;
  const BFloat16* b;
  std::int64_t ldb;
  float* c;
  std::int64_t ldc;
};

// oneDNN 3 (Ubuntu 24.04) spells differently what oneDNN 2 (Debian 12) has.
#if DNNL_VERSION_MAJOR >= 3
void append_scale(dnnl::primitive_attr&, dnnl::post_ops& post_ops, float alpha) {
  post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0.0f);
}

dnnl::matmul make_matmul(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                         const memory::desc& c, const dnnl::primitive_attr& attributes) {
  return dnnl::matmul(dnnl::matmul::primitive_desc(engine, a, b, c, attributes));
}
#else
void append_scale(dnnl::primitive_attr& attributes, dnnl::post_ops&, float alpha) {
  attributes.set_output_scales(0, {alpha});
}

dnnl::matmul make_matmul(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                         const memory::desc& c, const dnnl::primitive_attr& attributes) {
  return dnnl::matmul({dnnl::matmul::desc(a, b, c), attributes, engine});
}
#endif

/// Made anew for every call: after the first, oneDNN's own cache of primitives makes that cost 2 to
/// 4 microseconds, and nothing need be kept here.
void run_primitive(const Problem& p) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto strides = [](bool transpose, std::int64_t stride) {
    return transpose ? memory::dims{1, stride} : memory::dims{stride, 1};
  };
  const memory::desc a({p.m, p.k}, memory::data_type::bf16, strides(p.transpose_a, p.lda));
  const memory::desc b({p.k, p.n}, memory::data_type::bf16, strides(p.transpose_b, p.ldb));
  const memory::desc c({p.m, p.n}, memory::data_type::f32, memory::dims{p.ldc, 1});
  dnnl::primitive_attr attributes;
  dnnl::post_ops post_ops;
  if (p.alpha != 1.0f) append_scale(attributes, post_ops, p.alpha);
  if (p.beta != 0.0f) post_ops.append_sum(p.beta);
  attributes.set_post_ops(post_ops);
  const dnnl::matmul primitive = make_matmul(engine, a, b, c, attributes);
  dnnl::stream stream(engine);
  // The library takes pointers to non-const also for what it only reads.
  primitive.execute(stream, {{DNNL_ARG_SRC, memory(a, engine, const_cast<BFloat16*>(p.a))},
                             {DNNL_ARG_WEIGHTS, memory(b, engine, const_cast<BFloat16*>(p.b))},
                             {DNNL_ARG_DST, memory(c, engine, p.c)}});
  stream.wait();
}

std::vector<float> widen(const BFloat16* data, std::int64_t rows, std::int64_t columns,
                         std::int64_t stride) {
  std::vector<float> wide(static_cast<std::size_t>(rows * columns));
#pragma omp parallel for schedule(static) if (rows * columns > 65536)
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      wide[static_cast<std::size_t>(i * columns + j)] = static_cast<float>(data[i * stride + j]);
    }
  }
  return wide;
}

/// For processors without AVX-512, where oneDNN has no bfloat16 product.
void run_widened(const Problem& p) {
  const std::int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
  const std::int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
  const std::vector<float> a = widen(p.a, a_rows, a_columns, p.lda);
  const std::vector<float> b = widen(p.b, b_rows, b_columns, p.ldb);
  gemm<float>(p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.alpha, a.data(), a_columns, b.data(),
              b_columns, p.beta, p.c, p.ldc);
}

}  // namespace

template <>
void gemm<BFloat16>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                    std::int64_t k, float alpha, const BFloat16* a, std::int64_t lda,
                    const BFloat16* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_matrix(m, n, beta, c, ldc);
  const Problem problem{transpose_a, transpose_b, m, n, k, alpha, beta, a, lda, b, ldb, c, ldc};
  if (!__builtin_cpu_supports("avx512bw")) return run_widened(problem);
  try {
    run_primitive(problem);
  } catch (const dnnl::error& error) {
    // Also when an environment variable holds oneDNN down to an older instruction set.
    if (error.status == dnnl_unimplemented) return run_widened(problem);
    base::fail(ErrorCode::kInternal, "oneDNN's bfloat16 product failed for m {}, n {}, k {}: {}", m,
               n, k, error.what());
  }
}

}  // namespace sluice::kernels::matmul::cpu
