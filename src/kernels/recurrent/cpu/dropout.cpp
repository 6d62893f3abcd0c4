#include "kernels/recurrent/cpu/sequence_run.h"

namespace sluice::kernels::recurrent::cpu {

template <typename T>
void apply_dropout(T* values, std::int64_t width, const runtime::DropoutKey& key, double rate,
                   std::uint32_t row_id, std::uint32_t t) {
  const std::uint32_t threshold = runtime::dropout_threshold(rate);
  const auto scale = static_cast<Sum<T>>(1 / (1 - rate));
  for (std::int64_t first = 0; first < width; first += 4) {
    const auto words = key.words(row_id, t, static_cast<std::uint32_t>(first / 4));
    for (std::int64_t i = 0; i < 4 && first + i < width; ++i) {
      T& value = values[first + i];
      const bool kept = words[static_cast<std::size_t>(i)] >= threshold;
      value = kept ? static_cast<T>(static_cast<Sum<T>>(value) * scale) : T(0);
    }
  }
}

template void apply_dropout(double*, std::int64_t, const runtime::DropoutKey&, double,
                            std::uint32_t, std::uint32_t);
template void apply_dropout(float*, std::int64_t, const runtime::DropoutKey&, double, std::uint32_t,
                            std::uint32_t);
template void apply_dropout(base::BFloat16*, std::int64_t, const runtime::DropoutKey&, double,
                            std::uint32_t, std::uint32_t);

}  // namespace sluice::kernels::recurrent::cpu
