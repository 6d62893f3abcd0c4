#include <algorithm>

#include "base/dtype.h"
#include "kernels/elementwise/cpu/elementwise.h"
#include "kernels/elementwise/cpu/parallel.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

struct Mask {
  runtime::DropoutKey key;
  std::uint32_t threshold;
};

/// One row of one time step.
template <typename T>
void mask_features(const Mask& mask, std::uint32_t row_id, std::uint32_t time, const T* x, T* y,
                   std::int64_t features, T factor) {
  for (std::int64_t begin = 0; begin < features; begin += 4) {
    const auto words = mask.key.words(row_id, time, static_cast<std::uint32_t>(begin / 4));
    const std::int64_t count = std::min<std::int64_t>(4, features - begin);
    for (std::int64_t j = 0; j < count; ++j) {
      const bool keep = words[static_cast<std::size_t>(j)] >= mask.threshold;
      y[begin + j] = keep ? x[begin + j] * factor : T{0};
    }
  }
}

template <typename T>
void run(const DropoutArgs& args) {
  const std::int64_t rows = args.x.size(1), features = args.x.size(2);
  const std::int64_t count = args.x.size(0) * rows;
  const auto* x = args.x.data_as<const T>();
  auto* y = args.y.data_as<T>();
  const auto* row_ids = args.row_ids.data_as<const std::int32_t>();
  const T factor = static_cast<T>(1 / (1 - args.rate));
  const Mask mask{args.key, runtime::dropout_threshold(args.rate)};
#pragma omp parallel for schedule(static) if (count * features > kChunk / 8)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i % rows;
    const auto id = static_cast<std::uint32_t>(row_ids != nullptr ? row_ids[row] : row);
    mask_features(mask, id, static_cast<std::uint32_t>(i / rows), x + i * features,
                  y + i * features, features, factor);
  }
}

}  // namespace

void dropout(Stream& stream, const DropoutArgs& args) {
  base::dispatch_master(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::elementwise::cpu
