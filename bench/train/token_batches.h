#pragma once

#include "bench/host_numbers.h"
#include "bench/train/step_bench.h"
#include "bench/train/train_shape.h"

namespace sluice::bench::train {

/// Rounds of one batch of random pairs without padding, each of other tokens and other rows of a
/// data set without end.
class TokenBatches final : public BatchSource {
 public:
  explicit TokenBatches(const TrainShape& shape) : shape_(shape), random_(shape.seed) {}
  std::span<const data::Batch> next() override;

 private:
  data::Batch draw();
  std::int32_t token();

  TrainShape shape_;
  Random random_;
  std::int64_t row_ = 0;
  data::Batch batch_;
};

}  // namespace sluice::bench::train
