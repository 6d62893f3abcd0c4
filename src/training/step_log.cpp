#include "training/step_log.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/loss/loss.h"
#include "kernels/optimizer/loss_scale.h"
#include "runtime/span.h"

namespace sluice::training {
namespace {

namespace loss = kernels::loss;
namespace optimizer = kernels::optimizer;

constexpr std::int64_t kSquares = loss::kSums;
constexpr std::int64_t kLossScale = kSquares + 1;
constexpr std::int64_t kColumns = kLossScale + optimizer::kLossScaleNumbers;

void fill_in(StepReport& report, const double* numbers) {
  const auto tokens = static_cast<double>(report.target_tokens);
  report.loss = numbers[loss::kLoss] / tokens;
  report.nll = numbers[loss::kNll] / tokens;
  report.gradient_norm = std::sqrt(numbers[kSquares]);
  report.loss_scale = numbers[kLossScale + optimizer::kScale];
  report.skipped_steps = static_cast<std::int64_t>(numbers[kLossScale + optimizer::kSkippedSteps]);
}

void check(const StepReport& report, double most_nll) {
  const bool scaled = report.loss_scale > 0;
  if (scaled && std::isfinite(report.loss) && report.loss_scale < 1) {
    base::fail(ErrorCode::kNumeric,
               "training diverged at step {}: gradients are not finite even with a loss scale of "
               "{}; set machine.precision to bfloat16, or lower training.learning_rate",
               report.step, 2 * report.loss_scale);
  }
  const bool finite = std::isfinite(report.loss) && (scaled || std::isfinite(report.gradient_norm));
  if (finite && report.nll <= most_nll) return;
  base::fail(
      ErrorCode::kNumeric,
      "training diverged at step {}: loss {}{}, gradient norm {}, learning rate {}; lower "
      "training.learning_rate or training.clip_norm, or lengthen training.warmup_steps{}",
      report.step, report.loss, finite ? fmt::format(" (it may be {:.6g} at most)", most_nll) : "",
      report.gradient_norm, report.learning_rate,
      scaled && !finite ? ", or set machine.precision to bfloat16, as no loss scale helps here"
                        : "");
}

}  // namespace

StepLog::StepLog(const Context& context, double most_nll)
    : most_nll_(most_nll),
      memory_(context.device(), kCapacity * kColumns * sizeof(double)),
      values_(memory_.tensor(runtime::DType::kFloat64, {kCapacity, kColumns})) {
  context.zero(values_);
}

void StepLog::push(const Context& context, const StepReport& report, const StepSums& sums) {
  SLUICE_ASSERT(!is_full());
  const runtime::Span span(context, "step_log", "keep");
  const Tensor row = values_.select(0, std::ssize(pending_));
  context.copy(row.slice(0, 0, kSquares), sums.loss);
  context.copy(row.slice(0, kSquares, kLossScale), sums.gradient_squares);
  if (sums.loss_scale) context.copy(row.slice(0, kLossScale, kColumns), sums.loss_scale);
  pending_.push_back(report);
}

void StepLog::read(const Context& context, const std::function<void(const StepReport&)>& use) {
  if (pending_.empty()) return;
  const std::vector<double> values = context.download<double>(values_);
  const std::vector<StepReport> reports = std::exchange(pending_, {});
  for (std::size_t i = 0; i < reports.size(); ++i) {
    StepReport report = reports[i];
    fill_in(report, values.data() + i * kColumns);
    check(report, most_nll_);
    use(report);
  }
}

}  // namespace sluice::training
