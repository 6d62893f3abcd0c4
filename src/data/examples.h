#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::data {

/// What one example takes of a batch: time steps (tokens, frames) of either side. A target of
/// tokens counts its eos; a side that a kind of model has no use for is 0.
struct ExampleLengths {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

/// Examples padded to one size, as training with teacher forcing takes them. All tensors are
/// time-major and padded with zeros (kPadId); row r is example global_row[r], which also keys its
/// dropout masks. What a kind of model has no use for is empty, and its time 0.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t source_time = 0;
  std::int64_t target_time = 0;
  std::vector<std::int32_t> source;          ///< tokens [source_time, rows]; or else
  std::vector<float> features;               ///< [source_time, rows, features of a frame]
  std::vector<std::int32_t> source_lengths;  ///< [rows]
  std::vector<std::int32_t> target_in;       ///< tokens [target_time, rows]: bos, then the target
  std::vector<std::int32_t> target_out;      ///< tokens (then eos) or labels [target_time, rows];
                                             ///< or else
  std::vector<float> values;                 ///< [target_time, rows, values of a step]
  std::vector<std::int32_t> target_lengths;  ///< [rows]; of tokens with eos
  std::vector<std::int64_t> global_row;      ///< [rows] index in the data set
  std::vector<std::int32_t> resets{};        ///< [source_time, rows] of frames: 1 where states end

  /// Source steps before padding: the sum of source_lengths.
  std::int64_t source_tokens() const;
  /// Targets that count in the loss: the sum of target_lengths.
  std::int64_t target_tokens() const;
};

/// A data set in memory or elsewhere, of any kind of model.
class Examples {
 public:
  virtual ~Examples() = default;

  virtual std::int64_t size() const = 0;
  /// Of every example, in order.
  virtual std::vector<ExampleLengths> lengths() const = 0;
  /// These examples as a batch. Throws ErrorCode::kInvalidArgument if a row is not an example or if
  /// `rows` is empty.
  virtual Batch assemble(std::span<const std::int64_t> rows) const = 0;
  /// A number that changes with anything in any example: a resumed run compares it, so as not to go
  /// on with other data unnoticed.
  virtual std::uint64_t fingerprint() const = 0;
  /// How often each of so many labels is a target, where targets are labels. Goes through all
  /// examples.
  virtual std::vector<std::int64_t> label_counts(std::int64_t labels) const;
  /// Not 0 if examples go on from one another: every so many of them are a batch, in their order.
  virtual std::int64_t rows_in_order() const { return 0; }
};

}  // namespace sluice::data
