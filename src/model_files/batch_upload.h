#pragma once

#include <cstdint>
#include <vector>

#include "data/examples.h"
#include "models/model.h"
#include "runtime/buffer.h"
#include "runtime/context.h"

namespace sluice::model_files {

using runtime::Context;
using runtime::Tensor;

/// The numbers of a training step that are not the same in the next.
struct StepNumbers {
  std::int64_t step = 1;     ///< counted from 1
  double learning_rate = 0;  ///< of the optimiser
  double scale = 1;          ///< factor of the loss sum's gradient
  double sampling = 0;       ///< probability of scheduled sampling
};

/// A batch and the numbers of its step on the device.
struct UploadedStep {
  models::Batch batch;
  Tensor step;           ///< int32 [1]
  Tensor learning_rate;  ///< float64 [1]
  Tensor scale;          ///< float64 [1]
  Tensor sampling;       ///< float64 [1]
};

models::Extent extent_of(const data::Batch& batch);

/// Brings batches to the device, one copy each and without waiting for it.
class BatchUpload {
 public:
  /// The batch on the device; valid until the next upload. What the batch lacks is absent. It grows
  /// its device memory at need.
  models::Batch upload(const Context& context, const data::Batch& batch);
  /// The same with the numbers of a step, and padded to `extent`: by rows of length 0 and by time
  /// past every row's end. What lies where depends on `extent` and on `data` alone.
  UploadedStep upload(const Context& context, const data::Batch& batch,
                      const models::Extent& extent, const StepNumbers& numbers);

  /// Where the batch uploaded last begins.
  const void* data() const { return memory_.data(); }

 private:
  std::vector<std::int32_t> staging_;
  runtime::Buffer memory_;
};

}  // namespace sluice::model_files
