#pragma once

#include <memory>

#include "data/frame_corpus.h"
#include "training/example_store.h"

namespace sluice::training {

/// As data::FrameCorpus, of sequences in a store: sources are the bits of frames, targets labels or
/// the bits of values.
class StoredFrames final : public data::FrameExamples {
 public:
  /// Numbers of a frame and values of a target; with 0 values, labels below `labels`.
  StoredFrames(std::shared_ptr<const ExampleStore> store, std::int64_t features,
               std::int64_t outputs, std::int64_t labels);

  std::int64_t size() const override { return store_->size(); }
  std::vector<data::ExampleLengths> lengths() const override;
  data::Batch assemble(std::span<const std::int64_t> rows) const override;
  /// These read all of the store, once, thrice and twice.
  float largest_target() const override;
  std::uint64_t fingerprint() const override;
  data::FrameStatistics statistics() const override;
  std::int64_t features() const override { return features_; }
  std::int64_t outputs() const override { return outputs_; }

  /// An example as the store has it.
  static ExampleIds to_ids(std::span<const float> frames, std::span<const float> values,
                           std::span<const std::int32_t> labels);

 private:
  data::FrameCorpus read(std::span<const std::int64_t> rows) const;

  std::shared_ptr<const ExampleStore> store_;
  std::int64_t features_, outputs_, labels_;
};

}  // namespace sluice::training
