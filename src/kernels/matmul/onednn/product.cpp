#include "kernels/matmul/onednn/product.h"

#include <omp.h>

#include <dnnl.hpp>

#include "base/check.h"

namespace sluice::kernels::matmul::onednn {
namespace {

using base::BFloat16;
using dnnl::memory;

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
void run_primitive(const BFloat16Product& p) {
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

}  // namespace

bool multiply(const BFloat16Product& p) {
  if (!omp_in_parallel() && omp_get_max_threads() != p.threads) omp_set_num_threads(p.threads);
  try {
    run_primitive(p);
  } catch (const dnnl::error& error) {
    // Also when an environment variable holds oneDNN down to an older instruction set.
    if (error.status == dnnl_unimplemented) return false;
    base::fail(ErrorCode::kInternal, "oneDNN's bfloat16 product failed for m {}, n {}, k {}: {}",
               p.m, p.n, p.k, error.what());
  }
  return true;
}

}  // namespace sluice::kernels::matmul::onednn
