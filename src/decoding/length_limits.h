#pragma once

#include <cstdint>

namespace sluice::decoding {

/// How long outputs may become, in tokens without eos.
struct LengthLimits {
  std::int64_t min_length = 0;  ///< eos is not allowed before
  /// An input of S source tokens gets at most
  /// max(1, min_length, min(max_length, floor(max_length_factor * S) + max_length_offset)) tokens.
  std::int64_t max_length = 256;
  double max_length_factor = 2;
  std::int64_t max_length_offset = 20;

  /// Throws ErrorCode::kInvalidArgument with the option, its value and what is allowed.
  void check_lengths() const;
  /// Most tokens for an input of this many source tokens.
  std::int64_t max_length_for(std::int64_t source_length) const;
};

}  // namespace sluice::decoding
