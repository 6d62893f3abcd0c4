#pragma once

#include <cstdint>

#include "kernels/token_mask/token_mask.h"

/// The arithmetic of masks that all leaves share. Functions here work in device code as well.
namespace sluice::kernels::token_mask {

/// Bits of a row's mask.
constexpr bool has_bit(const std::int32_t* mask, std::int64_t token) {
  return ((static_cast<std::uint32_t>(mask[token / 32]) >> (token % 32)) & 1u) != 0;
}
constexpr std::int32_t without_bit(std::int32_t word, std::int64_t token) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(word) & ~(1u << (token % 32)));
}

/// A state as plain pointers.
struct View {
  Extent extent;
  std::int64_t no_repeat;
  const std::int32_t *allowed, *phrase_ends, *phrase_tokens;
  std::int32_t *history, *mask;
  const std::int32_t *step, *tokens, *parents;  ///< no parents: null

  View(const Rules& rules, const State& state, const Tensor& step_in, const Tensor& tokens_in,
       const Tensor& parents_in)
      : extent(state.extent),
        no_repeat(rules.no_repeat),
        allowed(state.allowed.data_as<const std::int32_t>()),
        phrase_ends(state.phrase_ends.data_as<const std::int32_t>()),
        phrase_tokens(state.phrase_tokens.data_as<const std::int32_t>()),
        history(state.history.data_as<std::int32_t>()),
        mask(state.mask.data_as<std::int32_t>()),
        step(step_in.data_as<const std::int32_t>()),
        tokens(tokens_in.data_as<const std::int32_t>()),
        parents(parents_in ? parents_in.data_as<const std::int32_t>() : nullptr) {}

  /// The tokens of a row that holds `length` of them.
  constexpr std::int32_t* history_of(std::int64_t row, std::int64_t length) const {
    return history + (length % 2 * extent.rows + row) * extent.max_length;
  }
  /// Where the row's tokens stood one token before.
  constexpr const std::int32_t* history_before(std::int64_t row, std::int64_t length) const {
    return history_of(parents == nullptr ? row : parents[row], length - 1);
  }
  /// Tokens that are remembered: a search may be stepped once more than it has room for.
  constexpr std::int64_t length() const {
    return *step < extent.max_length ? *step : extent.max_length;
  }
};

constexpr bool same(const std::int32_t* a, const std::int32_t* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

/// The token that would repeat the sequence which begins at `place` of these tokens; -1: none.
constexpr std::int32_t repeated_at(std::int64_t place, const std::int32_t* tokens,
                                   std::int64_t length, std::int64_t no_repeat) {
  const std::int64_t context = no_repeat - 1;
  if (place + no_repeat > length) return -1;
  return same(tokens + place, tokens + length - context, context) ? tokens[place + context] : -1;
}

/// The token that would complete a phrase of which these tokens are the beginning; -1: none.
constexpr std::int32_t completion_of(const std::int32_t* phrase, std::int64_t size,
                                     const std::int32_t* tokens, std::int64_t length) {
  const std::int64_t context = size - 1;
  if (context < 1 || context > length) return -1;
  return same(phrase, tokens + length - context, context) ? phrase[context] : -1;
}

}  // namespace sluice::kernels::token_mask
