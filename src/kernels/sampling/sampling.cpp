#include "kernels/sampling/sampling.h"

#include <cmath>

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/sampling/cpu/sampling.h"
#include "kernels/sampling/weights.h"

namespace sluice::kernels::sampling {
namespace {

using base::Shape;

void check(const Rules& rules, const State& state, const char* operation) {
  const Extent& e = state.extent;
  SLUICE_CHECK(e.inputs >= 0 && e.samples >= 1 && e.max_length >= 0 && e.prefix_time >= 0,
               "{}: can't draw {} samples of {} inputs of up to {} tokens", operation, e.samples,
               e.inputs, e.max_length);
  SLUICE_CHECK(rules.temperature >= 0 && std::isfinite(rules.temperature),
               "{}: the temperature must be a number of at least 0, not {}", operation,
               rules.temperature);
  SLUICE_CHECK(rules.top_k >= 0, "{}: top_k must be at least 0, not {}", operation, rules.top_k);
  SLUICE_CHECK(rules.top_p > 0 && rules.top_p <= 1,
               "{}: top_p must be above 0 and at most 1, not {}", operation, rules.top_p);
  check_state(state, operation);
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::sampling, "sampling");
}

}  // namespace

void start(const Context& context, const Rules& rules, const State& state) {
  check(rules, state, "sampling start");
  leaves(context).start(context.stream(), rules, state);
}

void advance(const Context& context, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Tensor& choices) {
  const char* operation = "sampling advance";
  check(rules, state, operation);
  const Extent& e = state.extent;
  SLUICE_CHECK(
      logits.rank() == 2 && logits.size(1) > rules.eos && logits.size(1) <= kMostTokens,
      "{}: logits must be [rows, vocabulary] with eos {} and at most {} tokens in the vocabulary, "
      "not {}",
      operation, rules.eos, kMostTokens, logits.shape().to_string());
  check_tensor(logits, e.dtype, Shape{e.rows(), logits.size(1)}, operation, "logits");
  if (e.attention) {
    check_tensor(attention, e.dtype, Shape{e.rows(), e.source_time}, operation, "attention");
  }
  if (choices) check_tensor(choices, e.dtype, logits.shape(), operation, "choices");
  leaves(context).advance(context.stream(), rules, state, logits, attention,
                          choices ? choices : logits);
}

}  // namespace sluice::kernels::sampling
