#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/model_info.h"
#include "sluice/segmenters.h"

namespace sluice {

/// A model, and examples that say what is right.
struct MeasureRequest {
  std::string model;         ///< checkpoint folder, model.safetensors or folder of a run
  std::string kind = {};     ///< that it must be of; empty: any
  std::string data;          ///< a file as training validates on: a table, features, pairs, …
  std::string targets = {};  ///< of features, in a file of their own; else empty
  std::string resets = {};   ///< of features, likewise (sluice/feature_model.h)
  /// Columns of a table; empty: those of training.
  std::string text_column = {}, label_column = {};
  Placement placement = {};
  SegmenterChoice segmenters = {};
};

struct Measurement {
  /// Names and values, as validations show them: {"loss", "0.1234"}, {"accuracy", "98.00%"}.
  std::vector<std::pair<std::string, std::string>> metrics;
  std::vector<std::string>
      notes;  ///< for people: how many examples there are, and what is left out
};

/// What a validation of training would measure of the model on these examples; no search is made.
/// Throws ErrorCode::kFormat, with file and line, for examples that training would refuse, among
/// them a label that the model doesn't have; kInvalidArgument for a model of another kind, with the
/// commands that use it.
Measurement measure(const MeasureRequest& request);

/// A metric a line, then the notes behind "# ".
std::string to_text(const Measurement& measurement);

}  // namespace sluice
