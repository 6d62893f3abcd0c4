#include "training/ranks/gradient_exchange.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "runtime/span.h"

namespace sluice::training {

using distributed::Reduction;
using runtime::DType;
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
  if (options.bfloat16) {
    const runtime::Shape shape = parameters.gradients().shape();
    memory_ = runtime::Buffer(context.device(), parameters.gradients().byte_size() / 2);
    rounded_ = memory_.tensor(DType::kBFloat16, shape);
  }
  divide();
}

// A chunk that a table shares with a parameter of another kind is always marked, and so none of
// those that are listed.
void GradientExchange::divide() {
  const auto& specs = parameters_->specs();
  for (layers::ParameterId id = 0; id < specs.size(); ++id) {
    const std::int64_t begin = parameters_->offset(id);
    const std::int64_t end = begin + specs[id].shape.element_count();
    const std::int64_t first = kernels::mark_of(begin), last = kernels::mark_count(end);
    if (specs[id].marked) {
      const std::int64_t rows = specs[id].shape[0], width = (end - begin) / rows;
      const bool aligned =
          width % kernels::kElementsPerMark == 0 && begin % kernels::kElementsPerMark == 0;
      tables_.push_back({rows, last - first, kernels::mark_count(width) + (aligned ? 0 : 1)});
      continue;
    }
    const distributed::Share range{
        first * kernels::kElementsPerMark,
        std::min(last * kernels::kElementsPerMark, parameters_->flat_size())};
    if (!dense_.empty() && range.begin <= dense_.back().end) {
      dense_.back().end = range.end;
    } else {
      dense_.push_back(range);
    }
  }
}

std::int64_t GradientExchange::most_listed() const {
  std::int64_t chunks = 0;
  for (const Table& table : tables_) chunks += table.chunks;
  return chunks / 2;
}

void GradientExchange::prepare_lists(const runtime::Context& context) {
  const std::int64_t chunks = most_listed();
  const std::int64_t marks = parameters_->gradient_marks().values.element_count();
  const auto numbers = static_cast<std::size_t>(chunks + 1) * sizeof(std::int32_t);
  const std::size_t aligned = (numbers + 255) / 256 * 256;
  list_memory_ = runtime::Buffer(context.device(),
                                 aligned + kernels::optimizer::list_marked_bytes(context, marks));
  list_.count = list_memory_.tensor(DType::kInt32, {1});
  list_.chunks = list_memory_.tensor(DType::kInt32, {chunks}, sizeof(std::int32_t));
  list_workspace_ = static_cast<std::byte*>(list_memory_.data()) + aligned;
  const DType dtype = rounded_ ? DType::kBFloat16 : DType::kFloat32;
  const std::int64_t elements = chunks * kernels::kElementsPerMark;
  packed_memory_ =
      runtime::Buffer(context.device(), static_cast<std::size_t>(elements) * base::size_of(dtype));
  packed_ = packed_memory_.tensor(dtype, {elements});
}

distributed::Share GradientExchange::shard() const {
  if (!shards_) return {0, parameters_->flat_size()};
  const std::int64_t rank = ranks_->rank();
  const bool last = rank + 1 == ranks_->size();
  return {rank * part_, last ? parameters_->flat_size() : (rank + 1) * part_};
}

/// How many chunks so many rows of each table have at most.
std::int64_t GradientExchange::most_chunks(std::int64_t rows) const {
  std::int64_t chunks = 0;
  for (const Table& table : tables_) {
    chunks += std::min(table.chunks, std::min(rows, table.rows) * table.chunks_of_a_row);
  }
  return chunks;
}

void GradientExchange::run(const runtime::Context& context, const Tensor& sums, std::int64_t rows) {
  const runtime::Span span(context, "distributed", "gradients");
  ranks_->all_reduce(context, sums, Reduction::kSum);
  const Tensor marks = parameters_->gradient_marks().values;
  if (marks) ranks_->all_reduce(context, marks, Reduction::kMax);
  if (shards_) return scatter(context);
  const std::int64_t chunks = most_chunks(rows);
  if (tables_.empty() || ranks_->size() == 1 || chunks > most_listed()) {
    return all_reduce(context, {0, parameters_->flat_size()});
  }
  if (!packed_) prepare_lists(context);
  all_reduce_marked(context, chunks);
  for (const distributed::Share& range : dense_) all_reduce(context, range);
}

void GradientExchange::all_reduce(const runtime::Context& context,
                                  const distributed::Share& range) const {
  const Tensor gradients = parameters_->gradients().slice(0, range.begin, range.end);
  if (!rounded_) return ranks_->all_reduce(context, gradients, Reduction::kSum);
  const Tensor rounded = rounded_.slice(0, range.begin, range.end);
  kernels::elementwise::convert(context, gradients, rounded);
  ranks_->all_reduce(context, rounded, Reduction::kSum);
  kernels::elementwise::convert(context, rounded, gradients);
}

void GradientExchange::all_reduce_marked(const runtime::Context& context,
                                         std::int64_t chunks) const {
  kernels::optimizer::MarkedChunks list = list_;
  list.chunks = list_.chunks.slice(0, 0, chunks);
  kernels::optimizer::list_marked(context,
                                  {parameters_->gradient_marks().values, list, list_workspace_});
  const Tensor packed = packed_.slice(0, 0, chunks * kernels::kElementsPerMark);
  const kernels::optimizer::PackedChunksArgs args{list, packed, parameters_->gradients()};
  kernels::optimizer::pack_chunks(context, args);
  if (chunks > 0) ranks_->all_reduce(context, packed, Reduction::kSum);
  kernels::optimizer::unpack_chunks(context, args);
}

/// Gives this rank the sums of its part.
void GradientExchange::scatter(const runtime::Context& context) const {
  const Tensor gradients = parameters_->gradients();
  if (rounded_) kernels::elementwise::convert(context, gradients, rounded_);
  const Tensor travelling = rounded_ ? rounded_ : gradients;
  ranks_->reduce_scatter(context, travelling.slice(0, 0, parts_end()));
  if (parts_end() < parameters_->flat_size()) {
    ranks_->all_reduce(context, travelling.slice(0, parts_end(), parameters_->flat_size()),
                       Reduction::kSum);
  }
  if (!rounded_) return;
  const distributed::Share share = shard();
  kernels::elementwise::convert(context, rounded_.slice(0, share.begin, share.end),
                                gradients.slice(0, share.begin, share.end));
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
