#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/feature_model.h"
#include "sluice/language_model.h"
#include "sluice/model_info.h"
#include "sluice/segmenters.h"

namespace sluice {

/// One side of a comparison: where a model runs, and by which implementation.
struct CheckSide {
  Placement placement{};
  /// The implementation of all recurrent layers, by the name that ModelInfo::explanation and
  /// `sluice bench` use: "avx512", "portable". The attention decoder takes it too, if it has one of
  /// that name. "auto": the one that runs by default.
  std::string implementation = "auto";
};

/// `side` with other words in place of its own: "precision=bfloat16", "device=cuda,precision=tf32",
/// "implementation=portable". Throws ErrorCode::kInvalidArgument if `words` is no such list.
CheckSide other_side(const CheckSide& side, std::string_view words);

/// Inputs to run a model on. Fill the members that its kind takes and leave the others empty.
struct CheckInputs {
  /// For a seq2seq model, a language model or a classifier.
  std::vector<std::string> texts{};
  /// For a seq2seq model: the target of each text, which is fed to the decoder (teacher forcing).
  /// If empty, the model's own answers by greedy search are fed.
  std::vector<std::string> targets{};
  /// For a tagger: the tokens of each sentence.
  std::vector<std::vector<std::string>> sentences{};
  std::vector<Frames> sequences{};  ///< for a model on features
  FeatureVectors features{};        ///< for a language model on features: a vector for each text
};

/// The place of a number in a layer's output, counted from 0, and the number on both sides.
struct LayerPlace {
  std::int64_t step = 0;
  std::int64_t row = 0;  ///< the input
  std::int64_t unit = 0;
  double value = 0, reference = 0;
};

/// The comparison of one layer's outputs, over all steps of all inputs.
struct LayerCheck {
  std::string name;
  std::int64_t values = 0;  ///< how many numbers were compared; padding is not
  std::int64_t beyond = 0;  ///< how many of them differ by more than the bound
  /// Statistics of |value - reference|; infinite if a number is not finite on one side alone.
  double largest = 0, mean = 0;
  double scale = 0;  ///< the root mean square of the reference
  /// Two numbers agree if |value - reference| <= tolerance * (scale + |reference|). This scale is
  /// computed for each batch.
  double tolerance = 0;
  std::optional<LayerPlace> largest_at{};  ///< absent if all numbers are equal
  /// The first number beyond the bound: at the earliest step (counted from the row's end in a
  /// backward direction), then in the first row, then of the first unit. Absent if there is none.
  std::optional<LayerPlace> first{};
  bool differs() const { return beyond > 0; }
};

/// The result of a comparison.
struct CheckReport {
  std::string side, reference;  ///< "float32 on cpu, stack=avx512", or the name of the file
  std::int64_t inputs = 0;
  std::vector<LayerCheck> layers{};  ///< in the order in which data flow through them
  /// Layers that only one side shows, or that the reference file lacks.
  std::vector<std::string> not_compared{};

  /// The first that differs; null if all agree.
  const LayerCheck* first_to_differ() const;
  bool agrees() const { return first_to_differ() == nullptr; }
};

/// A table, the last layer first, and a sentence that names the first layer that differs.
std::string to_text(const CheckReport& report);
/// The same as one JSON object in one line, layers in their order.
std::string to_json(const CheckReport& report);

/// Runs a model on two sides and compares the outputs of each layer (docs/checking.md). Not
/// thread-safe.
class Checker {
 public:
  /// Opens a checkpoint folder or its model.safetensors, of any kind of model.
  static Checker load(const std::string& path, const CheckSide& side = {},
                      const SegmenterChoice& segmenters = {});
  ~Checker();
  Checker(Checker&&) noexcept;
  Checker& operator=(Checker&&) noexcept;

  /// ModelInfo::kind, which decides the members of CheckInputs to fill.
  const std::string& kind() const;

  /// Compares with the same model on another side. `tolerance` holds for every layer; 0: one that
  /// follows from the precisions of both sides and the layers below. Runs batch by batch, so memory
  /// does not grow with the number of inputs. Throws ErrorCode::kInvalidArgument if there are no
  /// inputs, if they are of another kind, or if a side can't run the model. Throws also as the
  /// class of the model's kind does.
  CheckReport compare(const CheckSide& reference, const CheckInputs& inputs, double tolerance = 0);

  /// Compares with a file that `record` or another program wrote (docs/checking.md). Throws
  /// ErrorCode::kFormat if the file is damaged or holds other inputs, or if a tensor is no layer of
  /// the model or has another shape. Throws also as the other `compare`.
  CheckReport compare(const std::string& reference_file, const CheckInputs& inputs,
                      double tolerance = 0);

  /// Writes the outputs of each layer to a safetensors file, which is in memory until it is whole.
  /// Throws ErrorCode::kIo if the disk refuses.
  void record(const std::string& file, const CheckInputs& inputs);

 private:
  struct State;
  explicit Checker(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Reads the inputs of a model of this kind: lines of text, CoNLL sentences for a tagger, or arrays
/// for a model on features. Targets (seq2seq only) are the lines of the file `targets`; without it,
/// the second column if every line of `path` is `source TAB target`. `features` is for a language
/// model on features. An empty name means no file. Throws as the readers of these files.
CheckInputs read_check_inputs(const std::string& kind, const std::string& path,
                              const std::string& targets = {}, const std::string& features = {});

}  // namespace sluice
