#pragma once

#include <cstdint>
#include <vector>

#include "data/batches.h"
#include "models/seq2seq.h"
#include "runtime/buffer.h"
#include "runtime/context.h"

namespace sluice::training {

using runtime::Context;

/// Brings batches to the device, one copy each and without waiting for it: what is copied stays in
/// host memory of its own until `release`.
class BatchUpload {
 public:
  /// The batch on the device; valid until the next upload. It grows its device memory at need.
  models::Seq2SeqBatch upload(const Context& context, const data::PairBatch& batch);

  /// To be called after the device was waited for: the host memory of all uploads is free again.
  void release() { used_ = 0; }

 private:
  std::vector<std::vector<std::int32_t>> staging_;
  std::size_t used_ = 0;
  runtime::Buffer memory_;
};

}  // namespace sluice::training
