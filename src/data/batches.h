#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/examples.h"

namespace sluice::data {

/// How examples become batches.
struct BatchOptions {
  /// rows * (longest source + longest target) of a batch is at most this: padding counts.
  std::int64_t max_tokens = 4096;
  std::int64_t max_rows = 512;
  /// Examples are shuffled, then sorted by length within pools of this many, so that a batch holds
  /// like lengths but not the same neighbours each epoch. Larger pools pad less.
  std::int64_t pool = 65536;
  /// Not 0: every so many examples are a batch, in the order in which they come, in every epoch
  /// (Examples::rows_in_order). The above then means nothing.
  std::int64_t in_order = 0;
};

/// The options for these examples: in order if they ask for it.
BatchOptions in_their_order(const Examples& examples, BatchOptions options);

/// The options with room for the longest of these examples: for who takes whatever comes.
BatchOptions with_room_for(std::span<const ExampleLengths> lengths, BatchOptions options);

/// Indices of examples; a batch's row r is example batch[r].
using BatchRows = std::vector<std::int64_t>;

/// Upper bounds over every batch that a schedule can give, in any epoch: the capacity of a plan.
struct BatchBounds {
  std::int64_t rows = 0;
  std::int64_t source_time = 0;
  std::int64_t target_time = 0;
  std::int64_t source_cells = 0;  ///< rows * source_time of one batch
  std::int64_t target_cells = 0;  ///< rows * target_time of one batch
};

/// The batches of each epoch: a pure function of (lengths, options, seed, epoch), the same on every
/// machine and with every standard library.
class BatchSchedule {
 public:
  /// Throws ErrorCode::kInvalidArgument if there is no example, if an option is not positive, or if
  /// an example alone is larger than max_tokens (it says which).
  BatchSchedule(std::vector<ExampleLengths> lengths, const BatchOptions& options,
                std::uint64_t seed);

  /// Every example once, in shuffled batches.
  std::vector<BatchRows> batches(std::int64_t epoch) const;

  BatchBounds bounds() const;

 private:
  std::vector<ExampleLengths> lengths_;
  BatchOptions options_;
  std::uint64_t seed_;
};

/// Where a run stands in its data: the batch to be given next.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;

  bool operator==(const DataPosition&) const = default;
};

/// Walks through a schedule without end. Started from a position(), it gives what the uninterrupted
/// walk would have given from there.
class BatchCursor {
 public:
  /// `schedule` must outlive the cursor. Throws ErrorCode::kInvalidArgument if `start` is not a
  /// position of this schedule (other data or options than when it was saved).
  explicit BatchCursor(const BatchSchedule& schedule, DataPosition start = {});

  /// The batch at position(), which then moves on; valid until the next call.
  const BatchRows& next();

  /// Of the batch that next() will give; batch 0 at the start of an epoch.
  DataPosition position() const { return position_; }
  /// Batches of the epoch of position().
  std::int64_t batches_in_epoch() const { return static_cast<std::int64_t>(batches_.size()); }

 private:
  const BatchSchedule& schedule_;
  DataPosition position_;
  std::vector<BatchRows> batches_;
  BatchRows current_;
};

/// Batches for validation and decoding: all examples sorted by length, the longest first, neither
/// shuffled nor repeated. Results come back in order by writing row r's to place batch[r]. For
/// sources alone leave ExampleLengths::target 0. `options.pool` is not used; errors as
/// BatchSchedule.
std::vector<BatchRows> sorted_batches(std::span<const ExampleLengths> lengths,
                                      const BatchOptions& options);

/// Sources as the encoder takes them. source [source_time, rows] is time-major, padded with kPadId;
/// source_time is at least 1.
struct SourceBatch {
  std::int64_t rows = 0;
  std::int64_t source_time = 0;
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> source_lengths;  ///< [rows]
  std::vector<std::int64_t> global_row;      ///< [rows] index in the data set
};

/// Throws ErrorCode::kInvalidArgument if a row is not an example or if `rows` is empty.
SourceBatch assemble_sources(std::span<const std::vector<std::int32_t>> sources,
                             std::span<const std::int64_t> rows);

}  // namespace sluice::data
