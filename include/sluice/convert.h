#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/check.h"
#include "sluice/warnings.h"

namespace sluice {

/// A model to be moved from one program's format to another's (docs/interchange.md).
struct ConvertRequest {
  std::string source;  ///< file, folder or prefix of a checkpoint; its content tells the format
  /// A checkpoint folder of Sluice, or the file, folder or prefix of another program; must not be
  /// there yet. Empty: nothing is written.
  std::string target;
  std::string to = "sluice";  ///< sluice, torch, keras, tf1, pb, savedmodel, onnx or cudnn

  /// "features", "language_model", "tagger", "classifier" or "seq2seq"; empty: told by the layers.
  std::string kind{};
  std::string words{};   ///< a file with the text of each id a line, in their order; or empty
  std::string labels{};  ///< a file with the name of each label a line, in their order; or empty
  /// The same as `words` of what an encoder-decoder writes.
  std::string target_words{};
  /// Ids that mean padding, an unknown word, the begin and the end of a text. An encoder-decoder
  /// reads the first two and writes the last two.
  std::optional<std::int64_t> pad{}, unknown{}, begin{}, end{};
  /// The recurrent layer, module or node that is taken alone, as a model of features; or empty.
  std::string subgraph{};
  std::string map{};  ///< a file that says what plain arrays are; or empty
  /// "cuda" or "cuda:N": cuDNN on that GPU says how its packed buffer of weights is laid out, in a
  /// source or for the target cudnn. "cpu": its documented layout.
  std::string device = "cpu";
  /// Answers to questions that the source leaves open, each "KEY=VALUE": "forget_bias=1".
  std::vector<std::string> answers{};

  /// Compares the outputs of all layers with those that the source's own equations give in double
  /// precision, for random input. With a target, what was written is read back from the disk and
  /// compared: a checkpoint runs, and a file of another program is computed by its own equations.
  bool verify = false;
  std::uint64_t seed = 1;  ///< of that input
  /// "torch" (TorchScript archives), "keras", "tensorflow" (SavedModels) or "onnxruntime": has that
  /// program run the source, too, through the Python package of Sluice, and compares the outputs.
  std::string verify_with{};
  WarningHandler warnings{};
};

/// The findings and the result of a conversion.
struct ConvertReport {
  std::string format;  ///< of the source, for people: "a PyTorch file with a state dict of PyTorch"
  std::string kind;    ///< of model
  std::vector<std::string> layers;     ///< one line each: "lstm_1: LSTM 40 -> 128"
  std::vector<std::string> found;      ///< conventions, and where they stand
  std::vector<std::string> assumed;    ///< what the source does not say
  std::vector<std::string> left_out;   ///< what the model lacks of the source
  std::vector<std::string> files{};    ///< what was written: the target, then the files beside it
  std::optional<CheckReport> check{};  ///< with ConvertRequest::verify
  /// With ConvertRequest::verify and a target of another program: the largest difference between
  /// the source and what was written, as its reader reads it back; 0 for a seq2seq, whose tensors
  /// are equal.
  std::optional<double> written{};
  /// The largest difference from the program of ConvertRequest::verify_with.
  std::optional<double> difference{};
};

/// Reads a model of another program and writes it as one of Sluice, or the other way round, or
/// between two others. Whole or not at all: with `verify`, nothing stays if a layer differs
/// (ErrorCode::kNumeric, with the layer). Throws Error: ErrorCode::kFormat for damaged files,
/// kUnsupported, by name, for what Sluice or the target lacks, kInvalidArgument, with the question,
/// for what the source leaves open.
ConvertReport convert(const ConvertRequest& request);

/// The report as lines for people.
std::string to_text(const ConvertReport& report);

}  // namespace sluice
