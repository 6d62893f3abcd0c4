#include "kernels/beam_search/beam_search.h"

#include <cmath>
#include <limits>

#include "kernels/beam_search/cpu/beam_search.h"
#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/token_mask/token_mask.h"

namespace sluice::kernels::beam_search {
namespace {

using base::Shape;

// NoiseKey has so many places for them.
constexpr std::int64_t kMostDrawn = 1 << 12, kMostSteps = 1 << 20;

void check_extent(const Extent& e, const char* operation) {
  SLUICE_CHECK(e.inputs >= 0 && e.beam >= 1 && e.nbest >= 1 && e.max_length >= 0,
               "{}: can't search {} inputs with {} beams for {} hypotheses of up to {} tokens",
               operation, e.inputs, e.beam, e.nbest, e.max_length);
  SLUICE_CHECK(e.groups >= 1 && e.inputs % e.groups == 0, "{}: {} inputs are not in groups of {}",
               operation, e.inputs, e.groups);
  SLUICE_CHECK(e.prefix_time >= 0 && e.source_time >= 0,
               "{}: prefixes of {} tokens and sources of {} can't be", operation, e.prefix_time,
               e.source_time);
  SLUICE_CHECK(e.phrases >= 0 && e.phrase_time >= (e.phrases > 0 ? 1 : 0),
               "{}: {} phrases of up to {} tokens can't be", operation, e.phrases, e.phrase_time);
  SLUICE_CHECK(e.sampled_vocabulary >= 0, "{}: can't draw from {} tokens", operation,
               e.sampled_vocabulary);
  if (e.sampled_vocabulary == 0) return;
  SLUICE_CHECK(e.groups == 1 && e.phrases == 0 && !e.coverage,
               "{}: draws without replacement take no groups, phrases or coverage", operation);
  SLUICE_CHECK(e.beam <= kMostDrawn && e.max_length < kMostSteps,
               "{}: draws without replacement take at most {} beams and fewer than {} tokens, not "
               "{} and {}",
               operation, kMostDrawn, kMostSteps, e.beam, e.max_length);
}

void check(const Rules& rules, const State& state, const char* operation) {
  check_extent(state.extent, operation);
  SLUICE_CHECK(rules.length_penalty >= 0 && std::isfinite(rules.length_penalty),
               "{}: the length penalty must be a number of at least 0, not {}", operation,
               rules.length_penalty);
  check_state(state, operation);
}

bool is_amount(double value) { return value >= 0 && std::isfinite(value); }

void check(const Extras& extras, const Extent& e, std::int64_t vocabulary, const char* operation) {
  if (extras.mask) token_mask::check_mask(extras.mask, e.rows(), vocabulary, operation);
  SLUICE_CHECK(is_amount(extras.coverage), "{}: the coverage penalty must be at least 0, not {}",
               operation, extras.coverage);
  SLUICE_CHECK(is_amount(extras.diversity), "{}: the diversity must be at least 0, not {}",
               operation, extras.diversity);
  if (e.sampled_vocabulary == 0) return;
  SLUICE_CHECK(e.sampled_vocabulary == vocabulary,
               "{}: logits are of {} tokens, but the state is to draw from {}", operation,
               vocabulary, e.sampled_vocabulary);
  SLUICE_CHECK(extras.temperature > 0 && std::isfinite(extras.temperature),
               "{}: the temperature of draws without replacement must be above 0, not {}",
               operation, extras.temperature);
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::beam_search, "beam_search");
}

}  // namespace

double length_penalty(std::int64_t length, double alpha) {
  return std::pow((5.0 + static_cast<double>(length)) / 6.0, alpha);
}

void start(const Context& context, const Rules& rules, const State& state) {
  check(rules, state, "beam_search start");
  leaves(context).start(context.stream(), rules, state);
}

void advance(const Context& context, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Extras& extras) {
  const char* operation = "beam_search advance";
  check(rules, state, operation);
  const Extent& e = state.extent;
  SLUICE_CHECK(logits.rank() == 2 && logits.size(1) > rules.eos &&
                   logits.size(1) <= std::numeric_limits<std::int32_t>::max(),
               "{}: logits must be [rows, vocabulary] with eos {} in the vocabulary, not {}",
               operation, rules.eos, logits.shape().to_string());
  check_tensor(logits, e.dtype, Shape{e.rows(), logits.size(1)}, operation, "logits");
  if (e.attention || e.coverage) {
    check_tensor(attention, e.dtype, Shape{e.rows(), e.source_time}, operation, "attention");
  }
  SLUICE_CHECK(e.masked || !extras.mask, "{}: a mask is given, but the state's extent has none",
               operation);
  if (e.is_plain()) {
    return leaves(context).advance(context.stream(), rules, state, logits, attention);
  }
  check(extras, e, logits.size(1), operation);
  leaves(context).advance_extras(context.stream(), rules, extras, state, logits, attention);
}

void record(const Context& context, const State& state, const StepRecord& into) {
  const char* operation = "beam_search record";
  check_extent(state.extent, operation);
  check_state(state, operation);
  SLUICE_CHECK(into.tokens.rank() == 2, "{}: tokens must be [steps, rows]", operation);
  const Shape shape{into.tokens.size(0), state.extent.rows()};
  check_tensor(into.tokens, DType::kInt32, shape, operation, "tokens");
  check_tensor(into.parents, DType::kInt32, shape, operation, "parents");
  check_tensor(into.scores, DType::kFloat64, shape, operation, "scores");
  check_tensor(into.taken, DType::kInt32, Shape{2}, operation, "taken");
  leaves(context).record(context.stream(), state, into);
}

void trace_back(const Context& context, const Rules& rules, const State& state,
                const Tensor& tokens, const Tensor& attention) {
  const char* operation = "beam_search trace_back";
  check(rules, state, operation);
  const Extent& e = state.extent;
  check_tensor(tokens, DType::kInt32, Shape{e.inputs, e.nbest, e.max_length}, operation, "tokens");
  if (e.attention) {
    check_tensor(attention, e.dtype, Shape{e.inputs, e.nbest, e.max_length, e.source_time},
                 operation, "attention");
  }
  leaves(context).trace_back(context.stream(), rules, state, tokens, attention);
}

}  // namespace sluice::kernels::beam_search
