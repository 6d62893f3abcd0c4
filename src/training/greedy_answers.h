#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/watch.h"
#include "decoding/hypothesis.h"
#include "models/seq2seq.h"
#include "runtime/context.h"

namespace sluice::training {

/// The tokens that greedy search answers to each source, as `sluice decode --beam 1` does: never
/// unknown, and no longer than SearchOptions allows. No source may be empty. Absent once `*stop` is
/// true (`stop` may be null). `watch` is told how the search gets on.
std::optional<std::vector<std::vector<std::int32_t>>> greedy_answers(
    const runtime::Context& context, const models::Seq2Seq& model,
    std::span<const std::vector<std::int32_t>> sources, const std::atomic<bool>* stop = nullptr,
    const base::Watch& watch = {});

/// The same with scores and attention.
std::vector<decoding::Hypothesis> greedy_hypotheses(
    const runtime::Context& context, const models::Seq2Seq& model,
    std::span<const std::vector<std::int32_t>> sources);

}  // namespace sluice::training
