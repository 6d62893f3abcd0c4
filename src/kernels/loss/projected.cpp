#include "kernels/loss/projected.h"

#include "base/shape.h"
#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/loss/leaves.h"

namespace sluice::kernels::loss {
namespace {

using base::DType;
using base::Shape;

constexpr std::string_view kName = "projected_cross_entropy";

const ProjectedLeaves* find_leaves(const Context& context) {
  const DeviceKernels* kernels = context.device().kernels();
  return kernels == nullptr || kernels->loss == nullptr ? nullptr : kernels->loss->projected;
}

void check_arguments(const ProjectedCrossEntropyArgs& args) {
  SLUICE_CHECK(args.x.rank() == 3 && args.x.size(0) == args.time && args.x.size(1) == args.rows,
               "{}: x must be [{} steps, {} rows, in], not {}", kName, args.time, args.rows,
               args.x.shape().to_string());
  check_tensor(args.x, args.x.dtype(), args.x.shape(), kName, "x");
  SLUICE_CHECK(args.weight.rank() == 2, "{}: weight must be [classes, in], not {}", kName,
               args.weight.shape().to_string());
  const std::int64_t classes = args.weight.size(0), in = args.x.size(2);
  check_tensor(args.weight, args.x.dtype(), Shape{classes, in}, kName, "weight");
  check_tensor(args.bias, DType::kFloat32, Shape{classes}, kName, "bias");
  check_tensor(args.targets, DType::kInt32, Shape{args.time, args.rows}, kName, "targets");
  for (const Tensor& of_rows : {args.lengths, args.row_ids}) {
    if (of_rows) check_tensor(of_rows, DType::kInt32, Shape{args.rows}, kName, "lengths and ids");
  }
  for (const double rate : {args.label_smoothing, args.dropout}) {
    SLUICE_CHECK(rate >= 0 && rate < 1, "{}: label smoothing and dropout must be in [0, 1), not {}",
                 kName, rate);
  }
  for (const Tensor& scale : {args.scale, args.loss_scale}) {
    if (scale) check_tensor(scale, DType::kFloat64, Shape{1}, kName, "scale");
  }
  check_tensor(args.dx, args.x.dtype(), args.x.shape(), kName, "dx");
  check_tensor(args.d_weight, DType::kFloat32, Shape{classes, in}, kName, "d_weight");
  check_tensor(args.d_bias, DType::kFloat32, Shape{classes}, kName, "d_bias");
  check_tensor(args.sums, DType::kFloat64, Shape{kSums}, kName, "sums");
  SLUICE_CHECK(args.workspace != nullptr, "{}: needs a workspace", kName);
  SLUICE_CHECK(args.dropout == 0 || args.mask != nullptr, "{}: dropout needs a mask", kName);
}

void check_taken(const Context& context, const ProjectedCrossEntropyArgs& args) {
  if (projects(context, args.x.dtype(), args.x.size(2), args.weight.size(0))) return;
  base::fail(ErrorCode::kUnsupported, "{}: device {} doesn't take {} classes of {} {} numbers",
             kName, context.device().name(), args.weight.size(0), args.x.size(2),
             base::name_of(args.x.dtype()));
}

}  // namespace

bool projects(const Context& context, DType storage, std::int64_t in, std::int64_t classes) {
  const ProjectedLeaves* leaves = find_leaves(context);
  return leaves != nullptr && leaves->takes(context.stream(), storage, in, classes);
}

std::size_t projected_cross_entropy_workspace_bytes(std::int64_t classes, std::int64_t in) {
  const auto numbers = static_cast<std::size_t>(classes * (in + 1)) * sizeof(float);
  return base::checked_mul(kProjectedParts, base::align_up(numbers, 16) + kSums * sizeof(double));
}

// A bit an element, of whole tiles.
std::size_t projected_mask_bytes(std::int64_t tokens, std::int64_t in) {
  return base::checked_mul(base::align_up(static_cast<std::size_t>(tokens), kProjectedTile),
                           static_cast<std::size_t>(in) / 8);
}

void draw_projected_mask(const Context& context, const ProjectedCrossEntropyArgs& args) {
  check_arguments(args);
  check_taken(context, args);
  if (args.dropout > 0) find_leaves(context)->draw(context.stream(), args);
}

void projected_cross_entropy(const Context& context, const ProjectedCrossEntropyArgs& args) {
  check_arguments(args);
  check_taken(context, args);
  find_leaves(context)->run(context.stream(), args);
}

}  // namespace sluice::kernels::loss
