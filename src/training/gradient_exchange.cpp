#include "training/gradient_exchange.h"

#include "runtime/span.h"

namespace sluice::training {

using distributed::Reduction;

void GradientExchange::run(const runtime::Context& context, const runtime::Tensor& sums) const {
  const runtime::Span span(context, "distributed", "gradients");
  ranks_->all_reduce(context, sums, Reduction::kSum);
  ranks_->all_reduce(context, parameters_->gradients(), Reduction::kSum);
  const runtime::Tensor marks = parameters_->gradient_marks().values;
  if (marks) ranks_->all_reduce(context, marks, Reduction::kMax);
}

}  // namespace sluice::training
