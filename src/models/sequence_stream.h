#pragma once

#include <memory>

#include "models/features.h"
#include "models/stack_training.h"

namespace sluice::models {

/// One sequence that comes in parts, through a model that answers each frame and reads forward
/// only. Owns its memory; weights are packed once, when it is made, so the parameters must not
/// change while it lives.
class FeatureStream {
 public:
  /// For parts of up to `time` frames.
  FeatureStream(const Context& context, const Features& model, std::int64_t time);

  std::int64_t capacity() const { return time_; }
  /// The next part begins a new sequence.
  void begin(const Context& context) const;
  /// frames float32 [time, 1, features] -> the answers, as StackTraining has them, until the next
  /// call.
  Tensor run(const Context& context, const Tensor& frames);

 private:
  std::int64_t time_;
  std::unique_ptr<StackTraining> plan_;
  runtime::Arena arena_;
  runtime::Buffer memory_;
  StackStates from_, to_;
};

}  // namespace sluice::models
