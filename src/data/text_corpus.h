#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/examples.h"
#include "data/feature_vectors.h"

namespace sluice::data {

/// Texts as ids, without bos and eos, each an example of a language model: bos and the tokens are
/// fed, the tokens and eos are to be predicted. Each may have a vector that it is conditioned on:
/// Batch::features [1, rows, width].
struct TextCorpus final : Examples {
  TextCorpus() = default;
  /// `vectors_in`: one for each text, or none at all.
  explicit TextCorpus(std::vector<std::vector<std::int32_t>> texts_in,
                      FeatureVectors vectors_in = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(texts.size()); }
  std::vector<ExampleLengths> lengths() const override;
  Batch assemble(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;

  std::vector<std::vector<std::int32_t>> texts;
  FeatureVectors vectors;
};

/// TextCorpus::fingerprint() of a text more; it begins with data::begin_fingerprint().
std::uint64_t absorb_text(std::uint64_t hash, std::span<const std::int32_t> text);

/// One long text, in memory or elsewhere.
class RunningText {
 public:
  virtual ~RunningText() = default;
  virtual std::int64_t size() const = 0;
  /// Tokens `begin` and so on.
  virtual void read(std::int64_t begin, std::span<std::int32_t> out) const = 0;
};

/// The same texts, one after the other as one running text, cut into stretches of equal length (but
/// for one token) that stand side by side: for truncated back-propagation through time. A batch
/// holds the next steps of every stretch; example k * stretches + s is the k-th piece of stretch s.
/// `Batch::source` [1, rows] says where rows start: 0, from nothing (the first batch); 1 + s, from
/// where row s of the batch before ended.
class StretchCorpus final : public Examples {
 public:
  /// `stretches` or, of fewer tokens (eos counted), as many as there are. Batches of `steps` steps.
  StretchCorpus(std::span<const std::vector<std::int32_t>> texts, std::int64_t stretches,
                std::int64_t steps);
  /// Of texts that stand one behind the other, each with its eos.
  StretchCorpus(std::shared_ptr<const RunningText> text, std::int64_t stretches,
                std::int64_t steps);

  std::int64_t size() const override { return batches_ * stretches_; }
  std::vector<ExampleLengths> lengths() const override;
  /// Of the rows of one batch, in order.
  Batch assemble(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;
  std::int64_t rows_in_order() const override { return stretches_; }

 private:
  std::int64_t length_of(std::int64_t example) const;
  /// Where the example begins in the text.
  std::int64_t begin_of(std::int64_t example) const;

  std::shared_ptr<const RunningText> text_;  ///< to be predicted; eos ends each of the texts
  std::int64_t stretches_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t batches_ = 0;
};

}  // namespace sluice::data
