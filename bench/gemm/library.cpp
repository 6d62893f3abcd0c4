#include "bench/gemm/library.h"

namespace sluice::bench::gemm {
namespace {

namespace matmul = kernels::matmul;
using runtime::Context;

Library own_library() {
  return {"sluice", false, [](const Product&) -> Multiply {
            return [](const Context& context, const matmul::MatmulArgs& args) {
              matmul::matmul(context, args);
            };
          }};
}

}  // namespace

Library host_library(std::string name, HostMultiply multiply) {
  return {name, true, [name, multiply](const Product& product) -> Multiply {
            if (product.dtype != base::DType::kFloat32) {
              base::fail(ErrorCode::kUnsupported, "it multiplies float32, not {}",
                         base::name_of(product.dtype));
            }
            return [product, multiply](const Context& context, const matmul::MatmulArgs& args) {
              context.stream().launch([=] {
                multiply(product, args.a.data_as<const float>(), args.b.data_as<const float>(),
                         args.c.data_as<float>());
              });
            };
          }};
}

Libraries libraries_for(const runtime::Device& device) {
  Libraries libraries;
  libraries.found.push_back(own_library());
  if (!device.runs_host_kernels()) return libraries;
  libraries.found.push_back(onednn_library());
  const auto add = [&](const char* name, std::optional<Library> (*open)(std::string&)) {
    std::string reason;
    if (auto library = open(reason)) {
      libraries.found.push_back(std::move(*library));
    } else {
      libraries.missing.push_back({name, reason});
    }
  };
  add("openblas", open_openblas);
  add("mkl", open_mkl);
  add("eigen", eigen_library);
  return libraries;
}

}  // namespace sluice::bench::gemm
