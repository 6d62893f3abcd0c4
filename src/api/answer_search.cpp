#include "api/answer_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/tokenize.h"
#include "base/check.h"
#include "base/counted.h"
#include "decoding/option_checks.h"

namespace sluice::api {
namespace {

using decoding::BeamSearch;
using decoding::Sampling;
using decoding::SamplingOptions;
using decoding::SearchOptions;

SamplingOptions sampling_options(const DecodeOptions& options) {
  SamplingOptions sampling;
  sampling.samples = options.sample->samples;
  sampling.temperature = options.sample->temperature;
  sampling.top_k = options.sample->top_k;
  sampling.top_p = options.sample->top_p;
  sampling.seed = options.sample->seed;
  return sampling;
}

SearchOptions search_options(const DecodeOptions& options) {
  SearchOptions search;
  search.beam = options.beam;
  search.nbest = options.nbest;
  search.length_penalty = options.length_penalty;
  search.coverage_penalty = options.coverage_penalty;
  search.groups = options.groups;
  search.diversity = options.diversity;
  return search;
}

AnswerOptions of_kind(const DecodeOptions& options) {
  if (!options.sample) return search_options(options);
  if (options.sample->without_replacement) return search_without_replacement(*options.sample);
  return sampling_options(options);
}

}  // namespace

SearchOptions search_without_replacement(const SampleOptions& sample) {
  decoding::check_range("samples", sample.samples, 1, decoding::kMostRows);
  SLUICE_CHECK(sample.top_k == 0 && sample.top_p == 1,
               "draws without replacement are from all tokens, so they take no top_k or top_p");
  SearchOptions search;
  search.beam = search.nbest = sample.samples;
  search.without_replacement = {sample.temperature, sample.seed};
  return search;
}

AnswerOptions answer_options(const DecodeOptions& options,
                             const decoding::Constraints& constraints) {
  SLUICE_CHECK(!options.sample || options.forced.empty(),
               "answers that are drawn can't be forced to hold words; search for them");
  SLUICE_CHECK(
      !options.sample || options.coverage_penalty == 0,
      "coverage_penalty is {}, but answers that are drawn don't compete; take 0, or search",
      options.coverage_penalty);
  SLUICE_CHECK(!options.sample || options.groups == 1,
               "groups is {}, but answers that are drawn have no beams; take 1, or search",
               options.groups);
  AnswerOptions answers = of_kind(options);
  std::visit(
      [&](auto& search) {
        search.min_length = options.min_length;
        search.max_length = options.max_length;
        search.attention = options.attention;
        search.constraints = constraints;
        search.validate();
      },
      answers);
  return answers;
}

std::int64_t rows_of_input(const AnswerOptions& options) {
  if (const auto* sampling = std::get_if<SamplingOptions>(&options)) return sampling->samples;
  return std::get<SearchOptions>(options).beam;
}

std::string describe(const AnswerOptions& options) {
  const std::int64_t rows = rows_of_input(options);
  const auto* search = std::get_if<SearchOptions>(&options);
  const bool draws = search == nullptr || search->without_replacement;
  return draws ? base::counted(rows, "sample") : fmt::format("beam {}", rows);
}

Hypothesis hypothesis_of(const data::Tokenizer& tokenizer, const decoding::Hypothesis& found) {
  Hypothesis hypothesis;
  hypothesis.text = tokenizer.decode(found.tokens);
  hypothesis.score = found.score;
  hypothesis.normalised_score = found.normalised_score;
  hypothesis.pieces = pieces_of(tokenizer, found.tokens);
  hypothesis.attention = found.attention;
  hypothesis.ended = found.ended;
  return hypothesis;
}

std::string key_of(const AnswerOptions& options) {
  const auto lengths = [](const decoding::LengthLimits& limits) {
    return fmt::format("{} {} {} {}", limits.min_length, limits.max_length,
                       limits.max_length_factor, limits.max_length_offset);
  };
  const auto held_to = [](const decoding::Constraints& constraints) {
    std::string key = fmt::format("{}", constraints.no_repeat);
    for (const auto& sequence : constraints.banned) {
      key += fmt::format(" not {}", fmt::join(sequence, "-"));
    }
    return key;
  };
  if (const auto* o = std::get_if<SamplingOptions>(&options)) {
    return fmt::format("samples {} {} {} {} {} {} {} {} {} {}", o->samples, o->temperature,
                       o->top_k, o->top_p, o->force_end, o->allow_unknown, o->attention,
                       o->poll_every, lengths(*o), held_to(o->constraints));
  }
  const auto& o = std::get<SearchOptions>(options);
  return fmt::format("beam {} {} {} {} {} {} {} {} {} {} {} {} {}", o.beam, o.nbest,
                     o.length_penalty, static_cast<int>(o.stop), o.allow_unknown, o.attention,
                     o.poll_every, lengths(o), held_to(o.constraints), o.coverage_penalty, o.groups,
                     o.diversity, o.without_replacement ? o.without_replacement->temperature : 0);
}

AnswerSearch::AnswerSearch(models::StepModel& model, const AnswerOptions& options,
                           const decoding::SearchCapacity& capacity, runtime::ArenaPlanner& planner,
                           const runtime::Arena& arena)
    : search_([&]() -> decltype(search_) {
        if (const auto* sampling = std::get_if<SamplingOptions>(&options)) {
          return Sampling(model, *sampling, capacity, planner, arena);
        }
        return BeamSearch(model, std::get<SearchOptions>(options), capacity, planner, arena);
      }()) {}

void AnswerSearch::set_seed(const AnswerOptions& options) {
  if (const auto* o = std::get_if<SamplingOptions>(&options)) {
    sampling().set_seed(o->seed);
  } else if (const auto& draws = std::get<SearchOptions>(options).without_replacement) {
    std::get<BeamSearch>(search_).set_seed(draws->seed);
  }
}

std::size_t AnswerSearch::bytes(std::int64_t vocabulary, const AnswerOptions& options,
                                const decoding::SearchCapacity& capacity) {
  if (const auto* sampling = std::get_if<SamplingOptions>(&options)) {
    return Sampling::bytes(vocabulary, *sampling, capacity);
  }
  return BeamSearch::bytes(vocabulary, std::get<SearchOptions>(options), capacity);
}

std::vector<std::vector<decoding::Hypothesis>> AnswerSearch::run(
    const runtime::Context& context, std::span<const std::int32_t> source_lengths,
    std::span<const std::int32_t> ids, decoding::Prefixes prefixes, decoding::Forced forced) {
  if (auto* sampling = std::get_if<Sampling>(&search_)) {
    return decoding::fetch(context, sampling->run(context, source_lengths, ids, prefixes));
  }
  auto& search = std::get<BeamSearch>(search_);
  return decoding::fetch(context, search.run(context, source_lengths, prefixes, forced, ids));
}

}  // namespace sluice::api
