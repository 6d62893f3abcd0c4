#include "training/gradient_exchange.h"

#include "kernels/elementwise/elementwise.h"
#include "runtime/span.h"

namespace sluice::training {

using distributed::Reduction;
using runtime::Tensor;

// Parts are equal, as collectives want them, and cut no mark.
GradientExchange::GradientExchange(const runtime::Context& context,
                                   distributed::Communicator& ranks,
                                   const layers::Parameters& parameters,
                                   const ExchangeOptions& options)
    : ranks_(&ranks),
      parameters_(&parameters),
      shards_(options.shard),
      part_(parameters.flat_size() / kernels::kElementsPerMark / ranks.size() *
            kernels::kElementsPerMark) {
  if (!options.bfloat16) return;
  const runtime::Shape shape = parameters.gradients().shape();
  memory_ = runtime::Buffer(context.device(), parameters.gradients().byte_size() / 2);
  rounded_ = memory_.tensor(runtime::DType::kBFloat16, shape);
}

distributed::Share GradientExchange::shard() const {
  if (!shards_) return {0, parameters_->flat_size()};
  const std::int64_t rank = ranks_->rank();
  const bool last = rank + 1 == ranks_->size();
  return {rank * part_, last ? parameters_->flat_size() : (rank + 1) * part_};
}

void GradientExchange::run(const runtime::Context& context, const Tensor& sums) const {
  const runtime::Span span(context, "distributed", "gradients");
  ranks_->all_reduce(context, sums, Reduction::kSum);
  const Tensor marks = parameters_->gradient_marks().values;
  if (marks) ranks_->all_reduce(context, marks, Reduction::kMax);
  const Tensor gradients = parameters_->gradients();
  if (!rounded_) return reduce(context, gradients);
  kernels::elementwise::convert(context, gradients, rounded_);
  reduce(context, rounded_);
  const distributed::Share share = shard();
  kernels::elementwise::convert(context, rounded_.slice(0, share.begin, share.end),
                                gradients.slice(0, share.begin, share.end));
}

void GradientExchange::reduce(const runtime::Context& context, const Tensor& gradients) const {
  if (!shards_) return ranks_->all_reduce(context, gradients, Reduction::kSum);
  ranks_->reduce_scatter(context, gradients.slice(0, 0, parts_end()));
  if (parts_end() == parameters_->flat_size()) return;
  ranks_->all_reduce(context, gradients.slice(0, parts_end(), parameters_->flat_size()),
                     Reduction::kSum);
}

void GradientExchange::all_reduce_norm(const runtime::Context& context, const Tensor& sum) const {
  if (shards_) ranks_->all_reduce(context, sum, Reduction::kSum);
}

void GradientExchange::gather(const runtime::Context& context, const Tensor& arena) const {
  if (!shards_) return;
  const runtime::Span span(context, "distributed", "parameters");
  ranks_->all_gather(context, arena.slice(0, 0, parts_end()));
  if (parts_end() == parameters_->flat_size()) return;
  ranks_->broadcast(context, arena.slice(0, parts_end(), parameters_->flat_size()),
                    ranks_->size() - 1);
}

}  // namespace sluice::training
