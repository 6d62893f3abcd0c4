#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kBlock)
    standardize_kernel(const float* x, const runtime::cuda::Wide<T>* mean,
                       const runtime::cuda::Wide<T>* factor, T* y, std::int64_t count,
                       std::int64_t columns) {
  using runtime::cuda::Wide;
  for (std::int64_t i = first_of_grid(); i < count; i += grid_stride()) {
    const std::int64_t j = i % columns;
    y[i] = runtime::cuda::narrowed<T>((static_cast<Wide<T>>(x[i]) - mean[j]) * factor[j]);
  }
}

}  // namespace

void standardize(Stream& stream, const StandardizeArgs& args) {
  base::dispatch_float(args.y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Wide = runtime::cuda::Wide<T>;
    const std::int64_t count = args.x.element_count();
    runtime::cuda::launch(stream, "standardize features", standardize_kernel<T>,
                          runtime::cuda::blocks_for(count, kBlock), kBlock, 0,
                          args.x.data_as<const float>(), args.mean.data_as<const Wide>(),
                          args.factor.data_as<const Wide>(), args.y.data_as<T>(), count,
                          args.x.size(1));
  });
}

}  // namespace sluice::kernels::elementwise::cuda
