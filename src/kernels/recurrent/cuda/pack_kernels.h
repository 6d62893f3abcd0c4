#pragma once

#include <vector>

#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {

/// What is packed in one launch, where one each would take longer than the work of narrow layers.
class PackList {
 public:
  void add(const PackMatrix& matrix) { matrices_.push_back(matrix); }
  void add(const PackBias& bias) { biases_.push_back(bias); }
  void queue(cudaStream_t stream, DType storage) const;

 private:
  std::vector<PackMatrix> matrices_;
  std::vector<PackBias> biases_;
};

}  // namespace sluice::kernels::recurrent::cuda
