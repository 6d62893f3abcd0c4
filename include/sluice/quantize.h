#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sluice/segmenters.h"
#include "sluice/warnings.h"

namespace sluice {

/// A trained model to be stored, and run on the CPU, in fewer bits.
struct QuantizeRequest {
  std::string model;   ///< checkpoint folder or model.safetensors
  std::string output;  ///< checkpoint folder to make; must not be there yet
  /// "int8": matrices as 8-bit integers with a scale a row, which the CPU multiplies as such; or
  /// "bfloat16": in 16 bits, which the CPU widens.
  std::string dtype = "int8";
  /// Examples as the kind of model is validated on: pairs (TSV), a text, CoNLL columns, a table or
  /// frames. Quality is measured on all of them, and some are calibrated on.
  std::string data;
  /// Second file, of pairs of files, of frames and of a language model's features; or empty.
  std::string targets;
  std::string resets{};  ///< of frames, a file of their own (sluice/feature_model.h); or empty
  /// What segments the texts of `data`, where the model was trained on segmented ones.
  SegmenterChoice segmenters{};
  /// Validation metric to judge by; empty: BLEU of a seq2seq, F1 of a tagger, accuracy of labels,
  /// perplexity of a language model, loss of values.
  std::string metric;
  bool calibrate = true;    ///< int8: whether ranges are chosen by examples of `data`
  double most_lost = 0.02;  ///< of the metric, relative: more is refused and nothing written
  WarningHandler warnings{};
};

/// A model as it was, and quantized.
struct QuantizeReport {
  struct Side {
    std::string precision;    ///< it was measured in: "float32", "int8"
    std::uint64_t bytes = 0;  ///< of model.safetensors
    /// Every metric that was measured, for people: {"BLEU", "31.24"}.
    std::vector<std::pair<std::string, std::string>> metrics;
    double value = 0;    ///< of the metric that counts
    double seconds = 0;  ///< least of some passes over the examples, batched as in validation
  };
  Side before, after;
  std::string metric;  ///< the one that counts, for people
  double lost = 0;     ///< of it, relative to `before`; negative where it got better
  bool judged = true;  ///< false: as good as 0 before, of a metric that can't be lower
  std::int64_t examples = 0;
  std::int64_t matrices = 0;  ///< that are stored in fewer bits
  std::int64_t clipped = 0;   ///< whose ranges calibration made smaller
};

/// Writes the model in fewer bits, whole or not at all, and says what that cost. Runs on the CPU.
/// Throws Error: what loading and reading throw, ErrorCode::kInvalidArgument for what makes no
/// sense, ErrorCode::kNumeric if more than `most_lost` was lost.
QuantizeReport quantize(const QuantizeRequest& request);

/// The report as a table.
std::string quantize_table(const QuantizeReport& report);

}  // namespace sluice
