#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/host_tensor.h"
#include "runtime/context.h"

namespace sluice::serving {

using runtime::Context;

/// The next steps of a sequence.
struct Piece {
  std::int32_t slot = 0;  ///< holds the states of the sequence
  bool first = false;     ///< the sequence begins here
  std::int64_t steps = 0;
  std::span<const float> frames = {};         ///< [steps, features]; for a model on features
  std::span<const std::int32_t> tokens = {};  ///< [steps]; for a model on tokens
};

/// The model's answers to the steps of a piece, or of several pieces in a row.
struct PieceAnswer {
  std::vector<float> values;         ///< [steps, width]; from a model that gives numbers
  std::vector<std::int32_t> labels;  ///< [steps]; from a model that gives labels

  /// Adds the answers to the steps that follow.
  void append(const PieceAnswer& more) {
    values.insert(values.end(), more.values.begin(), more.values.end());
    labels.insert(labels.end(), more.labels.begin(), more.labels.end());
  }
};

/// Runs pieces of many sequences at once and keeps the states of each sequence in a slot.
/// Implementations are not thread-safe.
class PieceRuns {
 public:
  struct Capacity {
    std::int64_t slots = 0;  ///< sequences whose states are kept
    std::int64_t rows = 0;   ///< pieces that run at once
    std::int64_t time = 0;   ///< steps of a piece
  };

  virtual ~PieceRuns() = default;

  virtual const Capacity& capacity() const = 0;
  /// Numbers per frame; 0 if the model reads tokens.
  virtual std::int64_t features() const = 0;
  /// The answers in the order of the pieces. No two pieces may have the same slot. After an error
  /// the states in the slots of these pieces are undefined.
  virtual std::vector<PieceAnswer> run(const Context& context, std::span<const Piece> pieces) = 0;
  /// Downloads the states in a slot. set_state() puts them into any slot, bit for bit.
  virtual io::TensorTable state(const Context& context, std::int32_t slot) = 0;
  virtual void set_state(const Context& context, std::int32_t slot,
                         const io::TensorTable& state) = 0;
};

}  // namespace sluice::serving
