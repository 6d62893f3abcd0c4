#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/graph_cache.h"

namespace sluice::models {

using runtime::Context;
using runtime::Tensor;

/// One named part of a decoding state, on the device. `row_axis` is the axis that counts rows.
struct StateTensor {
  std::string name;
  Tensor value;
  std::size_t row_axis = 0;
};

/// How decoding sees a model: one step at a time over rows whose state lives on the device. No call
/// waits for the device. Rows are grouped by input: row r decodes input `input_of_row[r]`.
class StepModel {
 public:
  virtual ~StepModel() = default;

  virtual std::int64_t vocabulary() const = 0;
  virtual std::int64_t max_rows() const = 0;
  /// Time steps of the encoded inputs: the width of `attention`.
  virtual std::int64_t source_time() const = 0;

  /// Sets the first `rows` rows to the start state of their inputs. input_of_row int32 [rows].
  virtual void start(const Context& context, const Tensor& input_of_row, std::int64_t rows) = 0;

  /// Feeds tokens int32 [rows] and writes logits float [rows, vocabulary()] for what comes next.
  /// attention, if wanted: out [rows, source_time()].
  virtual void step(const Context& context, const Tensor& tokens, const Tensor& logits,
                    const Tensor& attention) = 0;

  /// Row r takes the state of row parents[r] (int32 [rows]); rows may be shared or dropped. The
  /// input that a row decodes comes along.
  virtual void reorder(const Context& context, const Tensor& parents) = 0;

  /// reorder, and then step.
  virtual void step_from(const Context& context, const Tensor& parents, const Tensor& tokens,
                         const Tensor& logits, const Tensor& attention) {
    reorder(context, parents);
    step(context, tokens, logits, attention);
  }

  /// A key of what two steps queue now that come behind a run's first one, both with a reorder or
  /// both without: whenever the key is the same, so is the work. It waits for nothing and leaves
  /// the key as it is, so it may be captured once and launched again, in this run and in others.
  /// None if steps can't be captured.
  virtual std::optional<runtime::GraphKey> steps_key() const { return std::nullopt; }

  /// The state as it stands, for saving and moving it; views stay valid until the next call.
  virtual std::vector<StateTensor> state() const = 0;
};

}  // namespace sluice::models
