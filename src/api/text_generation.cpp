#include "api/text_generation.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"
#include "models/language_model_decoding.h"

namespace sluice::api {
namespace {

using decoding::BeamSearch;
using decoding::Hypothesis;
using decoding::Sampling;
using models::LanguageModelDecoding;

void check(const GenerateOptions& options) {
  const bool streams = !options.state.empty() || !options.save_state.empty();
  SLUICE_CHECK(!options.search || !streams,
               "what a search finds has ended, so it has no state to save or to go on from");
  SLUICE_CHECK(options.state.empty() || options.prefix.empty(),
               "texts that go on from a state have begun, so they can't be given a prefix");
  SLUICE_CHECK(options.batch >= 1, "batch is {}; it must be at least 1", options.batch);
  SLUICE_CHECK(options.sample.samples >= 1, "samples is {}; it must be at least 1",
               options.sample.samples);
}

template <typename Options>
void set_lengths(Options& options, const GenerateOptions& from) {
  options.min_length = from.min_length;
  options.max_length = options.max_length_offset = from.max_length;
  options.max_length_factor = 0;
  options.validate();
}

/// Every text is an input without tokens.
std::vector<std::int32_t> no_sources(std::int64_t inputs) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(inputs));
}

/// Texts begin from zero states.
void begin(const runtime::Context& context, LanguageModelDecoding& decoding, std::int64_t inputs) {
  LanguageModelDecoding::Inputs from;
  from.count = inputs;
  decoding.encode(context, from);
}

std::vector<Hypothesis> joined(std::vector<std::vector<Hypothesis>> of_inputs) {
  std::vector<Hypothesis> all;
  for (auto& found : of_inputs) std::move(found.begin(), found.end(), std::back_inserter(all));
  return all;
}

}  // namespace

TextGeneration::TextGeneration(const runtime::Context& context, const models::LanguageModel& model,
                               const GenerateOptions& options, std::vector<std::int32_t> prefix)
    : context_(context), model_(model), options_(options), prefix_(std::move(prefix)) {
  check(options);
}

std::vector<Hypothesis> TextGeneration::run() {
  if (options_.search) return search();
  if (options_.state.empty()) return draw();
  return resume(decoding::load_stream(options_.state, decoding::identity_of(context_, model_)));
}

std::vector<Hypothesis> TextGeneration::search() {
  decoding::SearchOptions options;
  options.beam = options_.search->beam;
  options.nbest = options_.search->nbest;
  options.length_penalty = options_.search->length_penalty;
  set_lengths(options, options_);
  LanguageModelDecoding decoding(context_, model_, {1, options.beam, 0});
  begin(context_, decoding, 1);
  BeamSearch search(context_, decoding, options,
                    {.inputs = 1, .prefix_time = static_cast<std::int64_t>(prefix_.size())});
  const std::vector<std::vector<std::int32_t>> prefixes(1, prefix_);
  return joined(fetch(context_, search.run(context_, no_sources(1), prefixes)));
}

decoding::SamplingOptions TextGeneration::sampling_options() const {
  decoding::SamplingOptions options;
  options.temperature = options_.sample.temperature;
  options.top_k = options_.sample.top_k;
  options.top_p = options_.sample.top_p;
  options.seed = options_.sample.seed;
  options.force_end = false;
  set_lengths(options, options_);
  return options;
}

std::vector<Hypothesis> TextGeneration::draw() {
  // One state is of one batch.
  const std::int64_t samples = options_.sample.samples;
  const std::int64_t batch = options_.save_state.empty() ? options_.batch : samples;
  std::vector<Hypothesis> texts;
  for (std::int64_t first = 0; first < samples; first += batch) {
    auto some = draw(first, std::min(batch, samples - first));
    std::move(some.begin(), some.end(), std::back_inserter(texts));
  }
  return texts;
}

std::vector<Hypothesis> TextGeneration::draw(std::int64_t first, std::int64_t count) {
  LanguageModelDecoding decoding(context_, model_, {count, count, 0});
  begin(context_, decoding, count);
  Sampling sampling(context_, decoding, sampling_options(),
                    {.inputs = count, .prefix_time = static_cast<std::int64_t>(prefix_.size())});
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(first));
  const std::vector<std::vector<std::int32_t>> prefixes(ids.size(), prefix_);
  auto found = fetch(context_, sampling.run(context_, no_sources(count), ids, prefixes));
  keep(sampling);
  return joined(std::move(found));
}

std::vector<Hypothesis> TextGeneration::resume(const decoding::StreamState& state) {
  const auto count = static_cast<std::int64_t>(state.input_ids.size());
  decoding::SamplingOptions options = sampling_options();
  options.seed = state.seed;
  LanguageModelDecoding decoding(context_, model_, {count, count, 0});
  begin(context_, decoding, count);
  Sampling sampling(context_, decoding, options, {.inputs = count});
  auto found = fetch(context_, sampling.resume(context_, no_sources(count), state));
  keep(sampling);
  return joined(std::move(found));
}

void TextGeneration::keep(const Sampling& sampling) const {
  if (options_.save_state.empty()) return;
  save_stream(options_.save_state, sampling.stream_state(context_),
              decoding::identity_of(context_, model_));
}

}  // namespace sluice::api
