#pragma once

#include <cstdint>

#include "base/check.h"

namespace sluice::api {

/// How many inputs go together: an option's `batch` or, if that is 0, `usual`. Throws
/// ErrorCode::kInvalidArgument for less.
inline std::int64_t batch_size(std::int64_t batch, std::int64_t usual) {
  SLUICE_CHECK(batch >= 0, "batch is {}; it must be at least 1, or 0 for the usual {}", batch,
               usual);
  return batch == 0 ? usual : batch;
}

}  // namespace sluice::api
