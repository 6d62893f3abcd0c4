#include <algorithm>

#include "api/c_models.h"
#include "base/shape.h"
#include "decoding/beam_steps.h"
#include "decoding/option_checks.h"

/// The object that the handle sluice_beam points to.
struct sluice_beam {
  sluice::Beam beam;
  sluice::StateShape shape;
  std::vector<std::vector<sluice::FinishedSequence>> finished{};
  bool has_finished = false;  ///< whether `finished` has been fetched
};

namespace sluice::api {
namespace {

using c_api::guarded;
using c_api::read;
using c_api::require;
using decoding::check_range;
using decoding::kLongest;
using decoding::kMostBeamRows;
using decoding::kMostRows;

LanguageModel& language_model_of(sluice_model* model) {
  require(model, "model");
  auto* texts = std::get_if<LanguageModel>(&model->any);
  if (texts == nullptr) {
    base::fail(ErrorCode::kInvalidArgument,
               "the model is of the kind {}; a beam search from states takes a language_model",
               model->kind);
  }
  return *texts;
}

template <typename T>
std::span<const T> span_of(const T* values, std::int64_t count) {
  if (values == nullptr) return {};
  return {values, static_cast<std::size_t>(count)};
}

BeamStepOptions options_of(const sluice_beam_options& given, std::int64_t inputs,
                           std::int64_t vocabulary) {
  BeamStepOptions options;
  options.steps = given.steps;
  if (given.beam != 0) options.beam = given.beam;
  options.nbest = given.nbest;
  options.min_length = given.min_length;
  options.length_penalty = given.length_penalty;
  options.allow_unknown = given.allow_unknown != 0;
  if (given.mask_steps != 0) options.mask_steps = given.mask_steps;
  if (given.mask_inputs != 0) options.mask_inputs = given.mask_inputs;
  if (given.allowed == nullptr) return options;
  check_range("mask_steps", options.mask_steps, 1, kLongest);
  check_range("mask_inputs", options.mask_inputs, 1, inputs);
  options.allowed = span_of(given.allowed, options.mask_steps * options.mask_inputs * vocabulary);
  return options;
}

/// Copies to the caller's array; null leaves it out.
template <typename T>
void copy_out(const std::vector<T>& values, T* to, std::int64_t count, const char* name) {
  if (to == nullptr) return;
  SLUICE_CHECK(count == std::ssize(values), "{} has room for {} numbers, not {}", name, count,
               values.size());
  std::copy(values.begin(), values.end(), to);
}

const std::vector<std::vector<FinishedSequence>>& finished_of(sluice_beam& beam) {
  if (!beam.has_finished) {
    beam.finished = beam.beam.finished();
    beam.has_finished = true;
  }
  return beam.finished;
}

}  // namespace
}  // namespace sluice::api

using namespace sluice::api;

sluice_status sluice_model_state_shape(sluice_model* model, std::int64_t shape[3],
                                       sluice_error* error) {
  return guarded(error, [&] {
    require(shape, "shape");
    const sluice::StateShape given = language_model_of(model).state_shape();
    shape[0] = given.layers;
    shape[1] = given.width;
    shape[2] = given.hidden;
  });
}

sluice_status sluice_model_beam(sluice_model* model, const sluice_beam_start* start,
                                const sluice_beam_options* options, sluice_beam** beam,
                                sluice_error* error) {
  return guarded(error, [&] {
    require(beam, "beam");
    *beam = nullptr;
    sluice::LanguageModel& texts = language_model_of(model);
    const sluice_beam_start from = read(start, "start");
    const sluice_beam_options own = read(options, "options");
    check_range("inputs", from.inputs, 1, kMostBeamRows);
    const sluice::StateShape shape = texts.state_shape();
    const auto vocabulary = texts.vocabulary_size();
    const sluice::BeamStepOptions steps = options_of(own, from.inputs, vocabulary);
    check_range("beam", steps.beam, 1, kMostRows);
    sluice::BeamStart begin;
    begin.inputs = from.inputs;
    begin.every_beam = from.every_beam != 0;
    const std::int64_t rows = from.inputs * (begin.every_beam ? steps.beam : 1);
    begin.h = span_of(from.h, shape.layers * rows * shape.width);
    begin.c = span_of(from.c, shape.layers * rows * shape.hidden);
    begin.tokens = span_of(from.tokens, rows);
    begin.scores = span_of(from.scores, rows);
    begin.states_on_device = from.states_on_device != 0;
    *beam = new sluice_beam{texts.beam(begin, steps), shape};
  });
}

void sluice_beam_destroy(sluice_beam* beam) { delete beam; }

std::int64_t sluice_beam_steps(const sluice_beam* beam) {
  return beam == nullptr ? 0 : beam->beam.steps();
}

sluice_status sluice_beam_choices(const sluice_beam* beam, std::int32_t* tokens,
                                  std::int32_t* parents, double* scores, std::int64_t count,
                                  sluice_error* error) {
  return guarded(error, [&] {
    require(beam, "beam");
    if (tokens != nullptr) copy_out(beam->beam.tokens(), tokens, count, "tokens");
    if (parents != nullptr) copy_out(beam->beam.parents(), parents, count, "parents");
    if (scores != nullptr) copy_out(beam->beam.scores(), scores, count, "scores");
  });
}

sluice_status sluice_beam_device_choices(const sluice_beam* beam, const std::int32_t** tokens,
                                         const std::int32_t** parents, const double** scores,
                                         sluice_error* error) {
  return guarded(error, [&] {
    require(beam, "beam");
    if (tokens != nullptr) *tokens = beam->beam.device_tokens();
    if (parents != nullptr) *parents = beam->beam.device_parents();
    if (scores != nullptr) *scores = beam->beam.device_scores();
  });
}

sluice_status sluice_beam_states(const sluice_beam* beam, float* h, std::int64_t h_count, float* c,
                                 std::int64_t c_count, std::int32_t* tokens,
                                 std::int64_t tokens_count, sluice_error* error) {
  return guarded(error, [&] {
    require(beam, "beam");
    const sluice::RowStates states = beam->beam.states();
    copy_out(states.h, h, h_count, "h");
    copy_out(states.c, c, c_count, "c");
    copy_out(states.tokens, tokens, tokens_count, "tokens");
  });
}

std::int64_t sluice_beam_finished_count(sluice_beam* beam, std::int64_t input) {
  std::int64_t count = -1;
  guarded(nullptr, [&] {
    require(beam, "beam");
    const auto& all = finished_of(*beam);
    if (input >= 0 && input < std::ssize(all))
      count = std::ssize(all[static_cast<std::size_t>(input)]);
  });
  return count;
}

sluice_status sluice_beam_finished(sluice_beam* beam, std::int64_t input, std::int64_t rank,
                                   sluice_finished* finished, sluice_error* error) {
  return guarded(error, [&] {
    require(beam, "beam");
    const auto& all = finished_of(*beam);
    SLUICE_CHECK(input >= 0 && input < std::ssize(all), "there is no input {} among {}", input,
                 all.size());
    const auto& of_input = all[static_cast<std::size_t>(input)];
    SLUICE_CHECK(rank >= 0 && rank < std::ssize(of_input),
                 "input {} has {} finished sequences, so none of rank {}", input, of_input.size(),
                 rank);
    const sluice::FinishedSequence& one = of_input[static_cast<std::size_t>(rank)];
    sluice_finished own = SLUICE_INIT(sluice_finished);
    own.tokens = one.tokens.data();
    own.length = std::ssize(one.tokens);
    own.text = one.text.c_str();
    own.score = one.score;
    own.normalised_score = one.normalised_score;
    own.row = one.row;
    sluice::c_api::write(own, finished, "finished");
  });
}
