#include "api/sequence_decoder.h"

#include <fmt/format.h>

#include "api/batch_size.h"
#include "base/counted.h"
#include "base/largest.h"
#include "data/batches.h"
#include "models/seq2seq_decoding.h"
#include "runtime/span.h"

namespace sluice::api {
namespace {

using runtime::Tensor;

// Tokens of one batch of sources, padding counted.
constexpr std::int64_t kBatchTokens = 8192;
constexpr std::int64_t kUsualBatch = 32;

// Device copies of int32 arrays of a batch; kept until the batch is done.
class Uploads {
 public:
  explicit Uploads(const runtime::Context& context) : context_(context) {}

  Tensor put(const std::vector<std::int32_t>& values, const base::Shape& shape) {
    buffers_.emplace_back(context_.device(), values.size() * sizeof(std::int32_t));
    const Tensor tensor = buffers_.back().tensor(base::DType::kInt32, shape);
    const runtime::Span span(context_, "data", "upload");
    context_.upload<std::int32_t>(tensor, values);
    return tensor;
  }

 private:
  const runtime::Context& context_;
  std::vector<runtime::Buffer> buffers_;
};

}  // namespace

SequenceDecoder::SequenceDecoder(const runtime::Context& context,
                                 const model_files::LoadedModel& loaded,
                                 const DecodeOptions& options)
    : context_(context),
      loaded_(loaded),
      model_(dynamic_cast<const models::Seq2Seq&>(*loaded.model)),
      options_(options),
      batch_(batch_size(options.batch, kUsualBatch)),
      answers_(answer_options(options)) {}

std::vector<Decoded> SequenceDecoder::decode(std::span<const std::string> inputs) {
  Work work = work_of(inputs);
  for (const auto& bucket : data::length_buckets(work.lengths, batch_, kBatchTokens)) {
    try {
      decode(bucket, work);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      refuse(bucket, work, error);
    }
  }
  return std::move(work.results);
}

SequenceDecoder::Work SequenceDecoder::work_of(std::span<const std::string> inputs) const {
  const data::Tokenizer& tokenizer = *loaded_.tokenizers.source;
  const TokenIds ids = tokenize(inputs, tokenizer);
  warn_of_unknown(context_.warnings(), ids, tokenizer);
  const TokenIds prefixes = tokenize_prefixes(options_.prefixes, inputs.size(),
                                              *loaded_.tokenizers.target, options_.max_length);
  Work work;
  work.results.resize(inputs.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    work.results[i].source_pieces = pieces_of(tokenizer, ids[i]);
    if (ids[i].empty()) {
      // An empty input has nothing to attend to: its answer is empty.
      work.results[i].hypotheses.emplace_back();
      continue;
    }
    work.lengths.push_back(static_cast<std::int64_t>(ids[i].size()));
    work.sources.push_back(ids[i]);
    if (!prefixes.empty()) work.prefixes.push_back(prefixes[i]);
    work.place.push_back(i);
  }
  return work;
}

decoding::SearchCapacity SequenceDecoder::capacity_for(std::int64_t rows,
                                                       const data::LengthBucket& bucket,
                                                       const Work& work) const {
  return {.inputs = rows,
          .source_time = bucket.source_time,
          .prefix_time = decoding::longest(work.prefixes)};
}

void SequenceDecoder::decode(const data::LengthBucket& bucket, Work& work) {
  models::Seq2SeqDecoding decoder(
      context_, model_, {bucket.rows, bucket.source_time, bucket.rows * rows_of_input(answers_)});
  AnswerSearch search(context_, decoder, answers_, capacity_for(bucket.rows, bucket, work));
  const auto decode_batch = [&](const data::BatchRows& rows) {
    const data::SourceBatch batch = data::assemble_sources(work.sources, rows);
    Uploads uploads(context_);
    decoder.encode(context_, uploads.put(batch.source, {batch.source_time, batch.rows}),
                   uploads.put(batch.source_lengths, {batch.rows}));
    std::vector<std::int32_t> ids;
    TokenIds prefixes;
    for (const auto row : rows) {
      const auto at = static_cast<std::size_t>(row);
      ids.push_back(static_cast<std::int32_t>(work.place[at]));
      if (!work.prefixes.empty()) prefixes.push_back(work.prefixes[at]);
    }
    const auto found = search.run(context_, batch.source_lengths, ids, prefixes);
    const runtime::Span span(context_, "text", "of answers");
    const data::Tokenizer& tokenizer = *loaded_.tokenizers.target;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      Decoded& result = work.results[work.place[static_cast<std::size_t>(rows[r])]];
      for (const auto& one : found[r]) result.hypotheses.push_back(hypothesis_of(tokenizer, one));
    }
  };
  for (const data::BatchRows& rows : bucket.batches) {
    runtime::run_step(context_, "batch", ++batches_, [&] { decode_batch(rows); });
  }
}

std::size_t SequenceDecoder::bytes(std::int64_t rows, const data::LengthBucket& bucket,
                                   const Work& work) const {
  return models::Seq2SeqDecoding::bytes(
             context_, model_, {rows, bucket.source_time, rows * rows_of_input(answers_)}) +
         AnswerSearch::bytes(model_.config().target_vocabulary, answers_,
                             capacity_for(rows, bucket, work));
}

void SequenceDecoder::refuse(const data::LengthBucket& bucket, const Work& work,
                             const Error& error) const {
  const std::size_t longest_input =
      work.place[static_cast<std::size_t>(bucket.batches.front().front())] + 1;
  const bool alone = bucket.rows == 1;
  const std::string what =
      alone ? fmt::format("input {} with its {} doesn't", longest_input,
                          base::counted(bucket.source_time, "token"))
            : fmt::format("{} inputs of up to {} (input {}) don't", bucket.rows,
                          base::counted(bucket.source_time, "token"), longest_input);
  const std::size_t free = context_.device().free_bytes();
  const std::int64_t fitting = base::largest_that_fits(
      bucket.rows, [&](std::int64_t rows) { return bytes(rows, bucket, work) <= free; });
  // Memory may be refused for other reasons than that there is none.
  const std::string room =
      fitting == bucket.rows
          ? ""
          : fmt::format("{} MiB are needed and {} free{}; ", bytes(bucket.rows, bucket, work) >> 20,
                        free >> 20,
                        fitting == 0 ? "" : fmt::format(", enough for {} at once", fitting));
  base::fail(ErrorCode::kOutOfMemory,
             "{} fit in memory with {} and {} tokens of answer: {}; {}{} {} or shorter answers",
             what, describe(answers_), options_.max_length, error.what(), room,
             alone ? "split it, or take" : "decode fewer together (batch), or take",
             options_.sample ? "fewer samples" : "a smaller beam");
}

}  // namespace sluice::api
