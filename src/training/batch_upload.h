#pragma once

#include <cstdint>
#include <vector>

#include "data/batches.h"
#include "models/seq2seq.h"
#include "runtime/buffer.h"
#include "runtime/context.h"

namespace sluice::training {

using runtime::Context;

/// Brings batches to the device, one copy each and without waiting for it.
class BatchUpload {
 public:
  /// The batch on the device; valid until the next upload. It grows its device memory at need.
  models::Seq2SeqBatch upload(const Context& context, const data::PairBatch& batch);

 private:
  std::vector<std::int32_t> staging_;
  runtime::Buffer memory_;
};

}  // namespace sluice::training
