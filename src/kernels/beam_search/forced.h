#pragma once

#include <cstdint>

/// Phrases that hypotheses must hold, and how far a row has come with each. Functions here work in
/// device code as well.
namespace sluice::kernels::beam_search {

/// The phrases of one input.
struct Phrases {
  const std::int32_t* tokens;   ///< [count, time]
  const std::int32_t* lengths;  ///< [count]; 0: there is none
  std::int64_t count, time;

  constexpr const std::int32_t* at(std::int64_t phrase) const { return tokens + phrase * time; }
};

/// How many of a row's last tokens are the phrase's first ones, the most there are, once `token`
/// follows where it were `so_far`. The phrase's length if the row holds it, which it then does for
/// good.
constexpr std::int32_t progress_after(const std::int32_t* phrase, std::int32_t length,
                                      std::int32_t so_far, std::int32_t token) {
  if (so_far >= length) return length;
  for (std::int32_t count = so_far + 1; count > 0; --count) {
    bool fits = phrase[count - 1] == token;
    // The tokens before it are the last of the phrase's first `so_far`.
    for (std::int32_t i = 0; fits && i < count - 1; ++i) {
      fits = phrase[i] == phrase[so_far - (count - 1) + i];
    }
    if (fits) return count;
  }
  return 0;
}

/// Tokens of phrases that a row lacks.
struct Left {
  std::int32_t tokens;  ///< of the phrases that it doesn't hold
  std::int32_t begun;   ///< of those the most that it has begun one of them with

  /// So many more make it hold all: it ends the phrase that it has begun, then takes the others.
  constexpr std::int32_t steps() const { return tokens - begun; }
};

/// Tokens that a row of this progress [count] lacks once `token` follows; token -1: as it stands.
constexpr Left left_after(const Phrases& phrases, const std::int32_t* progress,
                          std::int32_t token) {
  Left left{0, 0};
  for (std::int64_t p = 0; p < phrases.count; ++p) {
    const std::int32_t length = phrases.lengths[p];
    const std::int32_t now =
        token < 0 ? progress[p] : progress_after(phrases.at(p), length, progress[p], token);
    if (now >= length) continue;
    left.tokens += length;
    if (now > left.begun) left.begun = now;
  }
  return left;
}

}  // namespace sluice::kernels::beam_search
