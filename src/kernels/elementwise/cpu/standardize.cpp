#include <type_traits>

#include "base/dtype.h"
#include "kernels/elementwise/cpu/elementwise.h"
#include "kernels/elementwise/cpu/parallel.h"
#include "runtime/launch.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

template <typename T, typename Wide>
void run_row(const float* from, const Wide* mean, const Wide* factor, T* to, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j) {
    to[j] = static_cast<T>((static_cast<Wide>(from[j]) - mean[j]) * factor[j]);
  }
}

template <typename T>
void run(const StandardizeArgs& args) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t rows = args.x.size(0), columns = args.x.size(1);
  const auto* x = args.x.data_as<const float>();
  const auto* mean = args.mean.data_as<const Wide>();
  const auto* factor = args.factor.data_as<const Wide>();
  auto* y = args.y.data_as<T>();
  if (rows == 1) return run_row<T, Wide>(x, mean, factor, y, columns);
#pragma omp parallel for schedule(static) if (rows * columns > kChunk)
  for (std::int64_t row = 0; row < rows; ++row) {
    run_row<T, Wide>(x + row * columns, mean, factor, y + row * columns, columns);
  }
}

}  // namespace

void standardize(Stream& stream, const StandardizeArgs& args) {
  base::dispatch_float(args.y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    runtime::launch(stream, [args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::elementwise::cpu
