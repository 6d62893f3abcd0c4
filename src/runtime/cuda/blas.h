#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "runtime/vendor_library.h"

/// Products of matrices by cuBLASLt, which is opened when it is first needed.
namespace sluice::runtime::cuda {

class CudaStream;

/// The functions of cuBLASLt. Throws ErrorCode::kDevice with one sentence if there is no library of
/// the CUDA version that this was built for.
struct BlasLibrary {
  BlasLibrary();

  /// Throws ErrorCode::kDevice with cuBLASLt's own words, unless `status` is success; `what`
  /// completes "could not ...".
  void check(cublasStatus_t status, std::string_view what) const;

  VendorLibrary library;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) operation_create;
  decltype(&cublasLtMatmulDescDestroy) operation_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) operation_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm_get;
  decltype(&cublasLtMatmul) matmul;
};

/// A kind of product of row-major matrices, d = alpha * op(a) * op(b) + beta * c (+ bias). Sums are
/// float32, or float64 for float64.
struct ProductSpec {
  std::int64_t m = 0, n = 0, k = 0;  ///< op(a) is [m, k], op(b) [k, n], c and d [m, n]; none is 0
  bool transpose_a = false, transpose_b = false;
  /// Of a and b: float32, float64, bfloat16 or float16.
  base::DType input = base::DType::kFloat32;
  /// Of c, d and bias: that of the input, or float32 for a 16-bit input.
  base::DType output = base::DType::kFloat32;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  ///< elements from a row to the next; of d as of c
  /// How many products, `stride_*` elements apart.
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  /// Whether a vector [n] is added to every row of d. Not with float64.
  bool bias = false;
  /// Whether float32 factors may be rounded to TF32.
  bool tf32 = false;
  /// What all pointers are a multiple of, in bytes: a power of two, at most 16.
  std::uint32_t alignment = 16;
  /// Multiprocessors that other work leaves it; 0: all there are.
  std::int32_t processors = 0;
  /// Whether alpha and beta are read from device memory. Not with float64.
  bool device_scalars = false;

  auto operator<=>(const ProductSpec&) const = default;
};

class Blas;

/// A product made ready: descriptors and the algorithm, chosen once. The same spec gets the same
/// algorithm in every run on one GPU model with one version of the library, and algorithms that sum
/// in the order in which blocks happen to finish are left out, so results repeat to the bit. A
/// row's bits may depend on how many rows there are. As the device, not for two threads at once.
class LtProduct {
 public:
  /// Throws ErrorCode::kUnsupported if cuBLASLt has no algorithm for it.
  LtProduct(const Blas& blas, const ProductSpec& spec);

  /// Queues the product, and nothing else, once the stream has its workspace
  /// (CudaStream::workspace). c may be d, and is not read if beta is 0.
  void run(CudaStream& stream, double alpha, const void* a, const void* b, double beta,
           const void* c, void* d, const void* bias = nullptr) const;
  /// The same with alpha and beta in device memory, of a spec that says so.
  void run(CudaStream& stream, const float* alpha, const void* a, const void* b, const float* beta,
           const void* c, void* d, const void* bias = nullptr) const;

  const ProductSpec& spec() const { return spec_; }

 private:
  template <typename Object>
  struct Destroy {
    cublasStatus_t (*destroy)(Object*) = nullptr;
    void operator()(Object* object) const { destroy(object); }
  };
  template <typename Object>
  using Owned = std::unique_ptr<Object, Destroy<Object>>;
  using Operation = Owned<cublasLtMatmulDescOpaque_t>;
  using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;

  Operation make_operation() const;
  Layout make_layout(base::DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                     std::int64_t stride) const;
  /// What cuBLASLt proposes that wants no more workspace than that, best first; perhaps nothing.
  std::vector<cublasLtMatmulHeuristicResult_t> propose(std::size_t workspace_bytes) const;
  void choose_algorithm();
  void set_bias(const void* bias) const;
  void multiply(CudaStream& stream, const void* alpha, const void* a, const void* b,
                const void* beta, const void* c, void* d) const;

  const Blas* blas_;
  ProductSpec spec_;
  Operation operation_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

/// cuBLASLt for one GPU, and the products that were asked for.
class Blas {
 public:
  /// For the current device. Throws as BlasLibrary does.
  Blas();

  /// The product of this spec, made if it is new. The reference is good until the next call: who
  /// wants to keep a product makes an LtProduct.
  const LtProduct& product(const ProductSpec& spec);

  const BlasLibrary& library() const { return library_; }
  cublasLtHandle_t handle() const { return handle_.get(); }
  /// Whether the GPU is of the generation that choices among algorithms were measured on.
  bool is_hopper() const { return is_hopper_; }

 private:
  BlasLibrary library_;
  std::unique_ptr<cublasLtContext, decltype(&cublasLtDestroy)> handle_;
  bool is_hopper_;
  std::map<ProductSpec, LtProduct> products_;
};

}  // namespace sluice::runtime::cuda
