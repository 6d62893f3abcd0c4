#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

template <typename T>
struct Masked {
  const T* x;
  T* y;                ///< may be x
  std::int64_t count;  ///< time * rows
  std::int64_t rows, features;
  const std::int32_t* row_ids;  ///< or null
  runtime::DropoutSource source;
  std::uint32_t threshold;
  runtime::cuda::Wide<T> factor;
  bool aligned;  ///< every group of four elements of a row may be moved at once
};

/// An element, if its word keeps it.
template <typename T>
__device__ T masked(const Masked<T>& m, std::uint32_t word, T x) {
  using runtime::cuda::Wide;
  const Wide<T> kept = runtime::cuda::widened(x) * m.factor;
  return runtime::cuda::narrowed<T>(word >= m.threshold ? kept : Wide<T>{0});
}

/// A thread a group of four neighbouring elements, which share a draw.
template <typename T>
__global__ void __launch_bounds__(kBlock) dropout_kernel(Masked<T> m) {
  const std::int64_t groups = (m.features + 3) / 4;
  const runtime::DropoutKey key = m.source.key();
  for (std::int64_t n = first_of_grid(); n < m.count * groups; n += grid_stride()) {
    const std::int64_t i = n / groups, group = n % groups, row = i % m.rows;
    const auto id = static_cast<std::uint32_t>(m.row_ids != nullptr ? m.row_ids[row] : row);
    const auto words =
        key.words(id, static_cast<std::uint32_t>(i / m.rows), static_cast<std::uint32_t>(group));
    const std::int64_t at = i * m.features + 4 * group;
    if (m.aligned) {
      Group<T> values = *reinterpret_cast<const Group<T>*>(m.x + at);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values.at[j] = masked(m, words[j], values.at[j]);
      }
      *reinterpret_cast<Group<T>*>(m.y + at) = values;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (4 * group + j >= m.features) break;
        m.y[at + j] = masked(m, words[j], m.x[at + j]);
      }
    }
  }
}

}  // namespace

void dropout(Stream& stream, const DropoutArgs& args) {
  base::dispatch_float(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Masked<T> m{};
    m.x = args.x.data_as<const T>();
    m.y = args.y.data_as<T>();
    m.rows = args.x.size(1);
    m.count = args.x.size(0) * m.rows;
    m.features = args.x.size(2);
    m.row_ids = args.row_ids.data_as<const std::int32_t>();
    m.source = args.source;
    m.threshold = runtime::dropout_threshold(args.rate);
    m.factor = static_cast<runtime::cuda::Wide<T>>(1 / (1 - args.rate));
    m.aligned = m.features % 4 == 0 && is_aligned(m.x) && is_aligned(m.y);
    runtime::cuda::launch(stream, "drop elements out", dropout_kernel<T>,
                          runtime::cuda::blocks_for(m.count * ((m.features + 3) / 4), kBlock),
                          kBlock, 0, m);
  });
}

}  // namespace sluice::kernels::elementwise::cuda
