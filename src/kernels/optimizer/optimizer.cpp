#include "kernels/optimizer/optimizer.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/optimizer/cpu/optimizer.h"

namespace sluice::kernels::optimizer {
namespace {

using base::DType;
using base::Shape;

void check_arena(const Tensor& arena, std::string_view operation, std::string_view name) {
  const DType dtype = arena.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "{}: {} must be float32 or float64, not {}", operation, name, base::name_of(dtype));
  SLUICE_CHECK(arena.rank() == 1 && arena.is_contiguous(), "{}: {} must be one flat axis, not {}",
               operation, name, arena.shape().to_string());
}

void check_same(const Tensor& arena, const Tensor& parameters, std::string_view operation,
                std::string_view name) {
  check_tensor(arena, parameters.dtype(), parameters.shape(), operation, name);
}

/// Of operations on an array as a whole.
void check_marks_of_all(const GradientMarks& marks, const Tensor& gradients,
                        std::string_view operation) {
  check_marks(marks, gradients.size(0), operation);
  SLUICE_CHECK(marks.begin == 0, "{}: takes all gradients, not those from {} on", operation,
               marks.begin);
}

void check_loss_scale(const Tensor& loss_scale, std::string_view operation) {
  check_tensor(loss_scale, DType::kFloat64, Shape{kLossScaleNumbers}, operation, "loss_scale");
}

void check_clipping(const Clipping& clipping, std::string_view operation) {
  SLUICE_CHECK(clipping.sum_of_squares || clipping.max_norm <= 0,
               "{}: clipping to a norm of {} needs the sum of squares", operation,
               clipping.max_norm);
  if (clipping.loss_scale) check_loss_scale(clipping.loss_scale, operation);
  if (!clipping.sum_of_squares) return;
  check_tensor(clipping.sum_of_squares, DType::kFloat64, Shape{1}, operation, "sum_of_squares");
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::optimizer, "optimizer");
}

}  // namespace

std::int64_t partial_count(std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock; }

void zero_gradients(const Context& context, const ZeroGradientsArgs& args) {
  check_arena(args.gradients, "zero_gradients", "gradients");
  check_marks_of_all(args.marks, args.gradients, "zero_gradients");
  if (!args.marks.values) return context.zero(args.gradients);
  leaves(context).zero_gradients(context.stream(), args);
}

void sum_of_squares(const Context& context, const SumOfSquaresArgs& args) {
  check_arena(args.gradients, "sum_of_squares", "gradients");
  check_marks_of_all(args.marks, args.gradients, "sum_of_squares");
  check_tensor(args.sum, DType::kFloat64, Shape{1}, "sum_of_squares", "sum");
  check_dtype(args.partials, DType::kFloat64, "sum_of_squares", "partials");
  const std::int64_t needed = partial_count(args.gradients.size(0));
  SLUICE_CHECK(args.partials.is_contiguous() && args.partials.element_count() >= needed,
               "sum_of_squares: partials must hold {} numbers, not {}", needed,
               args.partials.element_count());
  if (args.loss_scale) check_loss_scale(args.loss_scale, "sum_of_squares");
  leaves(context).sum_of_squares(context.stream(), args);
}

void adam_step(const Context& context, const AdamArgs& args) {
  check_arena(args.parameters, "adam_step", "parameters");
  check_same(args.gradients, args.parameters, "adam_step", "gradients");
  check_marks(args.marks, args.gradients.size(0), "adam_step");
  check_same(args.first_moment, args.parameters, "adam_step", "first_moment");
  check_same(args.second_moment, args.parameters, "adam_step", "second_moment");
  check_clipping(args.clipping, "adam_step");
  check_tensor(args.step, DType::kInt32, Shape{1}, "adam_step", "step");
  check_tensor(args.learning_rate, DType::kFloat64, Shape{1}, "adam_step", "learning_rate");
  SLUICE_CHECK(args.beta1 >= 0 && args.beta1 < 1 && args.beta2 >= 0 && args.beta2 < 1,
               "adam_step: betas must be in [0, 1), not {} and {}", args.beta1, args.beta2);
  leaves(context).adam_step(context.stream(), args);
}

void sgd_step(const Context& context, const SgdArgs& args) {
  check_arena(args.parameters, "sgd_step", "parameters");
  check_same(args.gradients, args.parameters, "sgd_step", "gradients");
  check_marks(args.marks, args.gradients.size(0), "sgd_step");
  SLUICE_CHECK(args.momentum_buffer || args.momentum == 0,
               "sgd_step: a momentum of {} needs a momentum buffer", args.momentum);
  if (args.momentum_buffer) {
    check_same(args.momentum_buffer, args.parameters, "sgd_step", "momentum_buffer");
  }
  check_clipping(args.clipping, "sgd_step");
  check_tensor(args.learning_rate, DType::kFloat64, Shape{1}, "sgd_step", "learning_rate");
  leaves(context).sgd_step(context.stream(), args);
}

void update_loss_scale(const Context& context, const LossScaleArgs& args) {
  check_loss_scale(args.loss_scale, "update_loss_scale");
  check_tensor(args.sum_of_squares, DType::kFloat64, Shape{1}, "update_loss_scale",
               "sum_of_squares");
  leaves(context).update_loss_scale(context.stream(), args);
}

}  // namespace sluice::kernels::optimizer
