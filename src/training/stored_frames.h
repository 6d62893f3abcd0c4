#pragma once

#include <functional>
#include <memory>

#include "data/frame_corpus.h"
#include "training/example_store.h"

namespace sluice::training {

/// As data::FrameCorpus, of sequences in a store: sources are the bits of frames and then the
/// resets, targets labels or the bits of values.
class StoredFrames final : public data::FrameExamples {
 public:
  /// Numbers of a frame and values of a target; with 0 values, labels below `labels`. `resets`:
  /// whether each frame has one.
  StoredFrames(std::shared_ptr<const ExampleStore> store, std::int64_t features,
               std::int64_t outputs, std::int64_t labels, bool resets);

  std::int64_t size() const override { return store_->size(); }
  std::vector<data::ExampleLengths> lengths() const override;
  data::Batch assemble(std::span<const std::int64_t> rows) const override;
  /// These read all of the store, fingerprint() and statistics() twice.
  float largest_target() const override;
  std::uint64_t fingerprint() const override;
  data::FrameStatistics statistics() const override;
  std::vector<std::int64_t> label_counts(std::int64_t labels) const override;
  std::int64_t features() const override { return features_; }
  std::int64_t outputs() const override { return outputs_; }

  /// An example as the store has it.
  static ExampleIds to_ids(std::span<const float> frames, std::span<const float> values,
                           std::span<const std::int32_t> labels,
                           std::span<const std::int32_t> resets);

 private:
  /// Adds an example of the store to `corpus`.
  void add(std::int64_t example, std::span<const std::int32_t> source,
           std::span<const std::int32_t> target, data::FrameCorpus& corpus) const;
  /// Calls use(corpus) for every example, which it holds alone, in order.
  void for_each(const std::function<void(const data::FrameCorpus&)>& use) const;

  std::shared_ptr<const ExampleStore> store_;
  std::int64_t features_, outputs_, labels_;
  bool resets_;
};

}  // namespace sluice::training
