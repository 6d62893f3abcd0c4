#include "sluice/sequence_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/loaded_model.h"
#include "base/largest.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "data/length_buckets.h"
#include "decoding/attention_view.h"
#include "decoding/search.h"
#include "models/seq2seq_decoding.h"
#include "models/seq2seq_training.h"
#include "profiling/session.h"
#include "runtime/span.h"
#include "training/batch_upload.h"
#include "training/plan_cache.h"
#include "training/threads.h"

namespace sluice {

using runtime::Tensor;

namespace {

// Tokens of one batch, padding counted: of sources to decode, of pairs to score.
constexpr std::int64_t kDecodeTokens = 8192;
constexpr std::int64_t kScoreTokens = 8192;
// Few inputs are one batch, so the first counts, though it is slower.
constexpr profiling::StepRange kProfiledBatches{1, 5};

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

decoding::SearchOptions search_options(const DecodeOptions& options) {
  decoding::SearchOptions search;
  search.beam = options.beam;
  search.nbest = options.nbest;
  search.length_penalty = options.length_penalty;
  search.min_length = options.min_length;
  search.max_length = options.max_length;
  search.attention = options.attention;
  search.validate();
  SLUICE_CHECK(options.batch >= 1, "batch is {}; it must be at least 1", options.batch);
  return search;
}

std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer,
                                   std::span<const std::int32_t> ids) {
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

}  // namespace

struct SequenceModel::State {
  State(const std::string& path_in, const Placement& placement)
      : path(path_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement)),
        loaded(training::load_model(context, path_in)) {
    api::require_kind(path, loaded, models::Seq2SeqConfig::kKind);
    training::use_threads(context, 0);
  }

  // Ids of each input; text that is not UTF-8 is refused with its line.
  static std::vector<std::vector<std::int32_t>> encode(std::span<const std::string> texts,
                                                       const data::Tokenizer& tokenizer);
  Hypothesis hypothesis(const decoding::Hypothesis& found) const;
  // The sources of one bucket; the answer to sources[i] goes to results[place[i]].
  // `batches` counts batches over all buckets.
  void decode(const data::LengthBucket& bucket, const decoding::SearchOptions& options,
              std::span<const std::vector<std::int32_t>> sources,
              std::span<const std::size_t> place, std::span<Decoded> results,
              std::int64_t& batches) const;
  // Bytes of the device that decoding takes with this many rows of a bucket at once.
  std::size_t decoding_bytes(std::int64_t rows, const data::LengthBucket& bucket,
                             const decoding::SearchOptions& options) const;
  // Says why a bucket doesn't fit and, if that is known, how many of its rows would.
  [[noreturn]] void refuse(const data::LengthBucket& bucket, std::size_t longest_input,
                           const decoding::SearchOptions& options, const Error& error) const;
  const models::Seq2Seq& model() const {
    return dynamic_cast<const models::Seq2Seq&>(*loaded.model);
  }
  const data::Tokenizer& source_tokenizer() const { return *loaded.tokenizers.source; }
  const data::Tokenizer& target_tokenizer() const { return *loaded.tokenizers.target; }

  std::string path;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  training::LoadedModel loaded;
};

std::vector<std::vector<std::int32_t>> SequenceModel::State::encode(
    std::span<const std::string> texts, const data::Tokenizer& tokenizer) {
  std::vector<std::vector<std::int32_t>> ids;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      ids.push_back(tokenizer.encode(texts[i]));
    } catch (const Error& error) {
      base::fail(error.code(), "input {}: {}", i + 1, error.what());
    }
  }
  return ids;
}

Hypothesis SequenceModel::State::hypothesis(const decoding::Hypothesis& found) const {
  Hypothesis hypothesis;
  hypothesis.text = target_tokenizer().decode(found.tokens);
  hypothesis.score = found.score;
  hypothesis.normalised_score = found.normalised_score;
  hypothesis.pieces = pieces_of(target_tokenizer(), found.tokens);
  hypothesis.attention = found.attention;
  return hypothesis;
}

void SequenceModel::State::decode(const data::LengthBucket& bucket,
                                  const decoding::SearchOptions& options,
                                  std::span<const std::vector<std::int32_t>> sources,
                                  std::span<const std::size_t> place, std::span<Decoded> results,
                                  std::int64_t& batches) const {
  models::Seq2SeqDecoding decoder(context, model(),
                                  {bucket.rows, bucket.source_time, bucket.rows * options.beam});
  decoding::BeamSearch search(context, decoder, options, {bucket.rows, bucket.source_time});
  const auto decode_batch = [&](const data::BatchRows& rows) {
    const data::SourceBatch batch = data::assemble_sources(sources, rows);
    Uploads uploads(context);
    decoder.encode(context, uploads.put(batch.source, {batch.source_time, batch.rows}),
                   uploads.put(batch.source_lengths, {batch.rows}));
    const auto found = decoding::fetch(context, search.run(context, batch.source_lengths));
    const runtime::Span span(context, "text", "of answers");
    for (std::size_t r = 0; r < rows.size(); ++r) {
      Decoded& result = results[place[static_cast<std::size_t>(rows[r])]];
      for (const auto& one : found[r]) result.hypotheses.push_back(hypothesis(one));
    }
  };
  for (const data::BatchRows& rows : bucket.batches) {
    runtime::run_step(context, "batch", ++batches, [&] { decode_batch(rows); });
  }
}

std::size_t SequenceModel::State::decoding_bytes(std::int64_t rows,
                                                 const data::LengthBucket& bucket,
                                                 const decoding::SearchOptions& options) const {
  return models::Seq2SeqDecoding::bytes(context, model(),
                                        {rows, bucket.source_time, rows * options.beam}) +
         decoding::BeamSearch::bytes(model().config().target_vocabulary, options,
                                     {rows, bucket.source_time});
}

void SequenceModel::State::refuse(const data::LengthBucket& bucket, std::size_t longest_input,
                                  const decoding::SearchOptions& options,
                                  const Error& error) const {
  const bool alone = bucket.rows == 1;
  const std::string what =
      alone ? fmt::format("input {} with its {} tokens doesn't", longest_input, bucket.source_time)
            : fmt::format("{} inputs of up to {} tokens (input {}) don't", bucket.rows,
                          bucket.source_time, longest_input);
  const std::size_t free = device->free_bytes();
  const std::int64_t fitting = base::largest_that_fits(bucket.rows, [&](std::int64_t rows) {
    return decoding_bytes(rows, bucket, options) <= free;
  });
  // Memory may be refused for other reasons than that there is none.
  const std::string room =
      fitting == bucket.rows
          ? ""
          : fmt::format("{} MiB are needed and {} free{}; ",
                        decoding_bytes(bucket.rows, bucket, options) >> 20, free >> 20,
                        fitting == 0 ? "" : fmt::format(", enough for {} at once", fitting));
  base::fail(
      ErrorCode::kOutOfMemory,
      "{} fit in memory with beam {} and {} tokens of answer: {}; {}{} a smaller beam or shorter "
      "answers",
      what, options.beam, options.max_length, error.what(), room,
      alone ? "split it, or take" : "decode fewer together (batch), or take");
}

SequenceModel::SequenceModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
SequenceModel::~SequenceModel() = default;
SequenceModel::SequenceModel(SequenceModel&&) noexcept = default;
SequenceModel& SequenceModel::operator=(SequenceModel&&) noexcept = default;

SequenceModel SequenceModel::load(const std::string& path, const Placement& placement) {
  return SequenceModel(std::make_unique<State>(path, placement));
}

std::vector<Decoded> SequenceModel::decode(std::span<const std::string> inputs,
                                           const DecodeOptions& options) {
  State& state = *state_;
  const decoding::SearchOptions search_for = search_options(options);
  profiling::Session profile(options.profile, profiling::print);
  profile.attach(state.context, kProfiledBatches);
  const auto ids = State::encode(inputs, state.source_tokenizer());
  std::vector<Decoded> results(inputs.size());
  // An empty input has nothing to attend to: its answer is empty.
  std::vector<std::vector<std::int32_t>> sources;
  std::vector<std::size_t> place;
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    results[i].source_pieces = pieces_of(state.source_tokenizer(), ids[i]);
    if (ids[i].empty()) {
      results[i].hypotheses.emplace_back();
      continue;
    }
    lengths.push_back(static_cast<std::int64_t>(ids[i].size()));
    sources.push_back(ids[i]);
    place.push_back(i);
  }
  std::int64_t batches = 0;
  for (const auto& bucket : data::length_buckets(lengths, options.batch, kDecodeTokens)) {
    try {
      state.decode(bucket, search_for, sources, place, results, batches);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      const auto longest = static_cast<std::size_t>(bucket.batches.front().front());
      state.refuse(bucket, place[longest] + 1, search_for, error);
    }
  }
  profile.finish();
  return results;
}

std::vector<Scored> SequenceModel::score(
    std::span<const std::pair<std::string, std::string>> pairs) {
  State& state = *state_;
  std::vector<std::string> sources, targets;
  for (const auto& [source, target] : pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  const data::PairCorpus corpus{State::encode(sources, state.source_tokenizer()),
                                State::encode(targets, state.target_tokenizer())};
  std::vector<Scored> results(pairs.size());
  if (pairs.empty()) return results;

  const auto lengths = corpus.lengths();
  data::BatchOptions options{.max_tokens = kScoreTokens, .max_rows = 256, .pool = 1};
  for (const auto& length : lengths) {
    options.max_tokens = std::max(options.max_tokens, length.source + length.target);
  }
  training::PlanCache plans(*state.loaded.model);
  training::BatchUpload uploads;
  for (const data::BatchRows& rows : data::sorted_batches(lengths, options)) {
    const data::Batch pair_batch = corpus.assemble(rows);
    const models::Batch batch = uploads.upload(state.context, pair_batch);
    auto& plan =
        dynamic_cast<models::Seq2SeqTraining&>(plans.plan(state.context, batch.extent, false));
    const std::vector<double> scores =
        state.context.download<double>(plan.score(state.context, plans.arena(), batch));
    for (std::size_t n = 0; n < scores.size(); ++n) {
      results[static_cast<std::size_t>(rows[n % rows.size()])].log_probability += scores[n];
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      results[static_cast<std::size_t>(rows[r])].tokens = pair_batch.target_lengths[r];
    }
  }
  return results;
}

ModelInfo SequenceModel::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

std::string attention_svg(const Decoded& decoded, std::size_t hypothesis) {
  SLUICE_CHECK(hypothesis < decoded.hypotheses.size(), "there is no hypothesis {}; there are {}",
               hypothesis, decoded.hypotheses.size());
  const Hypothesis& drawn = decoded.hypotheses[hypothesis];
  return decoding::attention_svg({decoded.source_pieces, drawn.pieces, drawn.attention});
}

}  // namespace sluice
