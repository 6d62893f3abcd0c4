#pragma once

#include <cstdint>
#include <span>

#include "data/examples.h"

namespace sluice::training {

/// A step of all ranks together, in numbers that each of them can work out.
struct WholeStep {
  std::int64_t target_tokens = 0;
  /// At most so many rows of any embedding are read: of tokens, each counted once.
  std::int64_t rows_read = 0;
};

/// Returns those of batches that are not dealt yet. `samples`: whether a model may be fed other
/// tokens than those of the batch (scheduled sampling).
WholeStep whole_step_of(std::span<const data::Batch> batches, bool samples);

}  // namespace sluice::training
