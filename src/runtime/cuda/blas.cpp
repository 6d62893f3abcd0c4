#include "runtime/cuda/blas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/check.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"
#include "runtime/cuda/libraries.h"

namespace sluice::runtime::cuda {
namespace {

/// Shapes vary with the batch; a run of training meets some hundreds.
constexpr std::size_t kMostProducts = 4096;

cudaDataType_t cuda_type(base::DType dtype) {
  switch (dtype) {
    case base::DType::kFloat64:
      return CUDA_R_64F;
    case base::DType::kFloat32:
      return CUDA_R_32F;
    case base::DType::kBFloat16:
      return CUDA_R_16BF;
    case base::DType::kFloat16:
      return CUDA_R_16F;
    default:
      base::fail(ErrorCode::kUnsupported, "cuBLASLt multiplies no {}", base::name_of(dtype));
  }
}

cublasComputeType_t compute_type(const ProductSpec& spec) {
  if (spec.input == base::DType::kFloat64) return CUBLAS_COMPUTE_64F;
  if (spec.input == base::DType::kFloat32 && spec.tf32) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

using Proposal = cublasLtMatmulHeuristicResult_t;
using Proposals = std::span<const Proposal>;

/// 0 if the algorithm has none.
std::int32_t attribute_of(const BlasLibrary& lt, const Proposal& proposal,
                          cublasLtMatmulAlgoConfigAttributes_t attribute) {
  std::int32_t value = 0;
  std::size_t bytes = 0;
  const cublasStatus_t status =
      lt.algorithm_get(&proposal.algo, attribute, &value, sizeof(value), &bytes);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

/// Whether the last round of blocks leaves few multiprocessors without work.
bool fills_rounds(const BlasLibrary& lt, const Proposal& proposal, double least) {
  const int parts = std::max(1, attribute_of(lt, proposal, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  const double rounds = static_cast<double>(proposal.wavesCount) * parts;
  return rounds >= least * std::ceil(rounds);
}

/// Whether multiprocessors have registers for the next tile while they write this one.
bool overlaps_tiles(const BlasLibrary& lt, const Proposal& proposal) {
  constexpr std::array kTiles{CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_MATMUL_TILE_144x128,
                              CUBLASLT_MATMUL_TILE_128x160, CUBLASLT_MATMUL_TILE_168x128,
                              CUBLASLT_MATMUL_TILE_176x128};
  const std::int32_t tile = attribute_of(lt, proposal, CUBLASLT_ALGO_CONFIG_TILE_ID);
  return std::find(kTiles.begin(), kTiles.end(), tile) != kTiles.end();
}

/// Whether its kernel is one for a matrix and a few vectors, which has no tiles.
bool has_no_tiles(const BlasLibrary& lt, const Proposal& proposal) {
  return attribute_of(lt, proposal, CUBLASLT_ALGO_CONFIG_TILE_ID) == CUBLASLT_MATMUL_TILE_UNDEFINED;
}

bool has_many_deep_tiles(const ProductSpec& spec) {
  constexpr std::int64_t kMany = 1 << 15, kDeep = 1024;
  return base::size_of(spec.input) == 2 && spec.batch == 1 && spec.processors == 0 &&
         spec.m >= kMany && spec.k >= kDeep;
}

/// Which one to take of proposals that are in the order of cuBLASLt's estimates, by what was
/// measured on an H200 (docs/performance/products.md).
std::size_t best_of(const BlasLibrary& lt, const ProductSpec& spec, Proposals proposals) {
  // Of larger tiles, its favourites, the results are written while the tensor cores wait, which
  // shows where the depth is small, of results that no cache holds a little longer.
  constexpr std::int64_t kShallow = 2048, kLessShallow = 3200, kLargeResult = std::int64_t{1} << 26;
  constexpr double kMostFull = .87;
  // Few rows wait for the other factor to come from memory: the more read it, the better.
  constexpr std::int64_t kFewRows = 128, kLargeFactor = std::int64_t{1} << 25;
  constexpr double kFull = .94;
  if (spec.batch != 1 || spec.processors != 0) return 0;
  // Of two rows its favourites are tiles that are nearly empty, in dozens of parts of the depth.
  // Its kernels for vectors are slower yet where the matrix isn't read along the depth.
  constexpr std::int64_t kTwoRows = 2;
  const bool few = spec.m <= kTwoRows && spec.k <= kShallow && spec.transpose_b && !spec.tf32 &&
                   spec.input == base::DType::kFloat32;
  for (std::size_t i = 0; few && i < proposals.size(); ++i) {
    if (has_no_tiles(lt, proposals[i])) return i;
  }
  if (base::size_of(spec.input) != 2) return 0;
  const std::int64_t result =
      spec.m * spec.n * static_cast<std::int64_t>(base::size_of(spec.output));
  const std::int64_t shallow = result >= kLargeResult ? kLessShallow : kShallow;
  for (std::size_t i = 0; spec.k <= shallow && i < proposals.size(); ++i) {
    if (overlaps_tiles(lt, proposals[i]) && fills_rounds(lt, proposals[i], kMostFull)) return i;
  }
  const bool waits = spec.m <= kFewRows && spec.n * spec.k >= kLargeFactor;
  for (std::size_t i = 0; waits && i < proposals.size(); ++i) {
    if (fills_rounds(lt, proposals[i], kFull)) return i;
  }
  return 0;
}

}  // namespace

BlasLibrary::BlasLibrary() : library(open_vendor(kCublasLt)) {
  const auto load = [&](auto*& function, const char* name) {
    function = library.function<std::remove_reference_t<decltype(*function)>>(name);
  };
  load(create, "cublasLtCreate");
  load(destroy, "cublasLtDestroy");
  load(status_string, "cublasLtGetStatusString");
  load(operation_create, "cublasLtMatmulDescCreate");
  load(operation_destroy, "cublasLtMatmulDescDestroy");
  load(operation_set, "cublasLtMatmulDescSetAttribute");
  load(layout_create, "cublasLtMatrixLayoutCreate");
  load(layout_destroy, "cublasLtMatrixLayoutDestroy");
  load(layout_set, "cublasLtMatrixLayoutSetAttribute");
  load(preference_create, "cublasLtMatmulPreferenceCreate");
  load(preference_destroy, "cublasLtMatmulPreferenceDestroy");
  load(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  load(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  load(algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute");
  load(matmul, "cublasLtMatmul");
}

void BlasLibrary::check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check_not_lost(cudaDeviceSynchronize(), what);
  base::fail(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
             "could not {}: cuBLASLt says \"{}\"", what, status_string(status));
}

// cuBLASLt's matrices are column-major, and a row-major matrix is the transpose of a column-major
// one. So it is given d^T = op(b)^T op(a)^T: its a is our b and the other way round.
LtProduct::LtProduct(const Blas& blas, const ProductSpec& spec)
    : blas_(&blas),
      spec_(spec),
      operation_(make_operation()),
      a_(make_layout(spec.input, spec.transpose_a ? spec.k : spec.m,
                     spec.transpose_a ? spec.m : spec.k, spec.lda, spec.stride_a)),
      b_(make_layout(spec.input, spec.transpose_b ? spec.n : spec.k,
                     spec.transpose_b ? spec.k : spec.n, spec.ldb, spec.stride_b)),
      c_(make_layout(spec.output, spec.m, spec.n, spec.ldc, spec.stride_c)) {
  choose_algorithm();
}

LtProduct::Operation LtProduct::make_operation() const {
  const BlasLibrary& lt = blas_->library();
  const bool wide = spec_.input == base::DType::kFloat64;
  cublasLtMatmulDesc_t made = nullptr;
  lt.check(lt.operation_create(&made, compute_type(spec_), wide ? CUDA_R_64F : CUDA_R_32F),
           "describe a product");
  Operation operation(made, {lt.operation_destroy});
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    lt.check(lt.operation_set(made, attribute, &value, sizeof(value)), "describe a product");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, spec_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, spec_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (spec_.processors > 0) {
    set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, spec_.processors);
  }
  if (spec_.device_scalars) {
    set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
  }
  if (spec_.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(spec_.output));
    // The choice of an algorithm looks at the pointer's alignment.
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<std::uintptr_t>(spec_.alignment));
  }
  return operation;
}

LtProduct::Layout LtProduct::make_layout(base::DType dtype, std::int64_t rows, std::int64_t columns,
                                         std::int64_t ld, std::int64_t stride) const {
  const BlasLibrary& lt = blas_->library();
  cublasLtMatrixLayout_t made = nullptr;
  lt.check(lt.layout_create(&made, cuda_type(dtype), static_cast<std::uint64_t>(columns),
                            static_cast<std::uint64_t>(rows), ld),
           "describe a matrix");
  Layout layout(made, {lt.layout_destroy});
  if (spec_.batch != 1) {
    const auto count = static_cast<std::int32_t>(spec_.batch);
    lt.check(lt.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
             "describe a batch of matrices");
    lt.check(
        lt.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
        "describe a batch of matrices");
  }
  return layout;
}

std::vector<Proposal> LtProduct::propose(std::size_t workspace_bytes) const {
  const BlasLibrary& lt = blas_->library();
  cublasLtMatmulPreference_t made = nullptr;
  lt.check(lt.preference_create(&made), "choose an algorithm");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made, {lt.preference_destroy});
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    lt.check(lt.preference_set(made, attribute, &value, sizeof(value)), "choose an algorithm");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Parts of a sum over k are stored apart, in float32, and added in a step of their own.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, spec_.alignment);
  }
  std::vector<Proposal> results(blas_->is_hopper() ? 8 : 1);
  int found = 0;
  const cublasStatus_t status =
      lt.heuristic(blas_->handle(), operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(), made,
                   static_cast<int>(results.size()), results.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) {
    lt.check(status, "choose an algorithm");
  }
  results.resize(static_cast<std::size_t>(found));
  const auto usable = [](const Proposal& proposal) {
    return proposal.state == CUBLAS_STATUS_SUCCESS;
  };
  results.erase(std::find_if_not(results.begin(), results.end(), usable), results.end());
  return results;
}

void LtProduct::choose_algorithm() {
  const BlasLibrary& lt = blas_->library();
  std::vector<Proposal> proposals = propose(CudaStream::kWorkspaceBytes);
  if (proposals.empty()) {
    base::fail(ErrorCode::kUnsupported,
               "cuBLASLt has no algorithm for the product [{}, {}] x [{}, {}] of {} to {}{}",
               spec_.m, spec_.k, spec_.k, spec_.n, base::name_of(spec_.input),
               base::name_of(spec_.output), spec_.bias ? " with a bias" : "");
  }
  std::size_t best = best_of(lt, spec_, proposals);
  // Blocks that take tiles by a counter want it cleared before, some 4 us. Where tiles are deep
  // and many, it evens nothing out.
  constexpr std::size_t kCounterBytes = 16;
  const std::size_t bytes = proposals[best].workspaceSize;
  if (has_many_deep_tiles(spec_) && bytes > 0 && bytes <= kCounterBytes) {
    if (std::vector<Proposal> others = propose(0); !others.empty()) {
      proposals = std::move(others);
      best = best_of(lt, spec_, proposals);
    }
  }
  algorithm_ = proposals[best].algo;
  workspace_bytes_ = proposals[best].workspaceSize;
}

void LtProduct::set_bias(const void* bias) const {
  const BlasLibrary& lt = blas_->library();
  if (!spec_.bias) return;
  lt.check(
      lt.operation_set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
      "set a bias");
}

void LtProduct::run(CudaStream& stream, double alpha, const void* a, const void* b, double beta,
                    const void* c, void* d, const void* bias) const {
  set_bias(bias);
  if (spec_.input == base::DType::kFloat64) return multiply(stream, &alpha, a, b, &beta, c, d);
  const auto narrow_alpha = static_cast<float>(alpha), narrow_beta = static_cast<float>(beta);
  multiply(stream, &narrow_alpha, a, b, &narrow_beta, c, d);
}

void LtProduct::run(CudaStream& stream, const float* alpha, const void* a, const void* b,
                    const float* beta, const void* c, void* d, const void* bias) const {
  SLUICE_ASSERT(spec_.device_scalars);
  set_bias(bias);
  multiply(stream, alpha, a, b, beta, c, d);
}

void LtProduct::multiply(CudaStream& stream, const void* alpha, const void* a, const void* b,
                         const void* beta, const void* c, void* d) const {
  const BlasLibrary& lt = blas_->library();
  const CurrentDevice current(stream.gpu().ordinal);
  lt.check(lt.matmul(blas_->handle(), operation_.get(), alpha, b, b_.get(), a, a_.get(), beta, c,
                     c_.get(), d, c_.get(), &algorithm_, stream.workspace(), workspace_bytes_,
                     stream.handle()),
           "multiply matrices");
}

namespace {

cublasLtHandle_t create_handle(const BlasLibrary& library) {
  cublasLtHandle_t handle = nullptr;
  library.check(library.create(&handle), "start cuBLASLt");
  return handle;
}

bool current_is_hopper() {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "ask for the current GPU");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "ask for a GPU's compute capability");
  return major == 9;
}

}  // namespace

Blas::Blas()
    : handle_(create_handle(library_), library_.destroy), is_hopper_(current_is_hopper()) {}

const LtProduct& Blas::product(const ProductSpec& spec) {
  const auto found = products_.find(spec);
  if (found != products_.end()) return found->second;
  if (products_.size() >= kMostProducts) products_.clear();
  return products_.emplace(spec, LtProduct(*this, spec)).first->second;
}

}  // namespace sluice::runtime::cuda
