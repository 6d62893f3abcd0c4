#include "kernels/loss/loss.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/loss/cpu/loss.h"

namespace sluice::kernels::loss {
namespace {

using base::DType;
using base::Shape;

void check_master(const Tensor& tensor, std::string_view operation) {
  const DType dtype = tensor.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "{}: takes float32 or float64, not {}", operation, base::name_of(dtype));
}

void check_vocabulary(const Tensor& logits, std::string_view operation) {
  SLUICE_CHECK(logits.rank() == 2 && logits.size(1) > 0,
               "{}: logits must be [tokens, vocabulary], not {}", operation,
               logits.shape().to_string());
}
void check_logits(const Tensor& logits, std::string_view operation) {
  check_master(logits, operation);
  check_vocabulary(logits, operation);
}
/// Those of cross entropy, which may be narrow.
void check_any_logits(const Tensor& logits, std::string_view operation) {
  check_vocabulary(logits, operation);
  check_matrix(logits, operation, "logits");
  if (base::size_of(logits.dtype()) != 2) return check_master(logits, operation);
  constexpr std::int64_t kPiece = 8;
  SLUICE_CHECK(logits.stride(0) % kPiece == 0 &&
                   reinterpret_cast<std::uintptr_t>(logits.data()) % (2 * kPiece) == 0,
               "{}: rows of {} logits must begin at multiples of {} bytes", operation,
               base::name_of(logits.dtype()), 2 * kPiece);
}
void check_contiguous(const Tensor& logits, std::string_view operation) {
  SLUICE_CHECK(logits.is_contiguous(), "{}: logits must be contiguous", operation);
}

/// The extent of what is scored, [time * rows, ..].
template <typename Args>
void check_extent(const Args& args, const Tensor& scored, std::string_view operation,
                  std::string_view name) {
  SLUICE_CHECK(args.time >= 0 && args.rows >= 0 && scored.size(0) == args.time * args.rows,
               "{}: {} have {} tokens, not {} steps x {} rows", operation, name, scored.size(0),
               args.time, args.rows);
  if (args.lengths) {
    check_tensor(args.lengths, DType::kInt32, Shape{args.rows}, operation, "lengths");
  }
}

/// What cross entropy and scores have in common.
template <typename Args>
void check_tokens(const Args& args, std::string_view operation) {
  check_extent(args, args.logits, operation, "logits");
  check_tensor(args.targets, DType::kInt32, Shape{args.time * args.rows}, operation, "targets");
}

/// What losses have in common beside.
template <typename Args>
void check_loss(const Args& args, std::string_view operation) {
  for (const Tensor& scale : {args.scale, args.loss_scale}) {
    if (scale) check_tensor(scale, DType::kFloat64, Shape{1}, operation, "scale");
  }
  check_tensor(args.sums, DType::kFloat64, Shape{kSums}, operation, "sums");
  SLUICE_CHECK(args.workspace != nullptr || args.time * args.rows == 0, "{}: needs a workspace",
               operation);
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::loss, "loss");
}

}  // namespace

std::size_t cross_entropy_workspace_bytes(std::int64_t tokens) {
  return base::checked_mul(static_cast<std::size_t>(tokens + kLossParts), sizeof(TokenResult));
}

void cross_entropy(const Context& context, const CrossEntropyArgs& args) {
  check_any_logits(args.logits, "cross_entropy");
  check_tokens(args, "cross_entropy");
  SLUICE_CHECK(args.label_smoothing >= 0 && args.label_smoothing < 1,
               "cross_entropy: label smoothing must be in [0, 1), not {}", args.label_smoothing);
  if (args.d_logits) {
    const DType dtype = args.d_logits.dtype();
    SLUICE_CHECK(
        dtype == args.logits.dtype() || base::policy_of(dtype).master == args.logits.dtype(),
        "cross_entropy: d_logits can't be {} for logits of {}", base::name_of(dtype),
        base::name_of(args.logits.dtype()));
    check_matrix(args.d_logits, "cross_entropy", "d_logits");
    SLUICE_CHECK(args.d_logits.size(0) == args.logits.size(0) &&
                     args.d_logits.size(1) >= args.logits.size(1),
                 "cross_entropy: d_logits must have {} rows of at least {}, not shape {}",
                 args.logits.size(0), args.logits.size(1), args.d_logits.shape().to_string());
  }
  if (args.d_bias) {
    SLUICE_CHECK(static_cast<bool>(args.d_logits), "cross_entropy: d_bias needs d_logits");
    check_tensor(args.d_bias, base::policy_of(args.logits.dtype()).master,
                 Shape{args.logits.size(1)}, "cross_entropy", "d_bias");
  }
  if (args.class_weights) {
    check_tensor(args.class_weights, DType::kFloat32, Shape{args.logits.size(1)}, "cross_entropy",
                 "class_weights");
  }
  check_loss(args, "cross_entropy");
  leaves(context).cross_entropy(context.stream(), args);
}

std::size_t squared_error_workspace_bytes(std::int64_t frames) {
  return cross_entropy_workspace_bytes(frames);
}

void squared_error(const Context& context, const SquaredErrorArgs& args) {
  constexpr std::string_view kName = "squared_error";
  check_master(args.predictions, kName);
  SLUICE_CHECK(args.predictions.rank() == 2 && args.predictions.size(1) > 0,
               "{}: predictions must be [frames, values], not {}", kName,
               args.predictions.shape().to_string());
  SLUICE_CHECK(args.predictions.is_contiguous(), "{}: predictions must be contiguous", kName);
  check_extent(args, args.predictions, kName, "predictions");
  check_tensor(args.targets, DType::kFloat32, args.predictions.shape(), kName, "targets");
  if (args.d_predictions) {
    check_tensor(args.d_predictions, args.predictions.dtype(), args.predictions.shape(), kName,
                 "d_predictions");
  }
  check_loss(args, kName);
  leaves(context).squared_error(context.stream(), args);
}

void score_targets(const Context& context, const TargetScoreArgs& args) {
  check_logits(args.logits, "score_targets");
  check_tokens(args, "score_targets");
  check_contiguous(args.logits, "score_targets");
  check_tensor(args.token_scores, DType::kFloat64, args.targets.shape(), "score_targets",
               "token_scores");
  if (args.row_scores) {
    check_tensor(args.row_scores, DType::kFloat64, Shape{args.rows}, "score_targets", "row_scores");
  }
  leaves(context).score_targets(context.stream(), args);
}

void log_softmax(const Context& context, const Tensor& logits, const Tensor& out) {
  check_logits(logits, "log_softmax");
  check_contiguous(logits, "log_softmax");
  check_tensor(out, logits.dtype(), logits.shape(), "log_softmax", "out");
  leaves(context).log_softmax(context.stream(), logits, out);
}

}  // namespace sluice::kernels::loss
