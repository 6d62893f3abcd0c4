#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoding/prefixes.h"
#include "kernels/token_mask/token_mask.h"
#include "runtime/arena.h"
#include "runtime/context.h"

/// Token sequences that outputs must not hold, and those that they must.
namespace sluice::decoding {

using TokenSequences = std::vector<std::vector<std::int32_t>>;

/// Token sequences that no output holds. A prefix (prefixes.h) is taken all the same.
struct Constraints {
  TokenSequences banned{};     ///< sequences of tokens, of one or more each
  std::int64_t no_repeat = 0;  ///< sequences of so many tokens stand in an output once; 0: or more

  bool any() const { return !banned.empty() || no_repeat > 0; }
  /// Throws ErrorCode::kInvalidArgument with the option, its value and what is allowed.
  void validate() const;
  /// The same of sequences that hold anything but this vocabulary's pieces.
  void check_tokens(std::int64_t vocabulary) const;
};

/// The mask that Constraints ask for, over the rows of one plan's searches.
class ConstraintMask {
 public:
  ConstraintMask() = default;
  ConstraintMask(runtime::ArenaPlanner& planner, const Constraints& constraints,
                 std::int64_t vocabulary, std::int64_t rows, std::int64_t max_length);

  /// Nothing if there are no constraints.
  kernels::token_mask::State view(const runtime::Arena& arena, std::int64_t rows,
                                  std::int64_t max_length) const;
  /// Makes the state that `view` gave ready for a search. Waits for the device.
  static void upload(const runtime::Context& context, const Constraints& constraints,
                     const kernels::token_mask::State& state);

 private:
  kernels::token_mask::Extent extent_{};
  kernels::token_mask::StateSlots slots_{};
};

/// For each input the token sequences that all its outputs hold; none: no input has any.
using Forced = std::span<const TokenSequences>;

/// Most sequences of an input.
inline constexpr std::int64_t kMostForced = 64;

/// Sizes of the largest of them.
struct ForcedSize {
  std::int64_t phrases = 0, time = 0;
};
ForcedSize size_of(Forced forced);

/// The same demand with fewer sequences: without those that stand in another one, or stand twice.
TokenSequences without_contained(TokenSequences forced);

/// Tokens that an output with this prefix takes to hold all of them one after the other, the
/// prefix's counted: a bound, for sequences may share tokens.
std::int64_t tokens_to_hold(const TokenSequences& forced, const std::vector<std::int32_t>& prefix);

/// Throws ErrorCode::kInvalidArgument, naming the input, unless there are as many as inputs or
/// none, each is of this vocabulary's pieces, of one or more, no input has more than kMostForced,
/// and all of an input's fit its maximum length, after its prefix.
void check_forced(Forced forced, Prefixes prefixes, std::span<const std::int32_t> max_lengths,
                  std::int64_t vocabulary);

/// tokens int32 [inputs, phrases, time], lengths int32 [inputs, phrases]: input i of `forced` for
/// each of `groups` inputs.
void upload(const runtime::Context& context, Forced forced, std::int64_t groups,
            const runtime::Tensor& tokens, const runtime::Tensor& lengths);

}  // namespace sluice::decoding
