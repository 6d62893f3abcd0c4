#pragma once

#include <cstdint>
#include <vector>

#include "data/examples.h"
#include "data/frames.h"

namespace sluice::data {

/// FrameCorpus::fingerprint(), number by number: of frames and then of values the width, where each
/// sequence begins and ends, and the numbers; then the labels of each sequence, and the resets.
class FrameFingerprint {
 public:
  explicit FrameFingerprint(std::int64_t examples);

  void begin(std::int64_t width) { absorb(static_cast<std::uint64_t>(width)); }
  void first_frame(std::int64_t first) { absorb(static_cast<std::uint64_t>(first)); }
  void values(std::span<const float> values);
  /// Of a sequence; its resets likewise.
  void labels(std::span<const std::int32_t> labels);
  std::uint64_t number() const { return hash_; }

 private:
  void absorb(std::uint64_t number);

  std::uint64_t hash_;
};

/// Sequences of frames with their targets, in memory or elsewhere, as a model on features asks of
/// those that it is trained on.
class FrameExamples : public Examples {
 public:
  virtual std::int64_t features() const = 0;       ///< numbers of a frame
  virtual std::int64_t outputs() const = 0;        ///< values of a target; 0: targets are labels
  virtual FrameStatistics statistics() const = 0;  ///< of all frames
  /// Of all values of targets; 0 without.
  virtual float largest_target() const = 0;
};

/// Sequences of frames with what is wanted of them: labels, or values, for each frame or one for a
/// sequence; or nothing, where it is to be found.
struct FrameCorpus final : FrameExamples {
  FrameSequences frames;
  std::vector<std::vector<std::int32_t>> labels;  ///< of each sequence
  FrameSequences values;                          ///< of each sequence; in the place of labels
  /// Of each frame of each sequence: 1 where no state passes from the frame before; or none at all.
  std::vector<std::vector<std::int32_t>> resets;

  std::int64_t size() const override { return frames.size(); }
  std::vector<ExampleLengths> lengths() const override;
  Batch assemble(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;
  std::int64_t features() const override { return frames.width; }
  std::int64_t outputs() const override { return values.width; }
  FrameStatistics statistics() const override { return statistics_of(frames); }
  float largest_target() const override;

  /// The sequences at `indices`, in their order.
  FrameCorpus select(std::span<const std::int64_t> indices) const;

 private:
  ExampleLengths lengths_of(std::int64_t i) const;
};

}  // namespace sluice::data
