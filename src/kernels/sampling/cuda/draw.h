#pragma once

#include "kernels/loss/cuda/softmax_row.h"
#include "kernels/sampling/weights.h"

/// A token of one row of logits, by a warp or a block. Sums are of integers, so their order shows
/// nowhere.
namespace sluice::kernels::sampling::cuda {

using loss::cuda::Group;
using loss::cuda::Row;
using runtime::cuda::Add;
using runtime::cuda::combine_warp;
using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;
using runtime::cuda::Team;

/// What a team shares.
template <int kSize>
struct TeamMemory {
  static constexpr int kDigits = 256;
  unsigned long long sums[kDigits];  ///< of a radix search, by digit
  unsigned long long above;
  Mass pieces[kSize / kWarp];  ///< the parts of the row that warps take
  int digit;
  std::int32_t token;
};

template <int kSize, typename T>
class RowDraw {
 public:
  /// The row may be read by all threads of the team.
  __device__ RowDraw(const Team<kSize>& team, const Row<T>& row, std::int64_t vocabulary,
                     const Allowed& allowed, double scale, TeamMemory<kSize>& memory)
      : team_(team),
        logits_(row.data),
        vocabulary_(static_cast<int>(vocabulary)),
        allowed_(allowed),
        scale_(scale),
        memory_(memory) {
    T own = -static_cast<T>(INFINITY);
    for_all([&](int, T x) { own = x > own ? x : own; });
    largest_ = team_.reduce(own, runtime::cuda::Larger{});
  }

  __device__ bool has_any() const { return largest_ > -static_cast<T>(INFINITY); }

  /// The `count` largest.
  __device__ Kept<T> largest(std::uint64_t count) const {
    const std::uint64_t all = allowed_.count(vocabulary_);
    const std::uint64_t target = count < all ? count : all;
    const Threshold found = threshold(target, [](T) { return std::uint64_t{1}; });
    return {found.bits, target - found.above};
  }

  /// The fewest, the largest first, whose mass is `mass` or more; that of all is no less.
  __device__ Kept<T> heaviest(std::uint64_t mass) const {
    const Threshold found = threshold(mass, [&](T x) { return weight(x, largest_, scale_); });
    const std::uint64_t each = weight(logit_of<T>(found.bits), largest_, scale_);
    return {found.bits, (mass - found.above + each - 1) / each};
  }

  __device__ std::uint64_t mass(const Kept<T>& kept) {
    tie_weight_ = kept.bits == 0 ? 0 : weight(logit_of<T>(kept.bits), largest_, scale_);
    Mass own{};
    for (int v = piece_begin(warp()) + lane(); v < piece_begin(warp() + 1); v += kWarp) {
      if (!allowed_(v)) continue;
      const auto bits = ordered_bits(logits_[v]);
      if (bits > kept.bits) own.above += weight(logits_[v], largest_, scale_);
      if (bits == kept.bits) ++own.ties;
    }
    own.above = combine_warp(own.above, Add{});
    own.ties = combine_warp(own.ties, Add{});
    team_.sync();  // what stood there may still be read
    if (lane() == 0) memory_.pieces[warp()] = own;
    team_.sync();
    Mass whole{};
    for (const Mass& piece : memory_.pieces) {
      whole.above += piece.above;
      whole.ties += piece.ties;
    }
    return whole.total(kept.ties, tie_weight_);
  }

  /// The token at a place on [0, mass(kept)), which was asked for last.
  __device__ std::int32_t token_at(std::uint64_t place, const Kept<T>& kept) const {
    std::uint64_t ties = kept.ties;
    int piece = 0;
    for (;; ++piece) {
      const Mass here = memory_.pieces[piece];
      const std::uint64_t total = here.total(ties, tie_weight_);
      if (place < total) break;
      place -= total;
      ties -= ties < here.ties ? ties : here.ties;
    }
    if (piece == warp()) {
      const std::int32_t found = token_of_piece(place, kept, ties);
      if (lane() == 0) memory_.token = found;
    }
    team_.sync();
    return memory_.token;
  }

 private:
  struct Threshold {
    BitsOf<T> bits;
    std::uint64_t above;  ///< the measure of all above
  };

  /// The largest logit at which the measure of what is as large or larger reaches the target: a
  /// radix search from the highest digit.
  template <typename Measure>
  __device__ Threshold threshold(std::uint64_t target, const Measure& measure) const {
    constexpr int kDigit = 8;
    Threshold found{0, 0};
    BitsOf<T> known = 0;
    for (int shift = 8 * static_cast<int>(sizeof(T)) - kDigit; shift >= 0; shift -= kDigit) {
      team_.sync();
      for (int i = team_.rank; i < memory_.kDigits; i += kSize) memory_.sums[i] = 0;
      team_.sync();
      for_all([&](int, T x) {
        const auto bits = ordered_bits(x);
        if (((bits ^ found.bits) & known) != 0) return;
        atomicAdd(memory_.sums + ((bits >> shift) & 0xff), measure(x));
      });
      team_.sync();
      if (warp() == 0) find_digit(found.above, target);
      team_.sync();
      found.above = memory_.above;
      found.bits |= static_cast<BitsOf<T>>(memory_.digit) << shift;
      known |= BitsOf<T>{0xff} << shift;
    }
    return found;
  }

  /// The digit whose sum, with those of all higher ones and `above`, reaches the target; by a warp,
  /// whose lanes take eight digits each, the first lane the highest.
  __device__ void find_digit(std::uint64_t above, std::uint64_t target) const {
    constexpr int kOwn = TeamMemory<kSize>::kDigits / kWarp;
    const int highest = memory_.kDigits - 1 - lane() * kOwn;
    std::uint64_t own = 0;
    for (int i = 0; i < kOwn; ++i) own += memory_.sums[highest - i];
    std::uint64_t upto = own;
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const std::uint64_t before = __shfl_up_sync(kAllLanes, upto, distance);
      if (lane() >= distance) upto += before;
    }
    const unsigned reached = __ballot_sync(kAllLanes, above + upto >= target);
    if (lane() != __ffs(static_cast<int>(reached)) - 1) return;
    above += upto - own;
    int digit = highest;
    for (; above + memory_.sums[digit] < target; --digit) above += memory_.sums[digit];
    memory_.digit = digit;
    memory_.above = above;
  }

  /// Of this warp's part, 32 tokens at a time.
  __device__ std::int32_t token_of_piece(std::uint64_t place, const Kept<T>& kept,
                                         std::uint64_t ties) const {
    const int end = piece_begin(warp() + 1);
    for (int first = piece_begin(warp()); first < end; first += kWarp) {
      const int v = first + lane();
      const bool counts = v < end && allowed_(v);
      const auto bits = counts ? ordered_bits(logits_[v]) : BitsOf<T>{0};
      const bool at_kept = counts && bits == kept.bits;
      const unsigned all_ties = __ballot_sync(kAllLanes, at_kept);
      const unsigned before = __popc(all_ties & ((1u << lane()) - 1));
      std::uint64_t own = 0;
      if (counts && bits > kept.bits) own = weight(logits_[v], largest_, scale_);
      if (at_kept && before < ties) own = tie_weight_;
      std::uint64_t upto = own;
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const std::uint64_t lower = __shfl_up_sync(kAllLanes, upto, distance);
        if (lane() >= distance) upto += lower;
      }
      const unsigned beyond = __ballot_sync(kAllLanes, place < upto);
      if (beyond != 0) return first + __ffs(static_cast<int>(beyond)) - 1;
      place -= __shfl_sync(kAllLanes, upto, kWarp - 1);
      const std::uint64_t seen = __popc(all_ties);
      ties -= ties < seen ? ties : seen;
    }
    return -1;
  }

  template <typename Body>
  __device__ void for_all(const Body& body) const {
    for (int v = team_.rank; v < vocabulary_; v += kSize) {
      if (allowed_(v)) body(v, logits_[v]);
    }
  }
  __device__ int lane() const { return team_.rank % kWarp; }
  __device__ int warp() const { return team_.rank / kWarp; }
  __device__ int piece_begin(int piece) const {
    return static_cast<int>(std::int64_t{piece} * vocabulary_ / (kSize / kWarp));
  }

  const Team<kSize>& team_;
  const T* logits_;
  int vocabulary_;
  const Allowed& allowed_;
  double scale_;
  TeamMemory<kSize>& memory_;
  T largest_;
  std::uint64_t tie_weight_ = 0;
};

}  // namespace sluice::kernels::sampling::cuda
