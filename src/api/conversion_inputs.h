#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "data/examples.h"
#include "interchange/assemble.h"
#include "interchange/evaluate/evaluate.h"
#include "interchange/source_model.h"

namespace sluice::api {

/// Steps of each row, the longest first.
using Lengths = std::array<std::int32_t, 4>;

/// Random input of a source, and the same as a batch of the model that was made of it.
class ConversionInputs {
 public:
  ConversionInputs(const interchange::SourceModel& source, const interchange::Assembled& made,
                   std::uint64_t seed, const Lengths& lengths);

  const data::Batch& batch() const { return batch_; }
  std::vector<interchange::LayerOutput> evaluate(const interchange::SourceModel& source,
                                                 std::size_t row,
                                                 const interchange::Noise& noise = {}) const;
  /// Outputs of a chain that reads the model's ids, not the source's.
  std::vector<interchange::LayerOutput> evaluate_written(const interchange::SourceModel& written,
                                                         std::size_t row) const;

 private:
  using Ids = std::vector<std::vector<std::int64_t>>;

  void add_ids(std::int64_t length, std::int64_t vocabulary, Ids& rows);
  std::vector<std::int32_t> tokens_of(const Ids& rows) const;
  void add_frames(std::int64_t length, std::int64_t width);
  void make_batch(const interchange::SourceModel& source, const interchange::Assembled& made);
  template <typename Use>
  void for_each_step(const Use& use) const;

  std::mt19937_64 engine_;
  Lengths lengths_;
  Ids ids_, model_ids_;  ///< the source's and the model's
  Ids fed_, model_fed_;  ///< to a decoder, likewise
  std::vector<interchange::Sequence> frames_;
  data::Batch batch_;
};

}  // namespace sluice::api
