#include "decoding/constraints.h"

#include <algorithm>
#include <functional>

#include "data/tokenizer.h"
#include "decoding/option_checks.h"
#include "kernels/beam_search/forced.h"
#include "kernels/token_mask/rules.h"

namespace sluice::decoding {

namespace kernel = kernels::token_mask;

namespace {

bool is_piece(std::int32_t token, std::int64_t vocabulary) {
  return token >= 0 && token < vocabulary && token != data::kPadId && token != data::kBosId &&
         token != data::kEosId;
}

/// The sequences of two or more, which take a look at what stands before.
struct LongOnes {
  std::vector<std::int32_t> ends, tokens;

  explicit LongOnes(const Constraints& constraints) {
    for (const auto& sequence : constraints.banned) {
      if (sequence.size() < 2) continue;
      tokens.insert(tokens.end(), sequence.begin(), sequence.end());
      ends.push_back(static_cast<std::int32_t>(tokens.size()));
    }
  }
};

}  // namespace

void Constraints::validate() const {
  check_range("no_repeat", no_repeat, 0, kLongest);
  for (std::size_t i = 0; i < banned.size(); ++i) {
    SLUICE_CHECK(!banned[i].empty(), "banned sequence {} is empty", i + 1);
  }
}

void Constraints::check_tokens(std::int64_t vocabulary) const {
  for (std::size_t i = 0; i < banned.size(); ++i) {
    for (const std::int32_t token : banned[i]) {
      SLUICE_CHECK(is_piece(token, vocabulary),
                   "banned sequence {} holds token {}, which is no piece of text", i + 1, token);
    }
  }
}

ConstraintMask::ConstraintMask(runtime::ArenaPlanner& planner, const Constraints& constraints,
                               std::int64_t vocabulary, std::int64_t rows,
                               std::int64_t max_length) {
  if (!constraints.any()) return;
  const LongOnes banned(constraints);
  extent_ = {rows, vocabulary, max_length, std::ssize(banned.ends), std::ssize(banned.tokens)};
  slots_ = kernel::StateSlots(planner, extent_);
}

kernel::State ConstraintMask::view(const runtime::Arena& arena, std::int64_t rows,
                                   std::int64_t max_length) const {
  if (extent_.rows == 0) return {};
  kernel::Extent extent = extent_;
  extent.rows = rows;
  extent.max_length = max_length;
  return slots_.view(arena, extent);
}

void ConstraintMask::upload(const runtime::Context& context, const Constraints& constraints,
                            const kernel::State& state) {
  if (!constraints.any()) return;
  std::vector<std::int32_t> allowed(
      static_cast<std::size_t>(kernel::words_of(state.extent.vocabulary)), -1);
  for (const auto& sequence : constraints.banned) {
    if (sequence.size() != 1) continue;
    auto& word = allowed[static_cast<std::size_t>(sequence[0] / 32)];
    word = kernel::without_bit(word, sequence[0]);
  }
  context.upload<std::int32_t>(state.allowed, allowed);
  const LongOnes banned(constraints);
  if (banned.ends.empty()) return;
  context.upload<std::int32_t>(state.phrase_ends, banned.ends);
  context.upload<std::int32_t>(state.phrase_tokens, banned.tokens);
}

ForcedSize size_of(Forced forced) {
  ForcedSize size;
  for (const TokenSequences& phrases : forced) {
    size.phrases = std::max(size.phrases, std::ssize(phrases));
    for (const auto& phrase : phrases) size.time = std::max(size.time, std::ssize(phrase));
  }
  return size;
}

TokenSequences without_contained(TokenSequences forced) {
  // The longest first, so that what contains a sequence stands before it.
  std::ranges::stable_sort(forced, std::greater<>{}, &std::vector<std::int32_t>::size);
  TokenSequences needed;
  for (auto& sequence : forced) {
    const auto contains = [&](const auto& other) {
      return !std::ranges::search(other, sequence).empty();
    };
    if (std::ranges::none_of(needed, contains)) needed.push_back(std::move(sequence));
  }
  return needed;
}

std::int64_t tokens_to_hold(const TokenSequences& forced, const std::vector<std::int32_t>& prefix) {
  std::int64_t left = 0, begun = 0;
  for (const auto& phrase : forced) {
    const auto length = static_cast<std::int32_t>(phrase.size());
    std::int32_t progress = 0;
    for (const std::int32_t token : prefix) {
      progress = kernels::beam_search::progress_after(phrase.data(), length, progress, token);
    }
    if (progress == length) continue;
    left += length;
    begun = std::max<std::int64_t>(begun, progress);
  }
  return std::ssize(prefix) + left - begun;
}

void check_forced(Forced forced, Prefixes prefixes, std::span<const std::int32_t> max_lengths,
                  std::int64_t vocabulary) {
  SLUICE_CHECK(forced.empty() || forced.size() == max_lengths.size(),
               "forced sequences of {} inputs are given for {}", forced.size(), max_lengths.size());
  for (std::size_t i = 0; i < forced.size(); ++i) {
    SLUICE_CHECK(std::ssize(forced[i]) <= kMostForced,
                 "input {} has {} forced sequences; at most {} are allowed", i, forced[i].size(),
                 kMostForced);
    for (const auto& phrase : forced[i]) {
      SLUICE_CHECK(!phrase.empty(), "a forced sequence of input {} is empty", i);
      for (const std::int32_t token : phrase) {
        SLUICE_CHECK(is_piece(token, vocabulary),
                     "a forced sequence of input {} holds token {}, which no output can", i, token);
      }
    }
    const std::int64_t needed =
        tokens_to_hold(forced[i], prefixes.empty() ? std::vector<std::int32_t>{} : prefixes[i]);
    SLUICE_CHECK(needed <= max_lengths[i],
                 "the forced sequences of input {} take {} tokens one after the other; its outputs "
                 "have at most {}",
                 i, needed, max_lengths[i]);
  }
}

void upload(const runtime::Context& context, Forced forced, std::int64_t groups,
            const runtime::Tensor& tokens, const runtime::Tensor& lengths) {
  if (!tokens) return;
  const auto phrases = static_cast<std::size_t>(tokens.size(1));
  const auto time = static_cast<std::size_t>(tokens.size(2));
  std::vector<std::int32_t> padded, sizes;
  for (const TokenSequences& of_input : forced) {
    for (std::int64_t group = 0; group < groups; ++group) {
      for (const auto& phrase : of_input) {
        sizes.push_back(static_cast<std::int32_t>(phrase.size()));
        padded.insert(padded.end(), phrase.begin(), phrase.end());
        padded.resize(sizes.size() * time, data::kPadId);
      }
      sizes.resize(sizes.size() + phrases - of_input.size(), 0);
      padded.resize(sizes.size() * time, data::kPadId);
    }
  }
  context.upload<std::int32_t>(tokens, padded);
  context.upload<std::int32_t>(lengths, sizes);
}

}  // namespace sluice::decoding
