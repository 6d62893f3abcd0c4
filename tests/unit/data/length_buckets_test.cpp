#include "data/length_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sluice/error.h"

namespace sluice::data {
namespace {

TEST(LengthBuckets, OneEnormousSourceIsAlone) {
  const std::vector<std::int64_t> lengths{3, 100000, 5, 0, 7};
  const auto buckets = length_buckets(lengths, 32, 8192);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].rows, 1);
  EXPECT_EQ(buckets[0].source_time, 100000);
  EXPECT_EQ(buckets[0].batches, (std::vector<BatchRows>{{1}}));
  EXPECT_EQ(buckets[1].rows, 4);
  EXPECT_EQ(buckets[1].source_time, 7);
  EXPECT_EQ(buckets[1].batches, (std::vector<BatchRows>{{4, 2, 0, 3}}));
}

TEST(LengthBuckets, KeepTheirLimits) {
  std::mt19937 engine(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> lengths(1 + engine() % 300);
    for (auto& length : lengths) length = engine() % (engine() % 8 == 0 ? 3000 : 90);
    const std::int64_t max_rows = 1 + engine() % 40, max_tokens = 1 + engine() % 4000;
    std::vector<int> seen(lengths.size());
    std::int64_t before = 1 << 30;
    for (const LengthBucket& bucket : length_buckets(lengths, max_rows, max_tokens)) {
      EXPECT_LT(bucket.source_time, before);
      before = bucket.source_time;
      EXPECT_LE(bucket.rows, max_rows);
      EXPECT_TRUE(bucket.rows == 1 || bucket.rows * bucket.source_time <= max_tokens);
      for (const BatchRows& batch : bucket.batches) {
        EXPECT_FALSE(batch.empty());
        EXPECT_LE(static_cast<std::int64_t>(batch.size()), bucket.rows);
        for (const std::int64_t row : batch) {
          const auto i = static_cast<std::size_t>(row);
          ++seen[i];
          EXPECT_LE(lengths[i], bucket.source_time);
          EXPECT_TRUE(bucket.source_time <= 32 || 2 * lengths[i] > bucket.source_time);
        }
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::int64_t>(seen.size()));
  }
}

TEST(LengthBuckets, NothingAndNonsense) {
  EXPECT_TRUE(length_buckets({}, 1, 1).empty());
  EXPECT_THROW(length_buckets({}, 0, 1), Error);
  EXPECT_THROW(length_buckets({}, 1, 0), Error);
}

}  // namespace
}  // namespace sluice::data
