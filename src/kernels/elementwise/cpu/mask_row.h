#pragma once

#include <cstdint>
#include <type_traits>

/// Dropout of one row, for all families: what a launched function calls with its threads' rows.
namespace sluice::kernels::elementwise::cpu {

/// What runtime::DropoutKey::words depends on, as plain numbers.
struct WordCounter {
  std::uint64_t key;
  std::uint32_t group;  ///< of the first element
  std::uint32_t time, row, stream;
};

/// y = x * factor where the word of an element reaches the threshold, else 0.
template <typename T>
struct MaskedRow {
  const T* x;
  T* y;  ///< may be x
  std::int64_t features;
  std::uint32_t threshold;
  std::conditional_t<std::is_same_v<T, double>, double, float> factor;
};

/// Applies the mask that starts at `counter` to one row, with the best this processor has.
void mask_row(const WordCounter& counter, const MaskedRow<float>& row);
void mask_row(const WordCounter& counter, const MaskedRow<double>& row);

void mask_row_portable(const WordCounter& counter, const MaskedRow<float>& row);
void mask_row_portable(const WordCounter& counter, const MaskedRow<double>& row);
/// Only where the processor has the instructions.
void mask_row_avx2(const WordCounter& counter, const MaskedRow<float>& row);
void mask_row_avx512(const WordCounter& counter, const MaskedRow<float>& row);

}  // namespace sluice::kernels::elementwise::cpu
