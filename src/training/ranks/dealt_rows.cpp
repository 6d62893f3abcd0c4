#include "training/ranks/dealt_rows.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace sluice::training {
namespace {

/// One rank's share of a batch of `rows`.
struct Deal {
  std::int64_t rows, rank, ranks;

  std::int64_t padded() const { return (rows + ranks - 1) / ranks; }

  /// Returns the rank's rows of values [time, rows, width] or [time, rows], padded with 0. Empty
  /// stays empty.
  template <typename Number>
  std::vector<Number> of(const std::vector<Number>& values, std::int64_t time) const {
    if (values.empty()) return {};
    const std::int64_t width = std::ssize(values) / (time * rows);
    SLUICE_ASSERT(std::ssize(values) == time * rows * width);
    std::vector<Number> own(static_cast<std::size_t>(time * padded() * width));
    for (std::int64_t t = 0; t < time; ++t) {
      for (std::int64_t i = 0, row = rank; row < rows; ++i, row += ranks) {
        const auto from = values.begin() + (t * rows + row) * width;
        std::copy_n(from, width, own.begin() + (t * padded() + i) * width);
      }
    }
    return own;
  }
};

}  // namespace

data::Batch dealt_rows(const data::Batch& whole, std::int64_t rank, std::int64_t ranks,
                       bool carries) {
  SLUICE_ASSERT(rank >= 0 && rank < ranks && whole.rows >= 1);
  const Deal deal{whole.rows, rank, ranks};
  data::Batch own;
  own.rows = deal.padded();
  own.source_time = whole.source_time;
  own.target_time = whole.target_time;
  own.source = deal.of(whole.source, whole.source_time);
  own.features = deal.of(whole.features, whole.source_time);
  own.source_lengths = deal.of(whole.source_lengths, 1);
  own.target_in = deal.of(whole.target_in, whole.target_time);
  own.target_out = deal.of(whole.target_out, whole.target_time);
  own.values = deal.of(whole.values, whole.target_time);
  own.target_lengths = deal.of(whole.target_lengths, 1);
  own.global_row = deal.of(whole.global_row, 1);
  own.resets = deal.of(whole.resets, whole.source_time);
  if (!carries) return own;
  for (std::int32_t& from : own.source) {
    if (from > 0) from = 1 + (from - 1) / static_cast<std::int32_t>(ranks);
  }
  return own;
}

}  // namespace sluice::training
