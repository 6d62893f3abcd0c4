#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "unit/decoding/reference_search.h"

/// What a search may be asked for beyond its rules, written down in the most naive way: from whole
/// token sequences, with nothing carried from step to step but these.
namespace sluice::testing {

using decoding::Constraints;
using decoding::TokenSequences;
using Tokens = std::vector<std::int32_t>;

inline bool holds(const Tokens& tokens, const Tokens& phrase) {
  return std::search(tokens.begin(), tokens.end(), phrase.begin(), phrase.end()) != tokens.end();
}
inline bool ends_with(const Tokens& tokens, const Tokens& phrase) {
  return tokens.size() >= phrase.size() &&
         std::equal(phrase.rbegin(), phrase.rend(), tokens.rbegin());
}
inline bool holds_all(const Tokens& tokens, const TokenSequences& phrases) {
  return std::ranges::all_of(phrases, [&](const Tokens& phrase) { return holds(tokens, phrase); });
}

/// Whether the last token must not stand behind the others.
inline bool breaks(const Constraints& constraints, const Tokens& tokens) {
  for (const Tokens& banned : constraints.banned) {
    if (ends_with(tokens, banned)) return true;
  }
  const auto n = static_cast<std::size_t>(constraints.no_repeat);
  if (n == 0 || tokens.size() < n) return false;
  const Tokens last(tokens.end() - static_cast<std::ptrdiff_t>(n), tokens.end());
  return holds(Tokens(tokens.begin(), tokens.end() - 1), last);
}

/// Tokens that it takes to end the phrase that has come furthest and then to append the others.
inline std::int64_t tokens_to_come(const Tokens& tokens, const TokenSequences& phrases) {
  std::int64_t left = 0, begun = 0;
  for (const Tokens& phrase : phrases) {
    if (holds(tokens, phrase)) continue;
    left += std::ssize(phrase);
    for (std::size_t count = 1; count < phrase.size(); ++count) {
      const Tokens first(phrase.begin(), phrase.begin() + static_cast<std::ptrdiff_t>(count));
      if (ends_with(tokens, first)) begun = std::max(begun, static_cast<std::int64_t>(count));
    }
  }
  return left - begun;
}

inline Tokens with(Tokens tokens, std::int32_t token) {
  tokens.push_back(token);
  return tokens;
}

/// One input of a search.
struct ReferenceInput {
  std::int32_t number = 0;
  std::int64_t source_length = 0;
  Tokens prefix{};
  TokenSequences phrases{};
};

class ReferenceExtras {
 public:
  ReferenceExtras(const Logit& logit, std::int64_t vocabulary, const SearchOptions& options,
                  const ReferenceInput& input)
      : logit_(logit),
        vocabulary_(vocabulary),
        options_(options),
        input_(input),
        max_length_(
            std::max(options.max_length_for(input.source_length), std::ssize(input.prefix))) {}

  /// The smallest difference that has decided something in `search`. Float32 may decide otherwise
  /// where it is no more than rounding.
  double closest() const { return closest_; }

  /// Beam search, group by group.
  std::vector<Hypothesis> search() {
    std::vector<Group> groups(static_cast<std::size_t>(options_.groups));
    for (Group& group : groups) group.live.push_back(root());
    for (std::int64_t step = 0; step <= max_length_; ++step) {
      std::multiset<std::int32_t> chosen;
      for (Group& group : groups) {
        if (group.live.empty()) continue;
        take_step(chosen, group);
        for (const Prefix& prefix : group.live) chosen.insert(prefix.tokens.back());
      }
    }
    std::vector<Hypothesis> joined;
    for (Group& group : groups) {
      sort_and_cut(group.found, std::min(options_.nbest, beam()) + 1);
      note_gaps(group.found);
      sort_and_cut(group.found, std::min(options_.nbest, beam()));
      for (Hypothesis& one : group.found) {
        const auto is_same = [&](const Hypothesis& other) { return other.tokens == one.tokens; };
        if (std::ranges::none_of(joined, is_same)) joined.push_back(std::move(one));
      }
    }
    sort_and_cut(joined, options_.nbest + 1);
    note_gaps(joined);
    sort_and_cut(joined, options_.nbest);
    return joined;
  }

  /// The best of all outputs that there are, or of those that leave room for phrases everywhere.
  std::vector<Hypothesis> exhaustive(bool look_ahead = false) {
    std::vector<Hypothesis> found;
    enumerate(root(), found, look_ahead);
    sort_and_cut(found, options_.nbest);
    return found;
  }

  Hypothesis ended(const Prefix& prefix, double score) const {
    Hypothesis one =
        finished(prefix, score, options_.length_penalty, input_.source_length, options_.attention);
    std::vector<Node> steps = prefix.emitted_at;
    steps.push_back(prefix.node);
    for (std::int64_t s = 0; options_.coverage_penalty > 0 && s < input_.source_length; ++s) {
      double sum = 0;
      for (const Node node : steps) sum += static_cast<double>(table_attention(node, s));
      one.normalised_score += options_.coverage_penalty * std::log(std::min(sum, 1.0));
    }
    return one;
  }

  Prefix root() const {
    Prefix prefix;
    prefix.node = next_node(first_node(input_.number), data::kBosId);
    return prefix;
  }

  /// Without looking ahead it may lead to outputs that can't hold their phrases any more.
  bool allows(const Prefix& prefix, std::int32_t token, bool look_ahead = true) const {
    const std::int64_t step = std::ssize(prefix.tokens);
    if (!reference_allows(options_, token, step, max_length_, input_.prefix)) return false;
    if (step < std::ssize(input_.prefix)) return true;
    if (token == data::kEosId) return holds_all(prefix.tokens, input_.phrases);
    const Tokens longer = with(prefix.tokens, token);
    if (breaks(options_.constraints, longer)) return false;
    return !look_ahead || tokens_to_come(longer, input_.phrases) <= max_length_ - step - 1;
  }

 private:
  struct Group {
    std::vector<Prefix> live;
    std::vector<Hypothesis> found;
    std::int64_t count = 0;
  };
  struct Continuation {
    std::size_t beam;
    std::int32_t token;
    double score, key;
    std::int64_t to_come, round;
  };

  std::int64_t beam() const { return options_.beam / options_.groups; }

  void note(double gap) { closest_ = std::min(closest_, std::abs(gap)); }
  void note_gaps(const std::vector<Hypothesis>& sorted) {
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      note(sorted[i - 1].normalised_score - sorted[i].normalised_score);
    }
  }

  /// A prefix's best, and those that go on with a phrase.
  std::vector<Continuation> continuations(std::size_t b, const Prefix& prefix) {
    const auto log_p = reference_log_softmax(logit_, prefix.node, vocabulary_);
    std::vector<Continuation> all;
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(vocabulary_); ++v) {
      const double score = prefix.score + log_p[static_cast<std::size_t>(v)];
      if (!allows(prefix, v) || !std::isfinite(score)) continue;
      const std::int64_t to_come =
          v == data::kEosId ? 0 : tokens_to_come(with(prefix.tokens, v), input_.phrases);
      all.push_back({b, v, score, score, to_come, 0});
    }
    std::ranges::stable_sort(all, std::greater<>{}, &Continuation::score);
    const auto width = static_cast<std::size_t>(options_.beam + 1);
    if (!input_.phrases.empty() && all.size() > width) {
      note(all[width - 1].score - all[width].score);  // other banks look further down
    }
    std::vector<Continuation> kept;
    for (const Continuation& one : all) {
      if (std::ssize(kept) < options_.beam + 1 || goes_on_with_a_phrase(prefix, one.token)) {
        kept.push_back(one);
      }
    }
    return kept;
  }

  bool goes_on_with_a_phrase(const Prefix& prefix, std::int32_t token) const {
    return std::ranges::any_of(input_.phrases, [&](const Tokens& phrase) {
      if (holds(prefix.tokens, phrase)) return false;
      std::size_t begun = 0;
      for (std::size_t count = 1; count < phrase.size(); ++count) {
        const Tokens first(phrase.begin(), phrase.begin() + static_cast<std::ptrdiff_t>(count));
        if (ends_with(prefix.tokens, first)) begun = count;
      }
      return phrase[begun] == token;
    });
  }

  void take_step(const std::multiset<std::int32_t>& chosen, Group& group) {
    std::vector<Continuation> all;
    for (std::size_t b = 0; b < group.live.size(); ++b) {
      for (Continuation one : continuations(b, group.live[b])) {
        one.key -= options_.diversity * static_cast<double>(chosen.count(one.token));
        all.push_back(one);
      }
    }
    std::ranges::stable_sort(all, std::greater<>{}, &Continuation::key);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) all[i].round += all[j].to_come == all[i].to_come ? 1 : 0;
    }
    std::ranges::stable_sort(all, [](const Continuation& a, const Continuation& b) {
      return a.round != b.round ? a.round < b.round : a.to_come < b.to_come;
    });
    // Of each row one may end, so no more are looked at than these.
    const auto looked_at = std::min(all.size(), static_cast<std::size_t>(2 * beam()));
    for (std::size_t i = 0; i < looked_at; ++i) {
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        if (all[j].to_come == all[i].to_come) note(all[i].key - all[j].key);
      }
    }
    std::vector<Prefix> next;
    for (std::size_t i = 0; i < all.size() && std::ssize(next) < beam(); ++i) {
      const Prefix& prefix = group.live[all[i].beam];
      if (all[i].token != data::kEosId) {
        next.push_back(extended(prefix, all[i].token, all[i].score));
      } else if (static_cast<std::int64_t>(i) < beam()) {
        group.found.push_back(ended(prefix, all[i].score));
        ++group.count;
      }
    }
    group.live = std::move(next);
    if (is_done(group)) group.live.clear();
  }

  /// As a search may stop: only groups that come later see whether it has.
  bool is_done(Group& group) {
    const bool stop_when_full = options_.stop == decoding::StopRule::kBeamFull || beam() == 1;
    if (stop_when_full && group.count >= beam()) return true;
    const std::int64_t nbest = std::min(options_.nbest, beam());
    sort_and_cut(group.found, nbest + 1);
    note_gaps(group.found);
    sort_and_cut(group.found, nbest);
    if (std::ssize(group.found) < nbest) return false;
    double most = -std::numeric_limits<double>::infinity();
    for (const Prefix& prefix : group.live) most = std::max(most, prefix.score);
    const double length = static_cast<double>(max_length_) + 1;
    const double bound = most / std::pow((5 + length) / 6, options_.length_penalty);
    if (options_.groups > 1) note(bound - group.found.back().normalised_score);
    return bound <= group.found.back().normalised_score;
  }

  void enumerate(const Prefix& prefix, std::vector<Hypothesis>& found, bool look_ahead) const {
    const auto log_p = reference_log_softmax(logit_, prefix.node, vocabulary_);
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(vocabulary_); ++v) {
      if (!allows(prefix, v, look_ahead)) continue;
      const double score = prefix.score + log_p[static_cast<std::size_t>(v)];
      if (v == data::kEosId) {
        found.push_back(ended(prefix, score));
      } else {
        enumerate(extended(prefix, v, score), found, look_ahead);
      }
    }
  }

  const Logit& logit_;
  std::int64_t vocabulary_;
  const SearchOptions& options_;
  const ReferenceInput& input_;
  std::int64_t max_length_;
  double closest_ = std::numeric_limits<double>::infinity();
};

}  // namespace sluice::testing
