#pragma once

#include <string_view>

#include "runtime/context.h"

namespace sluice::api {

/// Throws ErrorCode::kInvalidArgument, with what to use instead, if a model of that kind has a part
/// that a CPU computes in so few bits not at all, or many times slower than in float32.
void require_fast(const runtime::Precision& precision, const runtime::Device& device,
                  std::string_view kind);

}  // namespace sluice::api
