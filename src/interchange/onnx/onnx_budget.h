#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "interchange/onnx/onnx_value.h"

namespace sluice::interchange::onnx {

/// Bounds the memory that a graph's constants take: a small file could name one of them a thousand
/// times. Each may be copied about eight times.
class Budget {
 public:
  /// To be called before a constant is loaded. Throws ErrorCode::kUnsupported, naming `reader`.
  void charge(const Constant& constant, const std::string& reader);

 private:
  std::size_t used_ = 0, allowed_ = std::size_t{64} << 20;
  std::set<const void*> seen_;
};

}  // namespace sluice::interchange::onnx
