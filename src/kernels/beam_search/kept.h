#pragma once

#include <cstdint>

namespace sluice::kernels::beam_search {

/// A prefix that ended in eos.
struct Finished {
  double score, normalised;
  std::int32_t length;  ///< tokens before eos
  std::int32_t row;     ///< that of the last of them
};

/// An input's hypotheses that have ended, best first; length -1: there is none. Works in device
/// code as well, for one thread.
struct Kept {
  double *scores, *normalised;
  std::int32_t *lengths, *rows;
  std::int64_t count;

  constexpr bool is_full() const { return lengths[count - 1] >= 0; }
  constexpr double worst() const { return normalised[count - 1]; }

  /// An equal one that finished earlier stays ahead.
  constexpr void add(const Finished& one) const {
    std::int64_t place = count - 1;
    if (is_full() && !(one.normalised > worst())) return;
    for (; place > 0 && moves_back(place - 1, one.normalised); --place) {
      put(place, {scores[place - 1], normalised[place - 1], lengths[place - 1], rows[place - 1]});
    }
    put(place, one);
  }

 private:
  constexpr bool moves_back(std::int64_t place, double value) const {
    return lengths[place] < 0 || normalised[place] < value;
  }
  constexpr void put(std::int64_t place, const Finished& one) const {
    scores[place] = one.score;
    normalised[place] = one.normalised;
    lengths[place] = one.length;
    rows[place] = one.row;
  }
};

}  // namespace sluice::kernels::beam_search
