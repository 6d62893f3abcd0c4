#include <cuda_fp16.h>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

using base::Float16;

// The processor's own conversions of float16, which are shorter than base::Float16's.
template <typename From>
__device__ float widened(From value) {
  if constexpr (std::is_same_v<From, Float16>) {
    return __half2float(__ushort_as_half(value.bits));
  } else {
    return static_cast<float>(value);
  }
}

template <typename To>
__device__ To narrowed(float value) {
  if constexpr (std::is_same_v<To, Float16>) {
    Float16 half;
    half.bits = __half_as_ushort(__float2half_rn(value));
    return half;
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
struct Convert {
  static constexpr bool kReadsTarget = false;
  __device__ To operator()(From value, To) const {
    if constexpr (std::is_same_v<From, To>) {
      return value;
    } else {
      return narrowed<To>(widened(value));
    }
  }
};

}  // namespace

void convert(Stream& stream, const Tensor& source, const Tensor& target) {
  base::dispatch_float(source.dtype(), [&](auto from_tag) {
    base::dispatch_float(target.dtype(), [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      pointwise(stream, "convert a tensor", source.data_as<const From>(), target.data_as<To>(),
                source.element_count(), Convert<From, To>{});
    });
  });
}

}  // namespace sluice::kernels::elementwise::cuda
