#include "kernels/sampling/cpu/draw.h"

#include <algorithm>
#include <array>
#include <limits>

namespace sluice::kernels::sampling::cpu {
namespace {

/// A row is summed in this many pieces, so that only one of them is walked through again.
constexpr std::int64_t kPieces = 128;

template <typename T>
class Row {
 public:
  Row(const T* logits, std::int64_t vocabulary, const Allowed& allowed, double scale)
      : logits_(logits), vocabulary_(vocabulary), allowed_(allowed), scale_(scale) {
    for_each(0, vocabulary, [&](std::int32_t, T x) { largest_ = std::max(largest_, x); });
  }

  bool has_any() const { return largest_ > -std::numeric_limits<T>::infinity(); }

  /// The `count` largest.
  Kept<T> largest(std::uint64_t count) const {
    const std::uint64_t target = std::min(count, allowed_.count(vocabulary_));
    const auto [bits, above] = threshold(target, [](T) { return std::uint64_t{1}; });
    return {bits, target - above};
  }

  /// The fewest, the largest first, whose mass is `mass` or more; that of all is no less.
  Kept<T> heaviest(std::uint64_t mass) const {
    const auto [bits, above] = threshold(mass, [&](T x) { return weight(x, largest_, scale_); });
    const std::uint64_t each = weight(logit_of<T>(bits), largest_, scale_);
    return {bits, (mass - above + each - 1) / each};
  }

  std::uint64_t mass(const Kept<T>& kept) {
    tie_weight_ = kept.bits == 0 ? 0 : weight(logit_of<T>(kept.bits), largest_, scale_);
    Mass whole{};
    for (std::int64_t i = 0; i < kPieces; ++i) {
      Mass& piece = pieces_[static_cast<std::size_t>(i)] = {};
      for_each(piece_begin(i), piece_begin(i + 1), [&](std::int32_t, T x) {
        const auto bits = ordered_bits(x);
        if (bits > kept.bits) piece.above += weight(x, largest_, scale_);
        if (bits == kept.bits) ++piece.ties;
      });
      whole.above += piece.above;
      whole.ties += piece.ties;
    }
    return whole.total(kept.ties, tie_weight_);
  }

  /// The token at a place on [0, mass(kept)), which was asked for last.
  std::int32_t token_at(std::uint64_t place, const Kept<T>& kept) const {
    std::uint64_t ties = kept.ties;
    std::int64_t piece = 0;
    for (;; ++piece) {
      const Mass& here = pieces_[static_cast<std::size_t>(piece)];
      const std::uint64_t total = here.total(ties, tie_weight_);
      if (place < total) break;
      place -= total;
      ties -= std::min(ties, here.ties);
    }
    std::int32_t found = -1;
    for_each(piece_begin(piece), piece_begin(piece + 1), [&](std::int32_t token, T x) {
      if (found >= 0) return;
      const auto bits = ordered_bits(x);
      std::uint64_t own = bits > kept.bits ? weight(x, largest_, scale_) : 0;
      if (bits == kept.bits && ties > 0) {
        own = tie_weight_;
        --ties;
      }
      if (place < own) found = token;
      place -= own;
    });
    return found;
  }

 private:
  struct Threshold {
    BitsOf<T> bits;
    std::uint64_t above;  ///< the measure of all above
  };

  /// The largest logit at which the measure of what is as large or larger reaches the target: a
  /// radix search from the highest digit.
  template <typename Measure>
  Threshold threshold(std::uint64_t target, const Measure& measure) const {
    constexpr int kDigit = 8;
    Threshold found{0, 0};
    BitsOf<T> known = 0;
    for (int shift = 8 * static_cast<int>(sizeof(T)) - kDigit; shift >= 0; shift -= kDigit) {
      std::array<std::uint64_t, 1 << kDigit> sums{};
      for_each(0, vocabulary_, [&](std::int32_t, T x) {
        const auto bits = ordered_bits(x);
        if (((bits ^ found.bits) & known) == 0) sums[(bits >> shift) & 0xff] += measure(x);
      });
      std::size_t digit = sums.size() - 1;
      for (; digit > 0 && found.above + sums[digit] < target; --digit) found.above += sums[digit];
      found.bits |= static_cast<BitsOf<T>>(digit) << shift;
      known |= BitsOf<T>{0xff} << shift;
    }
    return found;
  }

  template <typename Body>
  void for_each(std::int64_t begin, std::int64_t end, const Body& body) const {
    for (std::int64_t v = begin; v < end; ++v) {
      const auto token = static_cast<std::int32_t>(v);
      if (allowed_(token)) body(token, logits_[v]);
    }
  }
  std::int64_t piece_begin(std::int64_t piece) const { return piece * vocabulary_ / kPieces; }

  const T* logits_;
  std::int64_t vocabulary_;
  const Allowed& allowed_;
  double scale_;
  T largest_ = -std::numeric_limits<T>::infinity();
  std::array<Mass, kPieces> pieces_{};
  std::uint64_t tie_weight_ = 0;
};

}  // namespace

template <typename T>
std::int32_t draw_token(const T* logits, std::int64_t vocabulary, const Allowed& allowed,
                        const Distribution& distribution, const DrawKey& key) {
  Row<T> row(logits, vocabulary, allowed, distribution.scale);
  if (!row.has_any()) return -1;
  Kept<T> kept;
  if (distribution.top_k > 0) kept = row.largest(distribution.top_k);
  std::uint64_t mass = row.mass(kept);
  if (distribution.is_cut()) {
    kept = row.heaviest(distribution.part_of(mass));
    mass = row.mass(kept);
  }
  return row.token_at(draw(key.seed, key.input_id, key.sample, key.step, mass), kept);
}

template std::int32_t draw_token<float>(const float*, std::int64_t, const Allowed&,
                                        const Distribution&, const DrawKey&);
template std::int32_t draw_token<double>(const double*, std::int64_t, const Allowed&,
                                         const Distribution&, const DrawKey&);

}  // namespace sluice::kernels::sampling::cpu
