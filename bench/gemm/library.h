#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/gemm/product.h"

namespace sluice::bench::gemm {

/// Queues a product on the context's stream.
using Multiply =
    std::function<void(const runtime::Context& context, const kernels::matmul::MatmulArgs& args)>;

/// A product of float32 matrices on the host: row-major, dense, c = op(a) op(b).
using HostMultiply =
    std::function<void(const Product& product, const float* a, const float* b, float* c)>;

/// A library of matrix products.
struct Library {
  std::string name;
  bool peer = true;
  /// The function for products like this one; throws ErrorCode::kUnsupported with the reason if it
  /// can't multiply them.
  std::function<Multiply(const Product& product)> prepare;
};

/// One that is not here, and why.
struct Missing {
  std::string name;
  std::string reason;
};

struct Libraries {
  std::vector<Library> found;
  std::vector<Missing> missing;
};

/// Those for a device: "sluice" (kernels/matmul: cuBLASLt on a GPU) everywhere; on the host's
/// processor also oneDNN's matmul primitive, Eigen if its headers were there at build time, and
/// OpenBLAS and MKL if their libraries can be opened now. All use as many threads as OpenMP would.
Libraries libraries_for(const runtime::Device& device);

/// A host library that multiplies float32 alone.
Library host_library(std::string name, HostMultiply multiply);

/// oneDNN's matmul primitive: float32 and bfloat16.
Library onednn_library();
/// OpenBLAS or MKL by cblas_sgemm; nothing but the reason if the shared library can't be opened.
std::optional<Library> open_openblas(std::string& reason);
std::optional<Library> open_mkl(std::string& reason);
std::optional<Library> eigen_library(std::string& reason);

}  // namespace sluice::bench::gemm
