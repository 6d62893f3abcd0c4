#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/tokenizer.h"
#include "decoding/search.h"
#include "unit/decoding/table_model.h"

namespace sluice::testing {

using decoding::Hypothesis;
using decoding::SearchOptions;

/// log p of every token after a node, by the textbook; forbidden tokens are left in.
inline std::vector<double> reference_log_softmax(const Logit& logit, Node node,
                                                 std::int64_t vocabulary) {
  std::vector<double> logits;
  for (std::int64_t v = 0; v < vocabulary; ++v) logits.push_back(logit(node, v));
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - most);
  for (double& x : logits) x = (x - most) - std::log(sum);
  return logits;
}

inline bool reference_allows(const SearchOptions& options, std::int64_t token, std::int64_t step,
                             std::int64_t max_length,
                             const std::vector<std::int32_t>& forced = {}) {
  if (step < static_cast<std::int64_t>(forced.size())) {
    return token == forced[static_cast<std::size_t>(step)];
  }
  if (token == data::kEosId) return step >= options.min_length;
  if (token == data::kPadId || token == data::kBosId || step >= max_length) return false;
  return token != data::kUnknownId || options.allow_unknown;
}

struct Prefix {
  std::vector<std::int32_t> tokens;
  double score = 0;
  Node node = 0;  ///< after its tokens
  std::vector<Node> emitted_at;
};

inline Hypothesis finished(const Prefix& prefix, double score, double alpha,
                           std::int64_t source_length, bool attention) {
  const double length = static_cast<double>(prefix.tokens.size()) + 1;
  Hypothesis hypothesis{prefix.tokens, score, score / std::pow((5 + length) / 6, alpha), {}};
  for (const Node node : prefix.emitted_at) {
    if (!attention) break;
    auto& row = hypothesis.attention.emplace_back();
    for (std::int64_t s = 0; s < source_length; ++s) row.push_back(table_attention(node, s));
  }
  return hypothesis;
}

inline Prefix extended(const Prefix& prefix, std::int32_t token, double score) {
  Prefix longer = prefix;
  longer.tokens.push_back(token);
  longer.score = score;
  longer.emitted_at.push_back(prefix.node);
  longer.node = next_node(prefix.node, token);
  return longer;
}

inline void sort_and_cut(std::vector<Hypothesis>& found, std::int64_t nbest) {
  std::stable_sort(found.begin(), found.end(), [](const Hypothesis& a, const Hypothesis& b) {
    return a.normalised_score > b.normalised_score;
  });
  if (static_cast<std::int64_t>(found.size()) > nbest)
    found.resize(static_cast<std::size_t>(nbest));
}

/// Beam search written down naively: all continuations in a list, sorted, never stopped before the
/// maximum length unless `beam` have finished and the options (or beam 1) ask for that.
inline std::vector<Hypothesis> reference_search(const Logit& logit, std::int64_t vocabulary,
                                                std::int32_t input, std::int64_t source_length,
                                                const SearchOptions& options,
                                                const std::vector<std::int32_t>& forced = {}) {
  struct Continuation {
    std::size_t beam;
    std::int32_t token;
    double score;
  };
  const bool stop_when_full = options.stop == decoding::StopRule::kBeamFull || options.beam == 1;
  const std::int64_t max_length =
      std::max(options.max_length_for(source_length), static_cast<std::int64_t>(forced.size()));
  std::vector<Prefix> live(1);
  live[0].node = next_node(first_node(input), data::kBosId);
  std::vector<Hypothesis> found;
  for (std::int64_t step = 0; step <= max_length && !live.empty(); ++step) {
    std::vector<Continuation> all;
    for (std::size_t b = 0; b < live.size(); ++b) {
      const auto log_p = reference_log_softmax(logit, live[b].node, vocabulary);
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        const double score = live[b].score + log_p[static_cast<std::size_t>(v)];
        if (reference_allows(options, v, step, max_length, forced) && std::isfinite(score)) {
          all.push_back({b, static_cast<std::int32_t>(v), score});
        }
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Continuation& a, const Continuation& b) {
      return a.score > b.score;
    });
    std::vector<Prefix> next;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Prefix& prefix = live[all[i].beam];
      if (all[i].token != data::kEosId) {
        if (static_cast<std::int64_t>(next.size()) < options.beam) {
          next.push_back(extended(prefix, all[i].token, all[i].score));
        }
      } else if (static_cast<std::int64_t>(i) < options.beam) {
        found.push_back(finished(prefix, all[i].score, options.length_penalty, source_length,
                                 options.attention));
      }
    }
    live = std::move(next);
    if (stop_when_full && static_cast<std::int64_t>(found.size()) >= options.beam) break;
  }
  sort_and_cut(found, options.nbest);
  return found;
}

/// Every output there is, by recursion.
inline void enumerate(const Logit& logit, std::int64_t vocabulary, std::int64_t source_length,
                      const SearchOptions& options, const Prefix& prefix,
                      std::vector<Hypothesis>& found) {
  const auto step = static_cast<std::int64_t>(prefix.tokens.size());
  const auto log_p = reference_log_softmax(logit, prefix.node, vocabulary);
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    if (!reference_allows(options, v, step, options.max_length_for(source_length))) continue;
    const double score = prefix.score + log_p[static_cast<std::size_t>(v)];
    if (v == data::kEosId) {
      found.push_back(
          finished(prefix, score, options.length_penalty, source_length, options.attention));
    } else {
      enumerate(logit, vocabulary, source_length, options,
                extended(prefix, static_cast<std::int32_t>(v), score), found);
    }
  }
}

inline std::vector<Hypothesis> exhaustive_search(const Logit& logit, std::int64_t vocabulary,
                                                 std::int32_t input, std::int64_t source_length,
                                                 const SearchOptions& options) {
  Prefix root;
  root.node = next_node(first_node(input), data::kBosId);
  std::vector<Hypothesis> found;
  enumerate(logit, vocabulary, source_length, options, root, found);
  sort_and_cut(found, options.nbest);
  return found;
}

}  // namespace sluice::testing
