#pragma once

#include "distributed/communicator.h"
#include "layers/parameters.h"

namespace sluice::training {

/// How ranks add up their gradients.
struct ExchangeOptions {
  /// Whether gradients are rounded to bfloat16 to travel: half as many bytes, sums of 8 bits.
  bool bfloat16 = false;
  /// Whether each rank steps its part of the parameters alone and gives it to the others.
  bool shard = false;
};

/// Adds up gradients and losses over all ranks, and hands out parameters where each rank steps its
/// own part of them. All calls only queue.
class GradientExchange {
 public:
  /// `parameters` must be allocated with gradients; both must outlive this.
  GradientExchange(const runtime::Context& context, distributed::Communicator& ranks,
                   const layers::Parameters& parameters, const ExchangeOptions& options);

  /// Elements of the flat arenas that this rank steps: all of them, unless they are sharded.
  distributed::Share shard() const;

  /// Adds up the gradients of all ranks, and `sums`, those of the loss; afterwards this rank has
  /// the gradients of shard(). A gradient that one rank marked (kernels/gradient_marks.h) is marked
  /// on all.
  void run(const runtime::Context& context, const runtime::Tensor& sums) const;
  /// Makes a sum over shard() one over all elements.
  void all_reduce_norm(const runtime::Context& context, const runtime::Tensor& sum) const;
  /// Gives all ranks the parts of all, of a tensor of the arenas' size.
  void gather(const runtime::Context& context, const runtime::Tensor& arena) const;

 private:
  void reduce(const runtime::Context& context, const runtime::Tensor& gradients) const;
  std::int64_t parts_end() const { return part_ * ranks_->size(); }

  distributed::Communicator* ranks_;
  const layers::Parameters* parameters_;
  bool shards_;
  std::int64_t part_;  ///< elements of a rank; the last one has what remains, too
  runtime::Buffer memory_;
  runtime::Tensor rounded_;  ///< bfloat16 [flat size]; absent in float32
};

}  // namespace sluice::training
