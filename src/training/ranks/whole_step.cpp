#include "training/ranks/whole_step.h"

#include <algorithm>
#include <vector>

namespace sluice::training {

WholeStep whole_step_of(std::span<const data::Batch> batches, bool samples) {
  WholeStep whole;
  std::vector<std::int32_t> tokens;
  for (const data::Batch& batch : batches) {
    whole.target_tokens += batch.target_tokens();
    tokens.insert(tokens.end(), batch.source.begin(), batch.source.end());
    tokens.insert(tokens.end(), batch.target_in.begin(), batch.target_in.end());
  }
  std::ranges::sort(tokens);
  const auto repeated = std::ranges::unique(tokens);
  whole.rows_read = std::ssize(tokens) - std::ssize(repeated);
  if (samples) whole.rows_read += whole.target_tokens;
  return whole;
}

}  // namespace sluice::training
