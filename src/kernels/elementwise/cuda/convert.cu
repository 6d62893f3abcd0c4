#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

template <typename From, typename To>
struct Convert {
  static constexpr bool kReadsTarget = false;
  __device__ To operator()(From value, To) const {
    if constexpr (std::is_same_v<From, To>) {
      return value;
    } else {
      // Through float32 between float64 and the 16-bit types.
      return runtime::cuda::narrowed<To>(
          static_cast<runtime::cuda::Wide<To>>(runtime::cuda::widened(value)));
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
