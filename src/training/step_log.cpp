#include "training/step_log.h"

#include <cmath>
#include <utility>

#include "kernels/loss/loss.h"

namespace sluice::training {
namespace {

namespace loss = kernels::loss;

constexpr std::int64_t kColumns = loss::kSums + 1;

}  // namespace

StepLog::StepLog(const Context& context)
    : memory_(context.device(), kCapacity * kColumns * sizeof(double)),
      values_(memory_.tensor(runtime::DType::kFloat64, {kCapacity, kColumns})) {
  context.zero(values_);
}

void StepLog::push(const Context& context, const StepReport& report, const Tensor& sums,
                   const Tensor& sum_of_squares) {
  SLUICE_ASSERT(!is_full());
  const Tensor row = values_.select(0, std::ssize(pending_));
  context.copy(row.slice(0, 0, loss::kSums), sums);
  context.copy(row.slice(0, loss::kSums, kColumns), sum_of_squares);
  pending_.push_back(report);
}

void StepLog::read(const Context& context, const std::function<void(const StepReport&)>& use) {
  if (pending_.empty()) return;
  const std::vector<double> values = context.download<double>(values_);
  const std::vector<StepReport> reports = std::exchange(pending_, {});
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const double* sums = values.data() + i * kColumns;
    StepReport report = reports[i];
    const auto tokens = static_cast<double>(report.target_tokens);
    report.loss = sums[loss::kLoss] / tokens;
    report.nll = sums[loss::kNll] / tokens;
    report.gradient_norm = std::sqrt(sums[loss::kSums]);
    if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) {
      base::fail(ErrorCode::kNumeric,
                 "training diverged at step {}: loss {}, gradient norm {}, learning rate {}; lower "
                 "training.learning_rate or training.clip_norm, or lengthen "
                 "training.warmup_steps",
                 report.step, report.loss, report.gradient_norm, report.learning_rate);
    }
    use(report);
  }
}

}  // namespace sluice::training
