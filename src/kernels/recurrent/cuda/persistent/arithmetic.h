#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/storage.h"
#include "runtime/cuda/scale.h"

/// How a layer computes. Products are the tensor cores', of 16-bit factors, summed in float32. A
/// factor of float32 is multiplied by a power of two first, so that it is within float16's range,
/// and is then as good as in TF32, which has float16's eleven significant bits: what is less than
/// 2^-29 of the largest has fewer, and errs by 2^-40 of the largest. A second float16 takes what
/// the first leaves: both err by 2^-23 at most, and the product of two second parts, which is left
/// out, is 2^-22 of a product at most, 2^-25 in the mean.
namespace sluice::kernels::recurrent::cuda::persistent {

struct InBFloat16 {
  using Storage = __nv_bfloat16;
  using Factor = __nv_bfloat16;
  using Math = FastMath;
  static constexpr int kParts = 1;  ///< of a factor
  static constexpr bool kScaled = false;
};
struct InFloat16 {
  using Storage = __half;
  using Factor = __half;
  using Math = FastMath;
  static constexpr int kParts = 1;
  static constexpr bool kScaled = false;
};
struct InTf32 {
  using Storage = float;
  using Factor = __half;
  using Math = FastMath;
  static constexpr int kParts = 1;
  static constexpr bool kScaled = true;
};
struct InFloat32 {
  using Storage = float;
  using Factor = __half;
  using Math = ExactMath;
  static constexpr int kParts = 2;
  static constexpr bool kScaled = true;
};

/// What numbers are multiplied by to become factors, and what takes it back.
using runtime::cuda::Scale;

/// The parts of a number that is to be multiplied.
template <typename Arithmetic>
struct Factors {
  using Storage = typename Arithmetic::Storage;
  typename Arithmetic::Factor parts[Arithmetic::kParts];

  __device__ Factors(Storage value, const Scale& scale) {
    if constexpr (Arithmetic::kScaled) {
      store(parts, value * scale.up);
      if constexpr (Arithmetic::kParts == 2) store(parts + 1, value * scale.up - load(parts));
    } else {
      parts[0] = value;
    }
  }
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
