#include "api/answer_search.h"

#include <fmt/format.h>

#include "api/tokenize.h"
#include "base/check.h"
#include "base/counted.h"

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
  return search;
}

}  // namespace

AnswerOptions answer_options(const DecodeOptions& options) {
  AnswerOptions answers;
  if (options.sample) {
    answers = sampling_options(options);
  } else {
    answers = search_options(options);
  }
  std::visit(
      [&](auto& search) {
        search.min_length = options.min_length;
        search.max_length = options.max_length;
        search.attention = options.attention;
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
  return std::holds_alternative<SamplingOptions>(options) ? base::counted(rows, "sample")
                                                          : fmt::format("beam {}", rows);
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
  if (const auto* o = std::get_if<SamplingOptions>(&options)) {
    return fmt::format("samples {} {} {} {} {} {} {} {} {}", o->samples, o->temperature, o->top_k,
                       o->top_p, o->force_end, o->allow_unknown, o->attention, o->poll_every,
                       lengths(*o));
  }
  const auto& o = std::get<SearchOptions>(options);
  return fmt::format("beam {} {} {} {} {} {} {} {}", o.beam, o.nbest, o.length_penalty,
                     static_cast<int>(o.stop), o.allow_unknown, o.attention, o.poll_every,
                     lengths(o));
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
  if (const auto* o = std::get_if<SamplingOptions>(&options)) sampling().set_seed(o->seed);
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
    std::span<const std::int32_t> ids, decoding::Prefixes prefixes) {
  if (auto* sampling = std::get_if<Sampling>(&search_)) {
    return decoding::fetch(context, sampling->run(context, source_lengths, ids, prefixes));
  }
  return decoding::fetch(context,
                         std::get<BeamSearch>(search_).run(context, source_lengths, prefixes));
}

}  // namespace sluice::api
