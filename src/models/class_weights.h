#pragma once

#include <optional>
#include <span>

#include "runtime/buffer.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

namespace sluice::models {

/// Factors of the losses of classes, that of an example's own class, in training alone: what a
/// model is evaluated by goes without.
class ClassWeights {
 public:
  /// One for each class. Waits for the device.
  void set(const runtime::Context& context, std::span<const float> weights) {
    memory_.emplace(context.device(), weights.size_bytes());
    tensor_ =
        memory_->tensor(runtime::DType::kFloat32, {static_cast<std::int64_t>(weights.size())});
    context.upload<float>(tensor_, weights);
    context.synchronize();
  }

  /// float32 [classes], or absent: all are 1.
  const runtime::Tensor& tensor() const { return tensor_; }

 private:
  std::optional<runtime::Buffer> memory_;
  runtime::Tensor tensor_;
};

}  // namespace sluice::models
