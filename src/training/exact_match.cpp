#include "training/exact_match.h"

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

std::vector<data::BatchRows> batches_of(const data::PairCorpus& corpus) {
  std::vector<data::ExampleLengths> lengths = data::lengths_of(corpus);
  std::int64_t longest = 1;
  for (data::ExampleLengths& own : lengths) {
    own.target = 0;
    longest = std::max(longest, own.source);
  }
  return data::sorted_batches(lengths,
                              {.max_tokens = kInputs * (longest + 1), .max_rows = kInputs});
}

std::int64_t longest(const std::vector<std::vector<std::int32_t>>& sequences) {
  std::size_t most = 1;
  for (const auto& sequence : sequences) most = std::max(most, sequence.size());
  return static_cast<std::int64_t>(most);
}

/// No longer than the longest target can be right.
decoding::SearchOptions greedy(std::int64_t longest_target) {
  decoding::SearchOptions options;
  options.beam = 1;
  options.max_length = longest_target + 1;
  options.max_length_factor = 0;
  options.max_length_offset = longest_target + 1;
  options.allow_unknown = true;
  return options;
}

}  // namespace

double exact_match(const runtime::Context& context, const models::Seq2Seq& model,
                   const data::PairCorpus& corpus, const std::atomic<bool>* stop) {
  const std::int64_t source_time = longest(corpus.source);
  models::Seq2SeqDecoding decoder(context, model, {kInputs, source_time, kInputs});
  decoding::BeamSearch search(context, decoder, greedy(longest(corpus.target)),
                              {kInputs, source_time, DType::kFloat32});
  const std::size_t cells = static_cast<std::size_t>(kInputs * source_time);
  const runtime::Buffer source_memory(context.device(), cells * sizeof(std::int32_t));
  const runtime::Buffer length_memory(context.device(), kInputs * sizeof(std::int32_t));
  std::int64_t right = 0;
  for (const data::BatchRows& rows : batches_of(corpus)) {
    if (stop != nullptr && *stop) break;
    const data::SourceBatch batch = data::assemble_sources(corpus.source, rows);
    const auto source = source_memory.tensor(DType::kInt32, {batch.source_time, batch.rows});
    const auto lengths = length_memory.tensor(DType::kInt32, {batch.rows});
    context.upload<std::int32_t>(source, batch.source);
    context.upload<std::int32_t>(lengths, batch.source_lengths);
    decoder.encode(context, source, lengths);
    const auto found = search.fetch(context, search.run(context, batch.source_lengths));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto& target = corpus.target[static_cast<std::size_t>(rows[r])];
      right += !found[r].empty() && found[r].front().tokens == target ? 1 : 0;
    }
  }
  return static_cast<double>(right) / static_cast<double>(corpus.size());
}

}  // namespace sluice::training
