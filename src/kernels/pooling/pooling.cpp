#include "kernels/pooling/pooling.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/pooling/cpu/pooling.h"

namespace sluice::kernels::pooling {
namespace {

using base::Shape;

constexpr std::size_t kAlignment = 64;

void check(const ForwardArgs& args, std::string_view operation) {
  const Tensor& x = args.x;
  SLUICE_CHECK(x.rank() == 3 && x.is_contiguous(),
               "{}: x must be [time, rows, features] and contiguous, not {}", operation,
               x.shape().to_string());
  const DType master = base::policy_of(x.dtype()).master;
  const Shape by_row{x.size(1), x.size(2)};
  if (args.lengths) {
    check_tensor(args.lengths, DType::kInt32, Shape{x.size(1)}, operation, "lengths");
  }
  check_tensor(args.y, x.dtype(), by_row, operation, "y");
  if (args.kind == Kind::kLast) {
    SLUICE_CHECK(args.forward_features >= 0 && args.forward_features <= x.size(2),
                 "{}: {} features of {} can't be of the forward direction", operation,
                 args.forward_features, x.size(2));
  }
  if (args.kind == Kind::kMax) {
    check_tensor(args.positions, DType::kInt32, by_row, operation, "positions");
  }
  if (args.kind == Kind::kAttention) {
    check_tensor(args.query, master, Shape{x.size(2)}, operation, "query");
    check_tensor(args.weights, master, Shape{x.size(0), x.size(1)}, operation, "weights");
  }
}

/// Where the second part of the scratch of attention begins.
std::size_t score_bytes(const Shape& x, DType master) {
  const std::size_t count = static_cast<std::size_t>(Shape{x[0], x[1]}.element_count());
  return base::align_up(base::checked_mul(count, base::size_of(master)), kAlignment);
}

AttentionScratch scratch_of(const BackwardArgs& args) {
  if (args.forward.kind != Kind::kAttention) return {};
  const Tensor& x = args.forward.x;
  const DType master = args.forward.query.dtype();
  auto* memory = static_cast<std::byte*>(args.workspace);
  return {Tensor(memory, master, Shape{x.size(0), x.size(1)}),
          Tensor(memory + score_bytes(x.shape(), master), master, Shape{x.size(1), x.size(2)})};
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::pooling, "pooling");
}

}  // namespace

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kLast:
      return "last";
    case Kind::kMean:
      return "mean";
    case Kind::kMax:
      return "max";
    default:
      return "attention";
  }
}

Kind parse_kind(std::string_view name) {
  for (const Kind kind : {Kind::kLast, Kind::kMean, Kind::kMax, Kind::kAttention}) {
    if (name == name_of(kind)) return kind;
  }
  base::fail(ErrorCode::kInvalidArgument,
             "unknown pooling \"{}\"; known are last, mean, max and attention", name);
}

void forward(const Context& context, const ForwardArgs& args) {
  check(args, "pooling");
  leaves(context).forward(context.stream(), args);
}

std::size_t backward_workspace_bytes(Kind kind, const Shape& x, DType dtype) {
  if (kind != Kind::kAttention) return 0;
  const DType master = base::policy_of(dtype).master;
  const std::size_t shares = static_cast<std::size_t>(Shape{x[1], x[2]}.element_count());
  return base::checked_add(score_bytes(x, master),
                           base::checked_mul(shares, base::size_of(master)));
}

void backward(const Context& context, const BackwardArgs& args) {
  constexpr std::string_view kName = "pooling backward";
  const ForwardArgs& forward = args.forward;
  check(forward, kName);
  check_tensor(args.dy, forward.x.dtype(), forward.y.shape(), kName, "dy");
  check_tensor(args.dx, forward.x.dtype(), forward.x.shape(), kName, "dx");
  const AttentionScratch scratch = scratch_of(args);
  if (forward.kind == Kind::kAttention) {
    check_tensor(args.d_query, forward.query.dtype(), forward.query.shape(), kName, "d_query");
    SLUICE_CHECK(args.workspace != nullptr || forward.x.element_count() == 0,
                 "{}: attention needs a workspace", kName);
  }
  leaves(context).backward(context.stream(), args, scratch);
  if (forward.kind == Kind::kAttention) {
    elementwise::column_sums(context, scratch.query_shares, args.d_query, true);
  }
}

}  // namespace sluice::kernels::pooling
