#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/sampling/sampling.h"
#include "unit/support/on_device.h"

namespace sluice::testing {

using Ids = std::vector<std::int32_t>;

inline constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

/// A test of sampling with a search at hand.
class SamplingTest : public OnDevice {
 protected:
  using Extent = kernels::sampling::Extent;
  using Rules = kernels::sampling::Rules;
  using State = kernels::sampling::State;

  /// Poisoned but for the maximum lengths (extent.max_length of each) and ids (0, 1, ...).
  State make_state(const Extent& extent) {
    runtime::ArenaPlanner planner;
    const kernels::sampling::StateSlots slots(planner, extent);
    arenas_.emplace_back(*device_, planner);
    const runtime::Arena& arena = arenas_.back();
    poison(context_, arena.data({}), planner.saved_total());
    const State state = slots.view(arena, extent);
    const auto inputs = static_cast<std::size_t>(extent.inputs);
    const Ids max_lengths(inputs, static_cast<std::int32_t>(extent.max_length));
    context_.upload<std::int32_t>(state.max_lengths, max_lengths);
    Ids ids(inputs);
    std::iota(ids.begin(), ids.end(), 0);
    context_.upload<std::int32_t>(state.input_ids, ids);
    return state;
  }
  State started(const Extent& extent, const Rules& rules) {
    const State state = make_state(extent);
    kernels::sampling::start(context_, rules, state);
    return state;
  }

  /// The tokens that `samples` samples of one input draw first from these logits.
  template <typename T>
  Ids draws(const std::vector<T>& row, std::int64_t samples, const Rules& rules) {
    const State state = started({1, samples, 1, 0, 0, false, base::dtype_of<T>()}, rules);
    const auto vocabulary = static_cast<std::int64_t>(row.size());
    std::vector<T> rows;
    for (std::int64_t r = 0; r < samples; ++r) rows.insert(rows.end(), row.begin(), row.end());
    kernels::sampling::advance(context_, rules, state, put(rows, {samples, vocabulary}), Tensor());
    // What ended drew eos.
    Ids tokens = get<std::int32_t>(state.tokens);
    const Ids status = get<std::int32_t>(state.status);
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      EXPECT_NE(status[r], kernels::sampling::kImpossible);
      if (status[r] == kernels::sampling::kEnded) tokens[r] = rules.eos;
    }
    release_memory();
    arenas_.clear();
    return tokens;
  }

 private:
  std::vector<runtime::Arena> arenas_;
};

/// What a token is drawn with, by the textbook; `near_cut` tells that a sum of probabilities came
/// so close to top_p that rounding may decide.
struct ReferenceDistribution {
  std::vector<double> q;
  bool near_cut = false;
};

template <typename T>
ReferenceDistribution reference_distribution(const std::vector<T>& logits,
                                             const kernels::sampling::Rules& rules) {
  std::vector<std::size_t> order;
  for (std::size_t v = 0; v < logits.size(); ++v) {
    const auto token = static_cast<std::int32_t>(v);
    if (token == rules.pad || token == rules.bos || token == rules.unknown) continue;
    if (token == rules.eos && rules.min_length > 0) continue;
    order.push_back(v);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (rules.top_k > 0 && static_cast<std::size_t>(rules.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(rules.top_k));
  }
  const auto power = [&](std::size_t v) {
    return std::exp((static_cast<double>(logits[v]) - static_cast<double>(logits[order[0]])) /
                    rules.temperature);
  };
  double total = 0;
  for (const std::size_t v : order) total += power(v);
  ReferenceDistribution reference;
  reference.q.resize(logits.size());
  double sum = 0;
  for (const std::size_t v : order) {
    if (rules.top_p < 1 && std::abs(sum - rules.top_p) < 1e-7) reference.near_cut = true;
    if (rules.top_p < 1 && sum >= rules.top_p) break;
    reference.q[v] = power(v) / total;
    sum += reference.q[v];
  }
  for (double& q : reference.q) q /= sum;
  return reference;
}

/// Pearson's statistic against its degrees of freedom: draws of cells of few expectations are
/// counted together.
struct ChiSquare {
  double statistic = 0, cells = 0;

  ChiSquare(const Ids& draws, const std::vector<double>& q) {
    std::vector<double> counts(q.size());
    for (const std::int32_t token : draws) ++counts[static_cast<std::size_t>(token)];
    double expected = 0, counted = 0;
    for (std::size_t v = 0; v < q.size(); ++v) {
      EXPECT_TRUE(q[v] > 0 || counts[v] == 0) << "token " << v << " can't be drawn";
      expected += q[v] * static_cast<double>(draws.size());
      counted += counts[v];
      if (expected < 10) continue;
      statistic += (counted - expected) * (counted - expected) / expected;
      ++cells;
      expected = counted = 0;
    }
    if (expected > 0) {
      statistic += (counted - expected) * (counted - expected) / std::max(expected, 1.0);
      ++cells;
    }
  }
  /// P(X > d + 2 sqrt(d t) + 2 t) <= exp(-t) of a chi-square of d degrees (Laurent and Massart
  /// 2000, "Adaptive estimation of a quadratic functional", lemma 1); here exp(-14) = 1e-6.
  double bound() const {
    constexpr double t = 14;
    const double d = std::max(cells - 1, 1.0);
    return d + 2 * std::sqrt(d * t) + 2 * t;
  }
};

}  // namespace sluice::testing
