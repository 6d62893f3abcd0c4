#pragma once

#include <gtest/gtest.h>

#include "data/batches.h"
#include "training/train_data.h"

namespace sluice::training {

inline void expect_same(const data::Batch& a, const data::Batch& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.source_time, b.source_time);
  EXPECT_EQ(a.target_time, b.target_time);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.source_lengths, b.source_lengths);
  EXPECT_EQ(a.target_in, b.target_in);
  EXPECT_EQ(a.target_out, b.target_out);
  EXPECT_EQ(a.target_lengths, b.target_lengths);
  EXPECT_EQ(a.features, b.features);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.global_row, b.global_row);
}

/// Every batch of two epochs, of examples that a run would see in that order.
inline void expect_same(const TrainData& streamed, const TrainData& read) {
  EXPECT_EQ(to_blobs(streamed.tokenizers), to_blobs(read.tokenizers));
  EXPECT_EQ(streamed.notes, read.notes);
  EXPECT_EQ(streamed.train->fingerprint(), read.train->fingerprint());
  ASSERT_TRUE(streamed.validation && read.validation);
  EXPECT_EQ(streamed.validation->fingerprint(), read.validation->fingerprint());
  if (read.tokenizers.labels) {
    const std::int64_t labels = read.tokenizers.labels->size();
    EXPECT_EQ(streamed.train->label_counts(labels), read.train->label_counts(labels));
  }
  const auto options = data::in_their_order(*read.train, {.max_tokens = 100, .max_rows = 9});
  EXPECT_EQ(data::in_their_order(*streamed.train, {}).in_order, options.in_order);
  const data::BatchSchedule schedule(streamed.train->lengths(), options, 5);
  data::BatchCursor cursor(schedule);
  std::int64_t batches = 0;
  for (; cursor.position().epoch < 2; ++batches) {
    const data::BatchRows rows = cursor.next();
    expect_same(streamed.train->assemble(rows), read.train->assemble(rows));
  }
  EXPECT_GT(batches, 10);
}

}  // namespace sluice::training
