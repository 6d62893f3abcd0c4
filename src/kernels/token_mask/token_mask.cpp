#include "kernels/token_mask/token_mask.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/token_mask/cpu/token_mask.h"

namespace sluice::kernels::token_mask {
namespace {

using base::Shape;

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::token_mask, "token_mask");
}

}  // namespace

void check_mask(const Tensor& mask, std::int64_t rows, std::int64_t vocabulary,
                const char* operation) {
  check_tensor(mask, DType::kInt32, Shape{rows, words_of(vocabulary)}, operation, "mask");
}

void update(const Context& context, const Rules& rules, const State& state, const Tensor& step,
            const Tensor& tokens, const Tensor& parents) {
  const char* operation = "token_mask update";
  const Extent& e = state.extent;
  SLUICE_CHECK(rules.no_repeat >= 0, "{}: sequences of {} tokens can't be forbidden to repeat",
               operation, rules.no_repeat);
  check_state(state, operation);
  check_dtype(step, DType::kInt32, operation, "step");
  check_tensor(tokens, DType::kInt32, Shape{e.rows}, operation, "tokens");
  if (parents) check_tensor(parents, DType::kInt32, Shape{e.rows}, operation, "parents");
  leaves(context).update(context.stream(), rules, state, step, tokens, parents);
}

void pick(const Context& context, const Tensor& of_steps, const Tensor& step, const Tensor& mask) {
  const char* operation = "token_mask pick";
  SLUICE_CHECK(mask.rank() == 2 && of_steps.rank() == 3 && of_steps.size(0) >= 1 &&
                   of_steps.size(1) >= 1 && mask.size(0) % of_steps.size(1) == 0,
               "{}: masks {} of steps and inputs give none {}", operation,
               of_steps.shape().to_string(), mask.shape().to_string());
  check_tensor(of_steps, DType::kInt32, Shape{of_steps.size(0), of_steps.size(1), mask.size(1)},
               operation, "of_steps");
  check_dtype(step, DType::kInt32, operation, "step");
  check_tensor(mask, DType::kInt32, mask.shape(), operation, "mask");
  leaves(context).pick(context.stream(), of_steps, step, mask);
}

void apply(const Context& context, const Tensor& mask, const Tensor& logits, const Tensor& out) {
  const char* operation = "token_mask apply";
  SLUICE_CHECK(logits.rank() == 2, "{}: logits must be [rows, vocabulary], not {}", operation,
               logits.shape().to_string());
  check_mask(mask, logits.size(0), logits.size(1), operation);
  check_tensor(logits, logits.dtype(), logits.shape(), operation, "logits");
  check_tensor(out, logits.dtype(), logits.shape(), operation, "out");
  leaves(context).apply(context.stream(), mask, logits, out);
}

}  // namespace sluice::kernels::token_mask
