#include "kernels/sampling/scheduled.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/sampling/cpu/sampling.h"

namespace sluice::kernels::sampling {
namespace {

void check(const ScheduledInputsArgs& args, const char* operation) {
  using base::DType;
  using base::Shape;
  const Shape rows{args.rows};
  SLUICE_CHECK(args.logits.rank() == 2 && args.logits.size(1) >= 2,
               "{}: logits must be [steps * rows, vocabulary], not {}", operation,
               args.logits.shape().to_string());
  const DType dtype = args.logits.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "{}: takes logits of float32 or float64, not {}", operation, base::name_of(dtype));
  check_tensor(args.logits, dtype, Shape{args.time * args.rows, args.logits.size(1)}, operation,
               "logits");
  SLUICE_CHECK(args.tokens.rank() == 2 && args.tokens.size(0) >= args.first_time + args.time,
               "{}: tokens of shape {} don't hold steps {} to {}", operation,
               args.tokens.shape().to_string(), args.first_time, args.first_time + args.time);
  check_tensor(args.tokens, DType::kInt32, Shape{args.tokens.size(0), args.rows}, operation,
               "tokens");
  check_tensor(args.lengths, DType::kInt32, rows, operation, "lengths");
  if (args.row_ids) check_tensor(args.row_ids, DType::kInt32, rows, operation, "row_ids");
  SLUICE_CHECK(!args.draws || args.logits.size(1) <= kMostTokens,
               "{}: draws from at most {} tokens, not {}", operation, kMostTokens,
               args.logits.size(1));
  check_tensor(args.probability, DType::kFloat64, Shape{1}, operation, "probability");
}

}  // namespace

void schedule_inputs(const Context& context, const ScheduledInputsArgs& args) {
  check(args, "scheduled sampling");
  leaves_of(context, cpu::kLeaves, &DeviceKernels::sampling, "sampling")
      .schedule_inputs(context.stream(), args);
}

}  // namespace sluice::kernels::sampling
