#include "kernels/loss/loss.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/loss/cpu/loss.h"

namespace sluice::kernels::loss {
namespace {

using base::DType;
using base::Shape;

void check_logits(const Tensor& logits, std::string_view operation) {
  const DType dtype = logits.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "{}: takes float32 or float64, not {}", operation, base::name_of(dtype));
  SLUICE_CHECK(logits.rank() == 2 && logits.size(1) > 0,
               "{}: logits must be [tokens, vocabulary], not {}", operation,
               logits.shape().to_string());
  SLUICE_CHECK(logits.is_contiguous(), "{}: logits must be contiguous", operation);
}

/// What loss and scores have in common.
template <typename Args>
void check_tokens(const Args& args, std::string_view operation) {
  check_logits(args.logits, operation);
  SLUICE_CHECK(args.time >= 0 && args.rows >= 0 && args.logits.size(0) == args.time * args.rows,
               "{}: logits have {} tokens, not {} steps x {} rows", operation, args.logits.size(0),
               args.time, args.rows);
  check_tensor(args.targets, DType::kInt32, Shape{args.time * args.rows}, operation, "targets");
  if (args.lengths) {
    check_tensor(args.lengths, DType::kInt32, Shape{args.rows}, operation, "lengths");
  }
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::loss, "loss");
}

}  // namespace

std::size_t cross_entropy_workspace_bytes(std::int64_t tokens) {
  return base::checked_mul(static_cast<std::size_t>(tokens + kLossParts), sizeof(TokenResult));
}

void cross_entropy(const Context& context, const CrossEntropyArgs& args) {
  check_tokens(args, "cross_entropy");
  SLUICE_CHECK(args.label_smoothing >= 0 && args.label_smoothing < 1,
               "cross_entropy: label smoothing must be in [0, 1), not {}", args.label_smoothing);
  if (args.d_logits) {
    check_tensor(args.d_logits, args.logits.dtype(), args.logits.shape(), "cross_entropy",
                 "d_logits");
  }
  for (const Tensor& scale : {args.scale, args.loss_scale}) {
    if (scale) check_tensor(scale, DType::kFloat64, Shape{1}, "cross_entropy", "scale");
  }
  check_tensor(args.sums, DType::kFloat64, Shape{kSums}, "cross_entropy", "sums");
  SLUICE_CHECK(args.workspace != nullptr || args.logits.size(0) == 0,
               "cross_entropy: needs a workspace");
  leaves(context).cross_entropy(context.stream(), args);
}

void score_targets(const Context& context, const TargetScoreArgs& args) {
  check_tokens(args, "score_targets");
  check_tensor(args.token_scores, DType::kFloat64, args.targets.shape(), "score_targets",
               "token_scores");
  if (args.row_scores) {
    check_tensor(args.row_scores, DType::kFloat64, Shape{args.rows}, "score_targets", "row_scores");
  }
  leaves(context).score_targets(context.stream(), args);
}

void log_softmax(const Context& context, const Tensor& logits, const Tensor& out) {
  check_logits(logits, "log_softmax");
  check_tensor(out, logits.dtype(), logits.shape(), "log_softmax", "out");
  leaves(context).log_softmax(context.stream(), logits, out);
}

}  // namespace sluice::kernels::loss
