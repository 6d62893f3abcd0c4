#pragma once

#include <filesystem>

#include "interchange/source_model.h"

namespace sluice::interchange {

struct OnnxWriteOptions {
  /// Adds the input "lengths" (int32 [batch], each at least 1): the steps of each row. Without it,
  /// all rows have all steps.
  bool lengths = true;
  /// Adds a state for each recurrent layer K from 0 on, so that a sequence can be run in parts:
  /// inputs "h0_lK" (and "c0_lK" of an LSTM), outputs "hn_lK" ("cn_lK"), float [1, batch, hidden].
  /// Refused for a model that runs backward or pools.
  bool states = false;
};

/// Writes a chain whose cells are in Convention::kOnnx as a model of ONNX (opset 17).
///
/// The input is "input": float [time, batch, features], or int64 ids [time, batch]. The output is
/// "output": [time, batch, features], or [batch, features] after a pooling. If the chain ends with
/// a softmax, "output" holds the logits and "probabilities" what the softmax makes of them (its
/// logarithm is "log_probabilities").
///
/// Throws ErrorCode::kInvalidArgument for cells in another convention, and kUnsupported for a
/// projection, which ONNX lacks.
void write_onnx_model(const SourceModel& model, const std::filesystem::path& path,
                      const OnnxWriteOptions& options = {});

}  // namespace sluice::interchange
