#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batches.h"

namespace sluice::data {

/// Batches of sources of like length, which one plan serves.
struct LengthBucket {
  std::int64_t rows = 0;         ///< of the largest batch
  std::int64_t source_time = 0;  ///< of the longest source
  std::vector<BatchRows> batches;
};

/// Every source once, the longest first; of equal ones, the first first. A bucket holds lengths up
/// to twice as long as its shortest (all short ones share one), so one enormous source costs the
/// others nothing. A batch has at most `max_rows` rows, and rows * source_time of its bucket is at
/// most `max_tokens`, but for single rows that are longer.
/// Throws ErrorCode::kInvalidArgument if a limit is not positive.
std::vector<LengthBucket> length_buckets(std::span<const std::int64_t> lengths,
                                         std::int64_t max_rows, std::int64_t max_tokens);

}  // namespace sluice::data
