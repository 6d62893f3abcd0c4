#include "api/text_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "api/batch_size.h"
#include "api/wording.h"
#include "base/check.h"

namespace sluice::api {
namespace {

using decoding::Hypothesis;
using decoding::Sampling;
using models::LanguageModelDecoding;

// All texts are in memory until they are written.
constexpr std::int64_t kMostSamples = 100'000'000;
constexpr std::int64_t kUsualBatch = 256;

void check(const GenerateOptions& options, const TextStates& states) {
  const bool streams = states.from || states.to;
  SLUICE_CHECK(!options.search || !streams,
               "what a search finds has ended, so it has no state to save or to go on from");
  SLUICE_CHECK(
      !options.search || !options.sample.without_replacement,
      "a search draws nothing, so it can't draw without replacement; leave out one of both");
  SLUICE_CHECK(!streams || (options.banned.empty() && options.no_repeat == 0),
               "texts that continue from a state, or are to, take no banned words and no "
               "no_repeat, for a state doesn't hold their tokens");
  SLUICE_CHECK(!streams || !options.sample.without_replacement,
               "what is drawn without replacement has ended, so it has no state to save or to go "
               "on from");
  SLUICE_CHECK(!states.from || options.prefix.empty(),
               "texts that go on from a state have begun, so they can't be given a prefix");
  SLUICE_CHECK(!states.from || options.features.values.empty(),
               "texts that go on from a state have begun, so they can't be given features");
  SLUICE_CHECK(options.sample.samples >= 1 && options.sample.samples <= kMostSamples,
               "samples is {}; it must be in 1..{}", options.sample.samples, kMostSamples);
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

}  // namespace

void require_features(const models::LanguageModelConfig& config, const FeatureVectors& features) {
  SLUICE_CHECK(config.features > 0 || features.values.empty(),
               "the model was trained without features, so its texts can't be given any");
  SLUICE_CHECK(
      config.features == features.width,
      "the model's texts begin from vectors of {} features, but {}", config.features,
      features.width == 0 ? "none are given" : fmt::format("those given have {}", features.width));
  if (features.width == 0) return;
  SLUICE_CHECK(!features.values.empty() && std::ssize(features.values) % features.width == 0,
               "{} numbers make no vectors of {} features", features.values.size(), features.width);
  const auto wrong =
      std::ranges::find_if_not(features.values, [](float v) { return std::isfinite(v); });
  SLUICE_CHECK(wrong == features.values.end(), "number {} of the features is {}",
               wrong - features.values.begin(), *wrong);
}

/// Follows texts of as many inputs as its capacity says; kept from call to call.
struct TextGeneration::Plan {
  Plan(const runtime::Context& context, const models::LanguageModel& model,
       const AnswerOptions& options, const decoding::SearchCapacity& capacity,
       runtime::ArenaPlanner& planner, const runtime::Arena& arena_in)
      : arena(arena_in),
        decoding(context, model, {capacity.inputs, capacity.inputs * rows_of_input(options), 0},
                 planner, arena_in),
        search(decoding, options, capacity, planner, arena_in),
        features(
            planner.saved(runtime::DType::kFloat32, {capacity.inputs, model.config().features})) {}

  const runtime::Arena& arena;
  LanguageModelDecoding decoding;
  AnswerSearch search;
  runtime::Slot features;
};

TextGeneration::TextGeneration(const runtime::Context& context, const models::LanguageModel& model,
                               KeptPlans& kept, const GenerateOptions& options, TextStates states,
                               Texts texts)
    : context_(context),
      model_(model),
      kept_(kept),
      options_(options),
      batch_(batch_size(options.batch, kUsualBatch)),
      states_(std::move(states)),
      texts_(std::move(texts)) {
  check(options, states_);
  if (!states_.from) require_features(model.config(), options.features);
}

std::int64_t TextGeneration::vectors() const {
  const FeatureVectors& features = options_.features;
  return features.width == 0 ? 1 : std::ssize(features.values) / features.width;
}

// From zero states, or from those that the vectors make. Of texts that have begun the vectors are
// unknown and their states come later.
void TextGeneration::begin(Plan& plan, std::int64_t first, std::int64_t count,
                           std::int64_t texts) const {
  const std::int64_t width = model_.config().features;
  std::vector<float> values(static_cast<std::size_t>(count * width));
  for (std::int64_t i = 0; i < count && !states_.from; ++i) {
    std::copy_n(options_.features.values.begin() + (first + i) / texts * width, width,
                values.begin() + i * width);
  }
  LanguageModelDecoding::Inputs from;
  from.count = count;
  if (width > 0) {
    from.features = plan.arena.tensor(plan.features, runtime::DType::kFloat32, {count, width});
    context_.upload<float>(from.features, values);
  }
  plan.decoding.encode(context_, from);
}

TextGeneration::Plan& TextGeneration::plan_for(std::int64_t inputs, const AnswerOptions& options) {
  const decoding::ForcedSize forced = decoding::size_of({&texts_.forced, 1});
  const decoding::SearchCapacity capacity{
      .inputs = runtime::round_to_few(inputs),
      .prefix_time = runtime::round_to_few(std::ssize(texts_.prefix)),
      .phrases = runtime::round_to_few(forced.phrases),
      .phrase_time = runtime::round_to_few(forced.time)};
  const std::string key =
      fmt::format("generate {} {} {} {} {}", capacity.inputs, capacity.prefix_time,
                  capacity.phrases, capacity.phrase_time, key_of(options));
  Plan& plan = kept_.store.plan<Plan>(context_, key, [&](runtime::ArenaPlanner& planner) {
    return std::make_unique<Plan>(context_, model_, options, capacity, planner,
                                  kept_.store.arena());
  });
  plan.decoding.pack(context_);
  plan.search.set_seed(options);
  return plan;
}

std::vector<Hypothesis> TextGeneration::run() {
  std::vector<Hypothesis> texts;
  kept_.call([&] {
    kept_.store.with_room([&] {
      inputs_ = 0;  // an attempt that found no memory may have counted some
      without_.clear();
      texts = generate();
    });
  });
  const bool searches = options_.search || options_.sample.without_replacement;
  warn_of_no_answer(context_.warnings(), without_, inputs_,
                    searches && options_.features.width > 0 ? "vector" : "text");
  return texts;
}

void TextGeneration::append(std::vector<Hypothesis>& texts,
                            std::vector<std::vector<Hypothesis>> of_inputs, std::int64_t wanted) {
  Hypothesis missing;
  missing.score = missing.normalised_score = -std::numeric_limits<double>::infinity();
  missing.ended = false;
  for (auto& found : of_inputs) {
    if (found.empty()) without_.push_back(inputs_);
    ++inputs_;
    if (options_.features.width > 0) found.resize(static_cast<std::size_t>(wanted), missing);
    std::move(found.begin(), found.end(), std::back_inserter(texts));
  }
}

std::vector<Hypothesis> TextGeneration::generate() {
  if (options_.search || options_.sample.without_replacement) return search();
  return states_.from ? resume(states_.from()) : draw();
}

decoding::SearchOptions TextGeneration::search_options() const {
  decoding::SearchOptions options;
  if (options_.search) {
    options.beam = options_.search->beam;
    options.nbest = options_.search->nbest;
    options.length_penalty = options_.search->length_penalty;
    options.groups = options_.search->groups;
    options.diversity = options_.search->diversity;
  } else {
    options = search_without_replacement(options_.sample);
  }
  options.constraints = texts_.constraints;
  set_lengths(options, options_);
  return options;
}

std::vector<Hypothesis> TextGeneration::search() {
  const decoding::SearchOptions options = search_options();
  require_room(texts_.forced, texts_.prefix,
               std::max(options.max_length, std::ssize(texts_.prefix)), "");
  const std::int64_t batch = std::min(batch_, vectors());
  Plan& plan = plan_for(batch, options);
  std::vector<Hypothesis> texts;
  for (std::int64_t first = 0; first < vectors(); first += batch) {
    const std::int64_t count = std::min(batch, vectors() - first);
    const std::vector<std::vector<std::int32_t>> prefixes(static_cast<std::size_t>(count),
                                                          texts_.prefix);
    const std::vector<decoding::TokenSequences> forced(static_cast<std::size_t>(count),
                                                       texts_.forced);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(first));
    run_batch([&] {
      begin(plan, first, count, 1);
      append(texts, plan.search.run(context_, no_sources(count), ids, prefixes, forced),
             options.nbest);
    });
  }
  return texts;
}

decoding::SamplingOptions TextGeneration::sampling_options() const {
  decoding::SamplingOptions options;
  options.temperature = options_.sample.temperature;
  options.top_k = options_.sample.top_k;
  options.top_p = options_.sample.top_p;
  options.seed = options_.sample.seed;
  options.force_end = false;
  options.constraints = texts_.constraints;
  set_lengths(options, options_);
  return options;
}

std::vector<Hypothesis> TextGeneration::draw() {
  // One state is of one batch.
  const std::int64_t samples = options_.sample.samples * vectors();
  const std::int64_t batch = states_.to ? samples : std::min(batch_, samples);
  Plan& plan = plan_for(batch, sampling_options());
  std::vector<Hypothesis> texts;
  for (std::int64_t first = 0; first < samples; first += batch) {
    const std::int64_t count = std::min(batch, samples - first);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(first));
    const std::vector<std::vector<std::int32_t>> prefixes(ids.size(), texts_.prefix);
    run_batch([&] {
      begin(plan, first, count, options_.sample.samples);
      append(texts, plan.search.run(context_, no_sources(count), ids, prefixes), 1);
    });
  }
  keep(plan.search.sampling());
  return texts;
}

std::vector<Hypothesis> TextGeneration::resume(const decoding::StreamState& state) {
  const auto count = static_cast<std::int64_t>(state.input_ids.size());
  decoding::SamplingOptions options = sampling_options();
  options.seed = state.seed;
  Plan& plan = plan_for(count, options);
  Sampling& sampling = plan.search.sampling();
  std::vector<Hypothesis> texts;
  run_batch([&] {
    begin(plan, 0, count, 1);
    append(texts, fetch(context_, sampling.resume(context_, no_sources(count), state)), 1);
  });
  keep(sampling);
  return texts;
}

void TextGeneration::keep(const Sampling& sampling) const {
  if (states_.to) states_.to(sampling.stream_state(context_));
}

}  // namespace sluice::api
