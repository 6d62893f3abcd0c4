#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/corpus.h"
#include "data/shuffle.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;

std::vector<ExampleLengths> random_lengths(std::int64_t count, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<ExampleLengths> lengths;
  for (std::int64_t i = 0; i < count; ++i) {
    lengths.push_back({static_cast<std::int64_t>(1 + random.below(30)),
                       static_cast<std::int64_t>(2 + random.below(30))});
  }
  return lengths;
}

ExampleLengths longest_of(const BatchRows& rows, const std::vector<ExampleLengths>& lengths) {
  ExampleLengths most;
  for (const std::int64_t row : rows) {
    most.source = std::max(most.source, lengths.at(row).source);
    most.target = std::max(most.target, lengths.at(row).target);
  }
  return most;
}

BatchRows flattened(const std::vector<BatchRows>& batches) {
  BatchRows all;
  for (const BatchRows& rows : batches) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

void expect_each_once(const std::vector<BatchRows>& batches, std::int64_t count) {
  BatchRows all = flattened(batches);
  std::sort(all.begin(), all.end());
  BatchRows expected(static_cast<std::size_t>(count));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

/// Share of padding in all cells of source and target.
double waste(const std::vector<BatchRows>& batches, const std::vector<ExampleLengths>& lengths) {
  double real = 0;
  double padded = 0;
  for (const BatchRows& rows : batches) {
    const ExampleLengths most = longest_of(rows, lengths);
    padded += static_cast<double>(std::ssize(rows) * (most.source + most.target));
    for (const std::int64_t row : rows) {
      real += static_cast<double>(lengths[row].source + lengths[row].target);
    }
  }
  return 1 - real / padded;
}

TEST(BatchSchedule, GivesEachExampleOnceWithinItsLimits) {
  const auto lengths = random_lengths(2003, 1);
  for (const BatchOptions& options : {BatchOptions{300, 512, 65536}, BatchOptions{300, 3, 65536},
                                      BatchOptions{61, 512, 100}, BatchOptions{5000, 1, 1}}) {
    const BatchSchedule schedule(lengths, options, 5);
    const BatchBounds bounds = schedule.bounds();
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const auto batches = schedule.batches(epoch);
      expect_each_once(batches, 2003);
      for (const BatchRows& rows : batches) {
        ASSERT_FALSE(rows.empty());
        const ExampleLengths most = longest_of(rows, lengths);
        ASSERT_LE(std::ssize(rows), options.max_rows);
        ASSERT_LE(std::ssize(rows) * (most.source + most.target), options.max_tokens);
        ASSERT_LE(std::ssize(rows), bounds.rows);
        ASSERT_LE(most.source, bounds.source_time);
        ASSERT_LE(most.target, bounds.target_time);
        ASSERT_LE(std::ssize(rows) * most.source, bounds.source_cells);
        ASSERT_LE(std::ssize(rows) * most.target, bounds.target_cells);
      }
    }
  }
}

TEST(BatchSchedule, IsAFunctionOfSeedAndEpoch) {
  const auto lengths = random_lengths(500, 2);
  const BatchOptions options{200, 512, 65536};
  const BatchSchedule schedule(lengths, options, 5);
  EXPECT_EQ(schedule.batches(3), BatchSchedule(lengths, options, 5).batches(3));
  EXPECT_NE(schedule.batches(3), schedule.batches(4));
  EXPECT_NE(schedule.batches(3), BatchSchedule(lengths, options, 6).batches(3));
  EXPECT_THROW(schedule.batches(-1), Error);
}

TEST(BatchSchedule, GivesBatchesInNoOrderOfLength) {
  const auto lengths = random_lengths(5000, 3);
  const auto batches = BatchSchedule(lengths, {600, 512, 65536}, 5).batches(0);
  int ascents = 0;
  for (std::size_t i = 1; i < batches.size(); ++i) {
    ascents += longest_of(batches[i - 1], lengths).source < longest_of(batches[i], lengths).source;
  }
  // About half of neighbours ascend, a few are equal; four standard deviations of about 8 below.
  EXPECT_NEAR(ascents, static_cast<int>(batches.size()) / 2, 36);
}

TEST(BatchSchedule, ChangesTheCompanyEachEpoch) {
  const auto lengths = random_lengths(20000, 3);
  const BatchSchedule schedule(lengths, {600, 512, 65536}, 5);
  std::vector<std::size_t> batch_of(lengths.size());
  const auto first = schedule.batches(0);
  for (std::size_t b = 0; b < first.size(); ++b) {
    for (const std::int64_t row : first[b]) batch_of[static_cast<std::size_t>(row)] = b;
  }
  int pairs = 0;
  int again = 0;
  for (const BatchRows& rows : schedule.batches(1)) {
    for (std::size_t i = 1; i < rows.size(); ++i) {
      ++pairs;
      again += batch_of[static_cast<std::size_t>(rows[0])] ==
               batch_of[static_cast<std::size_t>(rows[i])];
    }
  }
  // 45 examples a cell of like lengths and 20 a batch: two neighbours meet again about every third
  // time; the same batches anew would be all of them.
  EXPECT_LT(again, pairs / 2);
}

TEST(BatchSchedule, PadsLittle) {
  const auto lengths = random_lengths(20000, 4);
  const BatchSchedule sorted(lengths, {1000, 512, 65536}, 5);
  const BatchSchedule unsorted(lengths, {1000, 512, 1}, 5);
  EXPECT_LT(waste(sorted.batches(0), lengths), 0.05);
  const BatchSchedule pooled(lengths, {1000, 512, 2000}, 5);
  EXPECT_GT(waste(pooled.batches(0), lengths), waste(sorted.batches(0), lengths));
  EXPECT_LT(waste(unsorted.batches(0), lengths), 1e-12);  // pools of one are batches of one
}

TEST(BatchSchedule, RefusesWhatCannotBeBatched) {
  EXPECT_THROW(BatchSchedule({}, {}, 1), Error);
  EXPECT_THROW(BatchSchedule({{1, 1}}, {0, 1, 1}, 1), Error);
  EXPECT_THROW(BatchSchedule({{1, 1}}, {9, 0, 1}, 1), Error);
  EXPECT_THROW(BatchSchedule({{1, 1}}, {9, 1, 0}, 1), Error);
  EXPECT_NO_THROW(BatchSchedule({{1, 1}, {4, 5}}, {9, 1, 1}, 1));
  const Error error = error_of([] { BatchSchedule({{1, 1}, {4, 6}}, {9, 1, 1}, 1); });
  EXPECT_NE(std::string(error.what()).find("example 1 has 4 source and 6 target"),
            std::string::npos);
}

TEST(BatchCursor, ContinuesFromAnyPosition) {
  const auto lengths = random_lengths(60, 6);
  const BatchSchedule schedule(lengths, {150, 4, 65536}, 9);
  std::vector<std::pair<DataPosition, BatchRows>> whole;
  BatchCursor walk(schedule);
  while (walk.position().epoch < 3) {
    const DataPosition at = walk.position();
    whole.emplace_back(at, walk.next());
  }
  EXPECT_EQ(walk.position(), (DataPosition{3, 0}));
  for (std::size_t start = 0; start < whole.size(); ++start) {
    BatchCursor resumed(schedule, whole[start].first);
    for (std::size_t i = start; i < whole.size(); ++i) {
      ASSERT_EQ(resumed.position(), whole[i].first);
      ASSERT_EQ(resumed.next(), whole[i].second);
    }
  }
}

TEST(BatchCursor, RefusesAPositionOfOtherData) {
  const BatchSchedule schedule(random_lengths(10, 6), {150, 4, 65536}, 9);
  const std::int64_t count = BatchCursor(schedule).batches_in_epoch();
  EXPECT_NO_THROW(BatchCursor(schedule, {2, count - 1}));
  EXPECT_THROW(BatchCursor(schedule, {2, count}), Error);
  EXPECT_THROW(BatchCursor(schedule, {0, -1}), Error);
  EXPECT_THROW(BatchCursor(schedule, {-1, 0}), Error);
}

TEST(SortedBatches, GivesEachExampleOnceLongestFirst) {
  const auto lengths = random_lengths(333, 7);
  const auto batches = sorted_batches(lengths, {200, 16, 1});
  expect_each_once(batches, 333);
  for (const BatchRows& rows : batches) {
    const ExampleLengths most = longest_of(rows, lengths);
    ASSERT_LE(std::ssize(rows), 16);
    ASSERT_LE(std::ssize(rows) * (most.source + most.target), 200);
  }
  EXPECT_GE(longest_of(batches.front(), lengths).source, 29);
  EXPECT_LE(longest_of(batches.back(), lengths).source, 3);
  EXPECT_EQ(batches, sorted_batches(lengths, {200, 16, 1}));
}

TEST(Assembly, LaysOutTimeMajorWithBosAndEos) {
  const PairCorpus corpus{{{10, 11, 12}, {20}, {30, 31}}, {{40}, {}, {60, 61}}};
  const Batch batch = corpus.assemble(std::vector<std::int64_t>{2, 0, 1});
  constexpr std::int32_t kPad = kPadId;
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.source_time, 3);
  EXPECT_EQ(batch.target_time, 3);
  EXPECT_EQ(batch.source, (std::vector<std::int32_t>{30, 10, 20, 31, 11, kPad, kPad, 12, kPad}));
  EXPECT_EQ(batch.source_lengths, (std::vector<std::int32_t>{2, 3, 1}));
  EXPECT_EQ(batch.target_in, (std::vector<std::int32_t>{kBosId, kBosId, kBosId,  //
                                                        60, 40, kPad,            //
                                                        61, kPad, kPad}));
  EXPECT_EQ(batch.target_out, (std::vector<std::int32_t>{60, 40, kEosId,    //
                                                         61, kEosId, kPad,  //
                                                         kEosId, kPad, kPad}));
  EXPECT_EQ(batch.target_lengths, (std::vector<std::int32_t>{3, 2, 1}));
  EXPECT_EQ(batch.global_row, (std::vector<std::int64_t>{2, 0, 1}));
  EXPECT_EQ(batch.target_tokens(), 6);
}

TEST(Assembly, TakesEmptySources) {
  const std::vector<std::vector<std::int32_t>> sources{{}, {5}};
  const SourceBatch empty = assemble_sources(sources, std::vector<std::int64_t>{0});
  EXPECT_EQ(empty.source_time, 1);
  EXPECT_EQ(empty.source, std::vector<std::int32_t>{kPadId});
  EXPECT_EQ(empty.source_lengths, std::vector<std::int32_t>{0});
  const SourceBatch both = assemble_sources(sources, std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(both.source, (std::vector<std::int32_t>{kPadId, 5}));
}

TEST(Assembly, RefusesRowsThatAreNotThere) {
  const PairCorpus corpus{{{10}}, {{40}}};
  EXPECT_THROW(corpus.assemble(std::vector<std::int64_t>{1}), Error);
  EXPECT_THROW(corpus.assemble(std::vector<std::int64_t>{-1}), Error);
  EXPECT_THROW(corpus.assemble({}), Error);
}

}  // namespace
}  // namespace sluice::data
