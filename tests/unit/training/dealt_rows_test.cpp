#include "training/ranks/dealt_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sluice::training {
namespace {

/// A batch of every kind of tensor, of numbers that occur once.
data::Batch numbered(std::int64_t rows, std::int64_t source_time, std::int64_t target_time) {
  data::Batch batch;
  batch.rows = rows;
  batch.source_time = source_time;
  batch.target_time = target_time;
  float next = 1;
  const auto fill = [&](auto& values, std::int64_t count) {
    values.resize(static_cast<std::size_t>(count));
    for (auto& value : values) value = static_cast<std::decay_t<decltype(value)>>(next++);
  };
  fill(batch.source, source_time * rows);
  fill(batch.features, source_time * rows * 3);
  fill(batch.source_lengths, rows);
  fill(batch.target_in, target_time * rows);
  fill(batch.target_out, target_time * rows);
  fill(batch.values, target_time * rows * 2);
  fill(batch.target_lengths, rows);
  fill(batch.global_row, rows);
  fill(batch.resets, source_time * rows);
  return batch;
}

/// Row `row` of values [time, rows, width].
template <typename T>
std::vector<T> row_of(const std::vector<T>& values, std::int64_t rows, std::int64_t time,
                      std::int64_t row) {
  const std::int64_t width = std::ssize(values) / (time * rows);
  std::vector<T> one;
  for (std::int64_t t = 0; t < time; ++t) {
    const auto begin = values.begin() + (t * rows + row) * width;
    one.insert(one.end(), begin, begin + width);
  }
  return one;
}

/// Calls compare(tensor of a, tensor of b, steps) for every tensor of two batches.
template <typename Compare>
void for_tensors(const data::Batch& a, const data::Batch& b, const Compare& compare) {
  compare(a.source, b.source, a.source_time);
  compare(a.features, b.features, a.source_time);
  compare(a.source_lengths, b.source_lengths, 1);
  compare(a.target_in, b.target_in, a.target_time);
  compare(a.target_out, b.target_out, a.target_time);
  compare(a.values, b.values, a.target_time);
  compare(a.target_lengths, b.target_lengths, 1);
  compare(a.global_row, b.global_row, 1);
  compare(a.resets, b.resets, a.source_time);
}

TEST(DealtRows, EveryRowGoesToOneRank) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 30; ++i) {
    const std::int64_t rows = 1 + random() % 9, ranks = 1 + random() % 5;
    const data::Batch whole = numbered(rows, 1 + random() % 4, 1 + random() % 4);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const data::Batch own = dealt_rows(whole, rank, ranks, false);
      EXPECT_EQ(own.rows, (rows + ranks - 1) / ranks);
      EXPECT_EQ(own.source_time, whole.source_time);
      EXPECT_EQ(own.target_time, whole.target_time);
      for_tensors(whole, own, [&](const auto& all, const auto& part, std::int64_t time) {
        for (std::int64_t at = 0; at < own.rows; ++at) {
          const std::int64_t row = rank + at * ranks;
          const auto found = row_of(part, own.rows, time, at);
          if (row < rows) {
            EXPECT_EQ(found, row_of(all, rows, time, row));
          } else {
            EXPECT_EQ(std::count(found.begin(), found.end(), 0), std::ssize(found));
          }
        }
      });
    }
  }
}

TEST(DealtRows, LeavesAbsentTensorsAbsent) {
  data::Batch whole;
  whole.rows = 3;
  whole.source_time = 2;
  whole.source = {1, 2, 3, 4, 5, 6};
  const data::Batch own = dealt_rows(whole, 1, 2, false);
  EXPECT_EQ(own.source, (std::vector<std::int32_t>{2, 0, 5, 0}));
  EXPECT_TRUE(own.features.empty() && own.target_out.empty() && own.global_row.empty());
}

/// Rows of running text go on from the row in which they were dealt before.
TEST(DealtRows, CarriedRowsStayWhereTheyAre) {
  data::Batch whole;
  whole.rows = 7;
  whole.source_time = 1;
  whole.source = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(dealt_rows(whole, 0, 3, true).source, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(dealt_rows(whole, 1, 3, true).source, (std::vector<std::int32_t>{1, 2, 0}));
  whole.source.assign(7, 0);  // the first batch
  EXPECT_EQ(dealt_rows(whole, 0, 3, true).source, (std::vector<std::int32_t>{0, 0, 0}));
}

}  // namespace
}  // namespace sluice::training
