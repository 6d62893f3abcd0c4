#include "kernels/crf/crf.h"

#include "kernels/check.h"
#include "kernels/crf/cpu/crf.h"
#include "kernels/crf/workspace.h"
#include "kernels/device_kernels.h"

namespace sluice::kernels::crf {
namespace {

using base::DType;
using base::Shape;

void check_emissions(const Tensor& emissions, std::int64_t time, std::int64_t rows,
                     std::string_view operation) {
  const DType dtype = emissions.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "{}: takes float32 or float64, not {}", operation, base::name_of(dtype));
  SLUICE_CHECK(emissions.rank() == 3 && emissions.size(0) == time && emissions.size(1) == rows,
               "{}: emissions must be [{}, {}, labels], not {}", operation, time, rows,
               emissions.shape().to_string());
  SLUICE_CHECK(emissions.size(2) >= 1 && emissions.size(2) <= kMostLabels,
               "{}: there must be 1 to {} labels, not {}", operation, kMostLabels,
               emissions.size(2));
  SLUICE_CHECK(emissions.is_contiguous(), "{}: emissions must be contiguous", operation);
}

void check_chain(const Chain& chain, const Tensor& emissions, std::string_view operation,
                 std::string_view prefix) {
  const std::int64_t labels = emissions.size(2);
  const auto check = [&](const Tensor& tensor, const Shape& shape, std::string_view name) {
    check_tensor(tensor, emissions.dtype(), shape, operation, fmt::format("{}{}", prefix, name));
  };
  check(chain.transitions, Shape{labels, labels}, "transitions");
  check(chain.start, Shape{labels}, "start");
  check(chain.end, Shape{labels}, "end");
}

/// What both operations have in common.
template <typename Args>
void check_rows(const Args& args, std::string_view operation) {
  check_emissions(args.emissions, args.time, args.rows, operation);
  if (args.lengths) {
    check_tensor(args.lengths, DType::kInt32, Shape{args.rows}, operation, "lengths");
  }
  check_tensor(args.best, DType::kInt32, Shape{args.time, args.rows}, operation, "best");
  SLUICE_CHECK(args.workspace != nullptr, "{}: needs a workspace", operation);
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::crf, "CRF");
}

}  // namespace

std::size_t loss_workspace_bytes(std::int64_t time, std::int64_t rows, std::int64_t labels,
                                 bool gradient) {
  return Workspace(nullptr, time, rows, labels, true, gradient).bytes();
}

std::size_t best_labels_workspace_bytes(std::int64_t time, std::int64_t rows, std::int64_t labels) {
  return Workspace(nullptr, time, rows, labels, false, false).bytes();
}

void negative_log_likelihood(const Context& context, const LossArgs& args) {
  constexpr std::string_view kOperation = "negative_log_likelihood";
  check_rows(args, kOperation);
  check_chain(args.chain, args.emissions, kOperation, "");
  check_tensor(args.targets, DType::kInt32, Shape{args.time, args.rows}, kOperation, "targets");
  if (args.d_emissions) {
    check_tensor(args.d_emissions, args.emissions.dtype(), args.emissions.shape(), kOperation,
                 "d_emissions");
    check_chain(args.d_chain, args.emissions, kOperation, "d_");
  }
  for (const Tensor& scale : {args.scale, args.loss_scale}) {
    if (scale) check_tensor(scale, DType::kFloat64, Shape{1}, kOperation, "scale");
  }
  check_tensor(args.sums, DType::kFloat64, Shape{loss::kSums}, kOperation, "sums");
  leaves(context).negative_log_likelihood(context.stream(), args);
}

void best_labels(const Context& context, const BestLabelsArgs& args) {
  constexpr std::string_view kOperation = "best_labels";
  check_rows(args, kOperation);
  if (args.chain.transitions || args.chain.start || args.chain.end) {
    check_chain(args.chain, args.emissions, kOperation, "");
  }
  if (args.scores) {
    check_tensor(args.scores, DType::kFloat64, Shape{args.rows}, kOperation, "scores");
  }
  leaves(context).best_labels(context.stream(), args);
}

}  // namespace sluice::kernels::crf
