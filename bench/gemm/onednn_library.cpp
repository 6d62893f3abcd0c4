#include <dnnl.hpp>

#include "bench/gemm/library.h"

namespace sluice::bench::gemm {
namespace {

using dnnl::memory;
using kernels::matmul::MatmulArgs;
using runtime::Context;

// oneDNN 3 (Ubuntu 24.04) spells differently what oneDNN 2 (Debian 12) has.
dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a,
                                      const memory::desc& b, const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine, a, b, c);
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

struct Prepared {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  memory::desc a, b, c;
  dnnl::matmul primitive;

  explicit Prepared(const Product& product) {
    const auto type =
        product.dtype == base::DType::kFloat32 ? memory::data_type::f32 : memory::data_type::bf16;
    const auto matrix = [](std::int64_t rows, std::int64_t columns, memory::data_type kept,
                           bool transposed) {
      const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
      return memory::desc({rows, columns}, kept, strides);
    };
    a = matrix(product.m, product.k, type, product.transpose_a());
    b = matrix(product.k, product.n, type, product.transpose_b());
    c = matrix(product.m, product.n, memory::data_type::f32, false);
    primitive = dnnl::matmul(describe(engine, a, b, c));
  }

  void run(void* a_data, void* b_data, void* c_data) {
    primitive.execute(stream, {{DNNL_ARG_SRC, memory(a, engine, a_data)},
                               {DNNL_ARG_WEIGHTS, memory(b, engine, b_data)},
                               {DNNL_ARG_DST, memory(c, engine, c_data)}});
    stream.wait();
  }
};

Multiply prepare(const Product& product) {
  const bool fits =
      product.dtype == base::DType::kFloat32 || product.dtype == base::DType::kBFloat16;
  if (!fits) {
    base::fail(ErrorCode::kUnsupported, "it multiplies float32 and bfloat16, not {}",
               base::name_of(product.dtype));
  }
  std::shared_ptr<Prepared> prepared;
  try {
    prepared = std::make_shared<Prepared>(product);
  } catch (const dnnl::error& error) {
    base::fail(ErrorCode::kUnsupported, "oneDNN has no such product on this machine: {}",
               error.what());
  }
  return [prepared](const Context& context, const MatmulArgs& args) {
    context.stream().launch([=] { prepared->run(args.a.data(), args.b.data(), args.c.data()); });
  };
}

}  // namespace

Library onednn_library() { return {"onednn", true, prepare}; }

}  // namespace sluice::bench::gemm
