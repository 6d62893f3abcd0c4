#pragma once

#include <cstdint>

#include "kernels/elementwise/cpu/mask_row.h"
#include "kernels/vector_math.h"

namespace sluice::kernels::elementwise::cpu {

/// 16 neighbouring groups of four elements are drawn at once.
inline constexpr int kGroups = 16;
inline constexpr int kWords = 4 * kGroups;

/// words[4 g + i] = philox(key, {group + g, time, row, stream})[i] for g < 16: the random words of
/// 64 elements, equal to those of runtime/rng.h.
///
/// Multiply is an instruction set: Vector, some 64-bit lanes, one for each group, and
/// `low_halves(a, b)`, the products of their lower 32 bits. Upper bits of c0 to c3 are left to
/// whatever they are: neither that product nor the words look at them.
template <typename Multiply>
inline void draw_words(const WordCounter& counter, std::uint32_t* words) {
  using Vector = typename Multiply::Vector;
  constexpr int kWidth = sizeof(Vector) / sizeof(std::uint64_t);
  for (int begin = 0; begin < kGroups; begin += kWidth) {
    Vector c0{}, c1 = Vector{} + counter.time, c2 = Vector{} + counter.row,
                 c3 = Vector{} + counter.stream;
    for (int g = 0; g < kWidth; ++g) c0[g] = counter.group + static_cast<std::uint32_t>(begin + g);
    auto key0 = static_cast<std::uint32_t>(counter.key);
    auto key1 = static_cast<std::uint32_t>(counter.key >> 32);
    for (int round = 0; round < 10; ++round) {
      const Vector product0 = Multiply::low_halves(c0, Vector{} + 0xD2511F53u);
      const Vector product1 = Multiply::low_halves(c2, Vector{} + 0xCD9E8D57u);
      c0 = (product1 >> 32) ^ c1 ^ key0;
      c1 = product1;
      c2 = (product0 >> 32) ^ c3 ^ key1;
      c3 = product0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int g = 0; g < kWidth; ++g) {
      words[4 * (begin + g)] = static_cast<std::uint32_t>(c0[g]);
      words[4 * (begin + g) + 1] = static_cast<std::uint32_t>(c1[g]);
      words[4 * (begin + g) + 2] = static_cast<std::uint32_t>(c2[g]);
      words[4 * (begin + g) + 3] = static_cast<std::uint32_t>(c3[g]);
    }
  }
}

template <typename T, typename Multiply>
inline void mask_row_with(WordCounter counter, const MaskedRow<T>& row) {
  const std::uint32_t first = counter.group;
  for (std::int64_t begin = 0; begin < row.features; begin += kWords) {
    std::uint32_t words[kWords];
    counter.group = first + static_cast<std::uint32_t>(begin / 4);
    draw_words<Multiply>(counter, words);
    const std::int64_t rest = row.features - begin;
    const std::int64_t count = rest < kWords ? rest : kWords;
    for (std::int64_t j = 0; j < count; ++j) {
      const T kept = row.x[begin + j] * row.factor;
      row.y[begin + j] = words[j] >= row.threshold ? kept : T{0};
    }
  }
}

}  // namespace sluice::kernels::elementwise::cpu
