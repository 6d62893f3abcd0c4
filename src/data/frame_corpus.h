#pragma once

#include <cstdint>
#include <vector>

#include "data/examples.h"
#include "data/frames.h"

namespace sluice::data {

/// Sequences of frames with what is wanted of them: labels, or values, for each frame or one for a
/// sequence; or nothing, where it is to be found.
struct FrameCorpus final : Examples {
  FrameSequences frames;
  std::vector<std::vector<std::int32_t>> labels;  ///< of each sequence
  FrameSequences values;                          ///< of each sequence; in the place of labels

  std::int64_t size() const override { return frames.size(); }
  std::vector<ExampleLengths> lengths() const override;
  Batch assemble(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;

  /// The sequences at `indices`, in their order.
  FrameCorpus select(std::span<const std::int64_t> indices) const;

 private:
  ExampleLengths lengths_of(std::int64_t i) const;
};

}  // namespace sluice::data
