#include "training/step_log.h"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <utility>

#include "kernels/loss/loss.h"
#include "kernels/optimizer/loss_scale.h"
#include "runtime/span.h"

namespace sluice::training {
namespace {

namespace loss = kernels::loss;
namespace optimizer = kernels::optimizer;

constexpr std::int64_t kSquares = 0;
constexpr std::int64_t kLossScale = kSquares + 1;
constexpr std::int64_t kColumns = kLossScale + optimizer::kLossScaleNumbers;

/// Fills in what sums of each rank, `losses`, and further numbers say.
void fill_in(StepReport& report, std::span<const double> losses, const double* numbers) {
  double sum = 0, nll = 0;
  for (std::size_t rank = 0; rank < losses.size() / loss::kSums; ++rank) {
    const double* own = losses.data() + rank * loss::kSums;
    sum += own[loss::kLoss];
    nll += own[loss::kNll];
    if (losses.size() == loss::kSums) continue;
    report.ranks.push_back({static_cast<std::int64_t>(own[loss::kTokens]), own[loss::kLoss]});
  }
  const auto tokens = static_cast<double>(report.target_tokens);
  report.loss = sum / tokens;
  report.nll = nll / tokens;
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

RankReport& RankReport::operator+=(const RankReport& more) {
  target_tokens += more.target_tokens;
  loss += more.loss;
  steps += more.steps;
  staleness += more.staleness;
  dropped += more.dropped;
  return *this;
}

StepLog::StepLog(const Context& context, double most_nll, std::int64_t ranks, std::int64_t capacity)
    : most_nll_(most_nll),
      ranks_(ranks),
      capacity_(capacity),
      memory_(
          context.device(),
          static_cast<std::size_t>(capacity * (ranks * loss::kSums + kColumns)) * sizeof(double)),
      losses_(memory_.tensor(runtime::DType::kFloat64, {capacity, ranks, loss::kSums})),
      numbers_(
          memory_.tensor(runtime::DType::kFloat64, {capacity, kColumns}, losses_.byte_size())) {
  context.zero(numbers_);
}

void StepLog::push(const Context& context, const StepReport& report, const StepSums& sums) {
  SLUICE_ASSERT(!is_full());
  const runtime::Span span(context, "step_log", "keep");
  const std::int64_t at = std::ssize(pending_);
  context.copy(losses_.select(0, at).reshape(sums.loss.shape()), sums.loss);
  const Tensor row = numbers_.select(0, at);
  context.copy(row.slice(0, 0, kLossScale), sums.gradient_squares);
  if (sums.loss_scale) context.copy(row.slice(0, kLossScale, kColumns), sums.loss_scale);
  pending_.push_back(report);
  if (sums.of_all) shared_ = std::ssize(pending_);
}

void StepLog::share(const Context& context, distributed::Communicator& ranks) {
  const std::int64_t count = std::ssize(pending_);
  if (shared_ == count) return;
  ranks.all_reduce(context, losses_.slice(0, shared_, count), distributed::Reduction::kSum);
  shared_ = count;
}

void StepLog::read(const Context& context, const std::function<void(const StepReport&)>& use) {
  if (pending_.empty()) return;
  const std::vector<double> losses = context.download<double>(losses_);
  const std::vector<double> numbers = context.download<double>(numbers_);
  const std::vector<StepReport> reports = std::exchange(pending_, {});
  shared_ = 0;
  const auto width = static_cast<std::size_t>(ranks_ * loss::kSums);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    StepReport report = reports[i];
    fill_in(report, std::span(losses).subspan(i * width, width), numbers.data() + i * kColumns);
    check(report, most_nll_);
    use(report);
  }
}

}  // namespace sluice::training
