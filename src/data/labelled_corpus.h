#pragma once

#include <cstdint>
#include <vector>

#include "data/examples.h"

namespace sluice::data {

/// Sequences of tokens with one label each.
struct LabelledCorpus final : Examples {
  std::vector<std::vector<std::int32_t>> source;
  std::vector<std::int32_t> labels;  ///< of each; or none at all, where they are to be found

  std::int64_t size() const override { return static_cast<std::int64_t>(source.size()); }
  /// A label is a target of one step.
  std::vector<ExampleLengths> lengths() const override;
  Batch assemble(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override;
};

/// LabelledCorpus::fingerprint() of so many examples: all sequences, then the number of each label.
std::uint64_t begin_labelled_fingerprint(std::int64_t examples);
std::uint64_t absorb_number(std::uint64_t hash, std::uint64_t number);
std::uint64_t absorb_sequence(std::uint64_t hash, std::span<const std::int32_t> numbers);

}  // namespace sluice::data
