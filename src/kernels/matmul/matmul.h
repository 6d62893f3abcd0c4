#pragma once

#include "runtime/context.h"
#include "runtime/tensor.h"

/// Products of matrices.
namespace sluice::kernels::matmul {

using runtime::Context;
using runtime::Tensor;

/// c = alpha * op(a) * op(b) + beta * c, then bias added to every row; op transposes if asked.
/// Rows may be strided, elements of a row lie next to each other. c overlaps neither a nor b.
struct MatmulArgs {
  Tensor a;  ///< [m, k], or [k, m] if transpose_a
  Tensor b;  ///< [k, n], or [n, k] if transpose_b; dtype of a
  Tensor c;  ///< [m, n]; dtype of a, or float32 for 16-bit a and b, where c is 16-bit on GPUs only:
             ///< rounded once. Not read if beta is 0
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  Tensor bias;  ///< [n], dtype of c; optional
};

/// Queues the product. k = 0 counts as a sum of nothing; an empty c is left alone.
///
/// Repeatability on the CPU: the same call with the same number of threads gives the same bits. In
/// float64 and float32 a row's bits depend neither on the other rows nor on the number of threads;
/// in float32 AVX2 and AVX-512 give the same, and processors without either others. In bfloat16
/// they may depend on both (the library blocks by shape): within the rounding of a sum of k
/// products.
///
/// On a GPU: the same call gives the same bits on one GPU model with one version of cuBLAS; a row's
/// bits may depend on the other rows. float16 is for GPUs. The first product opens cuBLAS, which a
/// stream being captured does not allow. TF32 where the context allows it. All but small
/// products of float32 go by parts of bfloat16 on Hopper: errors are those of float32's own sums
/// (docs/gpu.md), and an infinite factor, or a sum beyond float32's range, may give NaN.
/// Throws ErrorCode::kInvalidArgument for shapes or dtypes that don't fit together.
void matmul(const Context& context, const MatmulArgs& args);

}  // namespace sluice::kernels::matmul
