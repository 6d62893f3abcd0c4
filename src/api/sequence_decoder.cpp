#include "api/sequence_decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/batch_size.h"
#include "api/wording.h"
#include "base/check.h"
#include "base/counted.h"
#include "base/largest.h"
#include "data/batches.h"
#include "models/seq2seq_decoding.h"
#include "runtime/span.h"

namespace sluice::api {
namespace {

using runtime::DType;
using runtime::Tensor;

// Tokens of one batch of sources, padding counted.
constexpr std::int64_t kBatchTokens = 8192;
constexpr std::int64_t kUsualBatch = 32;

// Shorter sources share a plan.
constexpr std::int64_t kShort = 8;

}  // namespace

/// Decodes and searches at one capacity; kept from call to call.
struct SequenceDecoder::Plan {
  Plan(const runtime::Context& context, const models::Seq2Seq& model, const AnswerOptions& answers,
       const decoding::SearchCapacity& capacity_in, runtime::ArenaPlanner& planner,
       const runtime::Arena& arena_in)
      : capacity(capacity_in),
        arena(arena_in),
        decoder(context, model, decoder_capacity(answers, capacity), planner, arena_in),
        search(decoder, answers, capacity, planner, arena_in),
        source(planner.saved(DType::kInt32, {capacity.source_time, capacity.inputs})),
        lengths(planner.saved(DType::kInt32, {capacity.inputs})) {}

  static models::Seq2SeqDecoding::Capacity decoder_capacity(
      const AnswerOptions& answers, const decoding::SearchCapacity& capacity) {
    return {capacity.inputs, capacity.source_time, capacity.inputs * rows_of_input(answers)};
  }
  void encode(const runtime::Context& context, data::SourceBatch batch);

  decoding::SearchCapacity capacity;
  const runtime::Arena& arena;
  models::Seq2SeqDecoding decoder;
  AnswerSearch search;
  runtime::Slot source, lengths;
};

void SequenceDecoder::Plan::encode(const runtime::Context& context, data::SourceBatch batch) {
  // Steps that are captured serve later sources if these have the same extent.
  if (context.stream().can_capture()) {
    batch.source_time = capacity.source_time;
    batch.source.resize(static_cast<std::size_t>(batch.source_time * batch.rows), data::kPadId);
  }
  const Tensor tokens = arena.tensor(source, DType::kInt32, {batch.source_time, batch.rows});
  const Tensor token_counts = arena.tensor(lengths, DType::kInt32, {batch.rows});
  {
    const runtime::Span span(context, "data", "upload");
    context.upload<std::int32_t>(tokens, batch.source);
    context.upload<std::int32_t>(token_counts, batch.source_lengths);
  }
  decoder.encode(context, tokens, token_counts);
}

SequenceDecoder::SequenceDecoder(const runtime::Context& context,
                                 const model_files::LoadedModel& loaded, KeptPlans& kept,
                                 const DecodeOptions& options)
    : context_(context),
      loaded_(loaded),
      model_(dynamic_cast<const models::Seq2Seq&>(*loaded.model)),
      kept_(kept),
      options_(options),
      batch_(batch_size(options.batch, kUsualBatch)),
      constraints_(tokenize_banned(options.banned, options.no_repeat, *loaded.tokenizers.target)),
      answers_(answer_options(options, constraints_)) {
  if (model_.config().attends()) return;
  SLUICE_CHECK(!options.attention,
               "this model was made with model.attention = \"none\", so there is no attention to "
               "show; ask for none");
  SLUICE_CHECK(
      options.coverage_penalty == 0,
      "coverage_penalty is {}, but this model was made with model.attention = \"none\", so "
      "it covers nothing; take 0",
      options.coverage_penalty);
}

std::vector<Decoded> SequenceDecoder::decode(std::span<const std::string> inputs) {
  Work work = work_of(inputs);
  kept_.call([&] {
    for (const auto& bucket : data::length_buckets(work.lengths, batch_, kBatchTokens)) {
      try {
        kept_.store.with_room([&] { decode(bucket, work); });
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
        refuse(bucket, work, error);
      }
    }
  });
  std::vector<std::size_t> without;
  for (const std::size_t place : work.place) {
    if (work.results[place].hypotheses.empty()) without.push_back(place);
  }
  warn_of_no_answer(context_.warnings(), without, inputs.size());
  return std::move(work.results);
}

decoding::TokenSequences SequenceDecoder::forced_of(std::size_t i,
                                                    const std::vector<std::int32_t>& source,
                                                    const std::vector<std::int32_t>& prefix) const {
  const std::string whose = fmt::format(" of input {}", i + 1);
  auto forced =
      tokenize_forced(options_.forced[i], whose, *loaded_.tokenizers.target, constraints_);
  const auto& limits = std::get<decoding::SearchOptions>(answers_);
  const std::int64_t most = limits.max_length_for(std::ssize(source));
  require_room(forced, prefix, std::max(most, std::ssize(prefix)), whose);
  return forced;
}

SequenceDecoder::Work SequenceDecoder::work_of(std::span<const std::string> inputs) const {
  const data::Tokenizer& tokenizer = *loaded_.tokenizers.source;
  const TokenIds ids = tokenize(inputs, tokenizer);
  warn_of_unknown(context_.warnings(), ids, tokenizer);
  const TokenIds prefixes = tokenize_prefixes(options_.prefixes, inputs.size(),
                                              *loaded_.tokenizers.target, options_.max_length);
  SLUICE_CHECK(options_.forced.empty() || options_.forced.size() == inputs.size(),
               "forced words are given for {}, not for {}; give none, or some for each",
               base::counted(options_.forced.size(), "input"), inputs.size());
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
    if (!options_.forced.empty()) {
      work.forced.push_back(
          forced_of(i, ids[i], prefixes.empty() ? std::vector<std::int32_t>{} : prefixes[i]));
    }
    work.place.push_back(i);
  }
  return work;
}

decoding::SearchCapacity SequenceDecoder::capacity_for(std::int64_t rows,
                                                       const data::LengthBucket& bucket,
                                                       const Work& work) {
  const decoding::ForcedSize forced = decoding::size_of(work.forced);
  return {.inputs = runtime::round_to_few(rows),
          .source_time = runtime::round_to_few(std::max(bucket.source_time, kShort)),
          .prefix_time = runtime::round_to_few(decoding::longest(work.prefixes)),
          .phrases = runtime::round_to_few(forced.phrases),
          .phrase_time = runtime::round_to_few(forced.time)};
}

SequenceDecoder::Plan& SequenceDecoder::plan_for(const decoding::SearchCapacity& capacity) {
  const std::string key =
      fmt::format("decode {} {} {} {} {} {}", capacity.inputs, capacity.source_time,
                  capacity.prefix_time, capacity.phrases, capacity.phrase_time, key_of(answers_));
  Plan& plan = kept_.store.plan<Plan>(context_, key, [&](runtime::ArenaPlanner& planner) {
    return std::make_unique<Plan>(context_, model_, answers_, capacity, planner,
                                  kept_.store.arena());
  });
  plan.decoder.pack(context_);
  plan.search.set_seed(answers_);
  return plan;
}

void SequenceDecoder::decode(const data::LengthBucket& bucket, Work& work) {
  Plan& plan = plan_for(capacity_for(bucket.rows, bucket, work));
  for (const data::BatchRows& rows : bucket.batches) {
    runtime::run_step(context_, "batch", ++batches_, [&] { decode(rows, plan, work); });
  }
}

void SequenceDecoder::decode(const data::BatchRows& rows, Plan& plan, Work& work) {
  const data::SourceBatch batch = data::assemble_sources(work.sources, rows);
  plan.encode(context_, batch);
  std::vector<std::int32_t> ids;
  TokenIds prefixes;
  std::vector<decoding::TokenSequences> forced;
  for (const auto row : rows) {
    const auto at = static_cast<std::size_t>(row);
    ids.push_back(static_cast<std::int32_t>(work.place[at]));
    if (!work.prefixes.empty()) prefixes.push_back(work.prefixes[at]);
    if (!work.forced.empty()) forced.push_back(work.forced[at]);
  }
  const auto found = plan.search.run(context_, batch.source_lengths, ids, prefixes, forced);
  const runtime::Span span(context_, "text", "of answers");
  const data::Tokenizer& tokenizer = *loaded_.tokenizers.target;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Decoded& result = work.results[work.place[static_cast<std::size_t>(rows[r])]];
    result.hypotheses.clear();  // of a run that found no memory
    for (const auto& one : found[r]) result.hypotheses.push_back(hypothesis_of(tokenizer, one));
  }
}

std::size_t SequenceDecoder::bytes(std::int64_t rows, const data::LengthBucket& bucket,
                                   const Work& work) const {
  const decoding::SearchCapacity capacity = capacity_for(rows, bucket, work);
  return models::Seq2SeqDecoding::bytes(context_, model_,
                                        Plan::decoder_capacity(answers_, capacity)) +
         AnswerSearch::bytes(model_.config().target_vocabulary, answers_, capacity);
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
