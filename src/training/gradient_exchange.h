#pragma once

#include "distributed/communicator.h"
#include "layers/parameters.h"

namespace sluice::training {

/// Sums gradients and losses over all ranks.
class GradientExchange {
 public:
  /// `parameters` must be allocated with gradients; both must outlive this.
  GradientExchange(distributed::Communicator& ranks, const layers::Parameters& parameters)
      : ranks_(&ranks), parameters_(&parameters) {}

  /// Adds up the gradients of all ranks, and `sums`, those of the loss. A gradient that one rank
  /// marked (kernels/gradient_marks.h) is marked on all. Queues only.
  void run(const runtime::Context& context, const runtime::Tensor& sums) const;

 private:
  distributed::Communicator* ranks_;
  const layers::Parameters* parameters_;
};

}  // namespace sluice::training
