#pragma once

#include <span>

#include "runtime/context.h"
#include "runtime/tensor.h"

/// Products of float32 matrices whose factors may be rounded to TF32, by factors of float16. Those
/// have TF32's eleven significant bits once a power of two has brought the largest number of a
/// matrix near the end of their range (what is less than 2^-29 of it has fewer, and errs by 2^-40
/// of it), and a GPU multiplies them twice as fast, whichever dimension lies contiguous. On GPUs
/// only; a device that runs host kernels throws ErrorCode::kUnsupported.
namespace sluice::kernels::matmul {

using runtime::Context;
using runtime::Tensor;

/// Whether products [m, k] x [k, n] of this context gain by it: it allows TF32, its device halves,
/// rows of all three matrices are aligned, and there is enough to multiply.
bool halves(const Context& context, std::int64_t m, std::int64_t n, std::int64_t k);

/// A power of two that a matrix is to be multiplied by, and what it was made from: float32 [2].
inline constexpr std::int64_t kScaleNumbers = 2;
/// What a product is to be multiplied by, and the numbers 0 and 1 beside it: float32 [3].
inline constexpr std::int64_t kAlphaNumbers = 3;

/// halved * scale[0] = x, rounded to eleven significant bits. Not finite where x isn't.
struct HalveArgs {
  Tensor x;       ///< float32, contiguous
  Tensor halved;  ///< out float16, like x
  Tensor scale;   ///< out float32 [kScaleNumbers]
};
void halve(const Context& context, const HalveArgs& args);

/// alpha[0] = left[0] * right[0] * factor[0] * times, in float64.
struct AlphaArgs {
  Tensor left, right;  ///< float32 [kScaleNumbers]; absent: 1
  Tensor factor;       ///< float64 [1]; absent: 1
  double times = 1;
  Tensor alpha;  ///< out float32 [kAlphaNumbers]
};
inline constexpr std::size_t kMostAlphas = 4;
/// At most kMostAlphas of them.
void make_alphas(const Context& context, std::span<const AlphaArgs> alphas);

/// c = alpha[0] * op(a) * op(b) (+ c), then bias added to every row, as MatmulArgs.
struct HalvedMatmulArgs {
  Tensor a, b;  ///< float16
  Tensor c;     ///< float32
  bool transpose_a = false;
  bool transpose_b = false;
  Tensor alpha;  ///< float32 [kAlphaNumbers]
  bool accumulate = false;
  Tensor bias;  ///< float32 [n]; optional
};
void halved_matmul(const Context& context, const HalvedMatmulArgs& args);

}  // namespace sluice::kernels::matmul
