#include <algorithm>

#include "base/dtype.h"
#include "kernels/elementwise/cpu/elementwise.h"
#include "kernels/elementwise/cpu/mask_row.h"
#include "kernels/elementwise/cpu/parallel.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

/// One row of a 16-bit type: through float32, some features at a time.
template <typename T>
void mask_narrow_row(WordCounter counter, const MaskedRow<T>& row) {
  constexpr std::int64_t kPart = 256;  // a multiple of 4, which share their words
  const std::uint32_t first = counter.group;
  float part[kPart];
  for (std::int64_t begin = 0; begin < row.features; begin += kPart) {
    const std::int64_t count = std::min(kPart, row.features - begin);
    for (std::int64_t j = 0; j < count; ++j) part[j] = static_cast<float>(row.x[begin + j]);
    counter.group = first + static_cast<std::uint32_t>(begin / 4);
    mask_row(counter, {part, part, count, row.threshold, static_cast<float>(row.factor)});
    for (std::int64_t j = 0; j < count; ++j) row.y[begin + j] = static_cast<T>(part[j]);
  }
}

void mask(const WordCounter& counter, const MaskedRow<double>& row) { mask_row(counter, row); }
void mask(const WordCounter& counter, const MaskedRow<float>& row) { mask_row(counter, row); }
void mask(const WordCounter& counter, const MaskedRow<base::BFloat16>& row) {
  mask_narrow_row(counter, row);
}
void mask(const WordCounter& counter, const MaskedRow<base::Float16>& row) {
  mask_narrow_row(counter, row);
}

template <typename T>
void run(const DropoutArgs& args) {
  const std::int64_t rows = args.x.size(1), features = args.x.size(2);
  const std::int64_t count = args.x.size(0) * rows;
  const auto* x = args.x.data_as<const T>();
  auto* y = args.y.data_as<T>();
  const auto* row_ids = args.row_ids.data_as<const std::int32_t>();
  using Factor = decltype(MaskedRow<T>::factor);
  const auto factor = static_cast<Factor>(1 / (1 - args.rate));
  const std::uint32_t threshold = runtime::dropout_threshold(args.rate);
  const runtime::DropoutKey key = args.source.key();
#pragma omp parallel for schedule(static) if (count * features > kChunk)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i % rows;
    const auto id = static_cast<std::uint32_t>(row_ids != nullptr ? row_ids[row] : row);
    const auto time = static_cast<std::uint32_t>(i / rows);
    mask({key.philox_key(), 0, time, id, key.stream},
         MaskedRow<T>{x + i * features, y + i * features, features, threshold, factor});
  }
}

}  // namespace

void mask_row(const WordCounter& counter, const MaskedRow<double>& row) {
  mask_row_portable(counter, row);
}

void mask_row(const WordCounter& counter, const MaskedRow<float>& row) {
  if (__builtin_cpu_supports("avx512f")) return mask_row_avx512(counter, row);
  if (__builtin_cpu_supports("avx2")) return mask_row_avx2(counter, row);
  mask_row_portable(counter, row);
}

void dropout(Stream& stream, const DropoutArgs& args) {
  base::dispatch_float(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::elementwise::cpu
