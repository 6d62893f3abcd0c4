#include "training/greedy_answers.h"

#include <algorithm>

#include "data/batches.h"
#include "decoding/search.h"
#include "models/seq2seq_decoding.h"
#include "runtime/buffer.h"

namespace sluice::training {
namespace {

using runtime::DType;

// Inputs decoded at a time: enough for fast products, few enough to keep the memory small.
constexpr std::int64_t kInputs = 64;

/// Of each source; `use(i, hypothesis)` is given that of sources[i]. False once `*stop` is true.
template <typename Use>
bool search_greedily(const runtime::Context& context, const models::Seq2Seq& model,
                     std::span<const std::vector<std::int32_t>> sources, bool attention,
                     const std::atomic<bool>* stop, const base::Watch& watch, Use&& use) {
  std::vector<data::ExampleLengths> lengths;
  std::int64_t longest = 1;
  for (const std::vector<std::int32_t>& source : sources) {
    lengths.push_back({.source = static_cast<std::int64_t>(source.size())});
    longest = std::max(longest, lengths.back().source);
  }
  models::Seq2SeqDecoding decoder(context, model, {kInputs, longest, kInputs});
  decoding::SearchOptions greedy;
  greedy.beam = 1;
  greedy.attention = attention && model.config().attends();
  decoding::BeamSearch search(context, decoder, greedy, {kInputs, longest, DType::kFloat32});
  const std::size_t cells = static_cast<std::size_t>(kInputs * longest);
  const runtime::Buffer source_memory(context.device(), cells * sizeof(std::int32_t));
  const runtime::Buffer length_memory(context.device(), kInputs * sizeof(std::int32_t));
  const data::BatchOptions batches{.max_tokens = kInputs * longest, .max_rows = kInputs};
  base::WatchedItems watched(watch, "answering", std::ssize(sources));
  for (const data::BatchRows& rows : data::sorted_batches(lengths, batches)) {
    context.check_interrupt();
    if (stop != nullptr && *stop) return false;
    const data::SourceBatch batch = data::assemble_sources(sources, rows);
    const auto source = source_memory.tensor(DType::kInt32, {batch.source_time, batch.rows});
    const auto length = length_memory.tensor(DType::kInt32, {batch.rows});
    context.upload<std::int32_t>(source, batch.source);
    context.upload<std::int32_t>(length, batch.source_lengths);
    decoder.encode(context, source, length);
    auto found = decoding::fetch(context, search.run(context, batch.source_lengths));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      use(static_cast<std::size_t>(rows[r]), std::move(found[r].front()));
      watched.one_done();
    }
  }
  return true;
}

}  // namespace

std::optional<std::vector<std::vector<std::int32_t>>> greedy_answers(
    const runtime::Context& context, const models::Seq2Seq& model,
    std::span<const std::vector<std::int32_t>> sources, const std::atomic<bool>* stop,
    const base::Watch& watch) {
  std::vector<std::vector<std::int32_t>> answers(sources.size());
  const bool done = search_greedily(
      context, model, sources, false, stop, watch,
      [&](std::size_t i, decoding::Hypothesis found) { answers[i] = std::move(found.tokens); });
  if (!done) return std::nullopt;
  return answers;
}

std::vector<decoding::Hypothesis> greedy_hypotheses(
    const runtime::Context& context, const models::Seq2Seq& model,
    std::span<const std::vector<std::int32_t>> sources) {
  std::vector<decoding::Hypothesis> hypotheses(sources.size());
  search_greedily(
      context, model, sources, true, nullptr, {},
      [&](std::size_t i, decoding::Hypothesis found) { hypotheses[i] = std::move(found); });
  return hypotheses;
}

}  // namespace sluice::training
