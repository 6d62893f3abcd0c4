#include "decoding/hypothesis.h"

#include <algorithm>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/sampling/state.h"

namespace sluice::decoding {
namespace {

/// Results of all inputs on the host, in the layout of SearchResults.
struct HostResults {
  std::int64_t nbest = 0, max_length = 0, source_time = 0;
  std::vector<std::int32_t> tokens, lengths, status;
  std::vector<double> scores, normalised;
  bool has_attention = false;
  std::vector<float> attention;
};

std::vector<float> download_attention(const Context& context, const Tensor& attention) {
  return base::dispatch_master(attention.dtype(), [&](auto tag) {
    const auto values = context.download<typename decltype(tag)::type>(attention);
    return std::vector<float>(values.begin(), values.end());
  });
}

HostResults download(const Context& context, const SearchResults& results) {
  HostResults host;
  host.nbest = results.lengths.size(1);
  host.max_length = results.max_length;
  host.tokens = context.download<std::int32_t>(results.tokens);
  host.lengths = context.download<std::int32_t>(results.lengths);
  host.scores = context.download<double>(results.scores);
  host.normalised = context.download<double>(results.normalised_scores);
  if (results.status) host.status = context.download<std::int32_t>(results.status);
  host.has_attention = static_cast<bool>(results.attention);
  if (host.has_attention) {
    host.source_time = results.attention.size(3);
    host.attention = download_attention(context, results.attention);
  }
  return host;
}

Hypothesis hypothesis_at(const HostResults& host, std::int64_t which, std::int64_t source_length) {
  Hypothesis hypothesis;
  const auto at = static_cast<std::size_t>(which);
  const std::int64_t length = host.lengths[at];
  hypothesis.score = host.scores[at];
  hypothesis.normalised_score = host.normalised[at];
  hypothesis.ended = host.status.empty() || host.status[at] == kernels::sampling::kEnded;
  const auto tokens = host.tokens.begin() + which * host.max_length;
  hypothesis.tokens.assign(tokens, tokens + length);
  if (!host.has_attention) return hypothesis;
  for (std::int64_t t = 0; t < length; ++t) {
    const auto row = host.attention.begin() + (which * host.max_length + t) * host.source_time;
    hypothesis.attention.emplace_back(row, row + source_length);
  }
  return hypothesis;
}

/// Best first, each once.
void join_groups(std::vector<Hypothesis>& found, std::int64_t nbest) {
  std::ranges::stable_sort(found, [](const Hypothesis& a, const Hypothesis& b) {
    return a.normalised_score > b.normalised_score;
  });
  std::vector<Hypothesis> joined;
  for (Hypothesis& one : found) {
    const bool is_there = std::ranges::any_of(
        joined, [&](const Hypothesis& other) { return other.tokens == one.tokens; });
    if (!is_there && std::ssize(joined) < nbest) joined.push_back(std::move(one));
  }
  found = std::move(joined);
}

}  // namespace

std::vector<std::vector<Hypothesis>> fetch(const Context& context, const SearchResults& results) {
  if (results.inputs == 0) return {};
  const auto faults = context.download<std::int32_t>(results.faults);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (faults[i] == 0) continue;
    base::fail(ErrorCode::kNumeric,
               "the model's logits for input {} are NaN or infinite at output step {}; its weights "
               "are not usable",
               static_cast<std::int64_t>(i) / results.groups, faults[i]);
  }
  const HostResults host = download(context, results);
  std::vector<std::vector<Hypothesis>> all(
      static_cast<std::size_t>(results.inputs / results.groups));
  for (std::int64_t i = 0; i < results.inputs; ++i) {
    auto& found = all[static_cast<std::size_t>(i / results.groups)];
    for (std::int64_t j = 0; j < host.nbest; ++j) {
      const std::int64_t which = i * host.nbest + j;
      if (host.lengths[static_cast<std::size_t>(which)] < 0) continue;
      found.push_back(
          hypothesis_at(host, which, results.source_lengths[static_cast<std::size_t>(i)]));
    }
  }
  if (results.groups > 1) {
    for (auto& found : all) join_groups(found, results.nbest);
  }
  return all;
}

}  // namespace sluice::decoding
