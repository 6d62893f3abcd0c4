#pragma once

#include "bench/host_numbers.h"
#include "bench/train/train_shape.h"
#include "data/batches.h"

namespace sluice::bench::train {

/// Batches of random pairs without padding, each of other tokens and other rows of a data set
/// without end.
class TokenBatches {
 public:
  explicit TokenBatches(const TrainShape& shape) : shape_(shape), random_(shape.seed) {}
  data::Batch next();

 private:
  std::int32_t token();

  TrainShape shape_;
  Random random_;
  std::int64_t row_ = 0;
};

}  // namespace sluice::bench::train
