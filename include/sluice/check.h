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
  /// Of all recurrent layers, and of the attention decoder where it has one of that name, as
  /// ModelInfo::explanation and `sluice bench` call them: "avx512", "portable". "auto": the one
  /// that runs anyway.
  std::string implementation = "auto";
};

/// `side` with other words in place of its own: "precision=bfloat16", "device=cuda,precision=tf32",
/// "implementation=portable". Throws ErrorCode::kInvalidArgument for what is no such list.
CheckSide other_side(const CheckSide& side, std::string_view words);

/// What a model is run on: the members that its kind takes, the others empty.
struct CheckInputs {
  /// Of a seq2seq model, a language model or a classifier.
  std::vector<std::string> texts{};
  /// Of a seq2seq model, of each text: fed to the decoder (teacher forcing). None at all: its own
  /// answers by greedy search.
  std::vector<std::string> targets{};
  /// Of a tagger: the tokens of each sentence.
  std::vector<std::vector<std::string>> sentences{};
  std::vector<Frames> sequences{};  ///< of a model on features
  FeatureVectors features{};        ///< of a language model on features: a vector for each text
};

/// A number of a layer's output. All three are counted from 0.
struct LayerPlace {
  std::int64_t step = 0;
  std::int64_t row = 0;  ///< the input
  std::int64_t unit = 0;
  double value = 0, reference = 0;  ///< of either side
};

/// How the outputs of one layer compare, over all steps of all inputs.
struct LayerCheck {
  std::string name;
  std::int64_t values = 0;  ///< that were compared: padding is not
  std::int64_t beyond = 0;  ///< of them, those that differ by more than the bound
  /// Of |value - reference|; infinite if a number is not finite on one side alone.
  double largest = 0, mean = 0;
  double scale = 0;  ///< the root mean square of the reference
  /// Two numbers agree if |value - reference| <= tolerance * (scale + |reference|), where the scale
  /// is that of the batch which holds them.
  double tolerance = 0;
  std::optional<LayerPlace> largest_at{};  ///< absent if all are equal
  /// The first beyond the bound: the earliest step (for a backward direction, counted from the
  /// row's end), the first row, the first unit.
  std::optional<LayerPlace> first{};
  bool differs() const { return beyond > 0; }
};

/// What a comparison found.
struct CheckReport {
  std::string side, reference;  ///< "float32 on cpu, stack=avx512"; or the file
  std::int64_t inputs = 0;
  std::vector<LayerCheck> layers{};  ///< in the order in which data flow through them
  /// Layers that one side alone shows, and a file's that were not recorded.
  std::vector<std::string> not_compared{};

  /// The first that differs; null if all agree.
  const LayerCheck* first_to_differ() const;
  bool agrees() const { return first_to_differ() == nullptr; }
};

/// A table, the last layer first, and a sentence that names the first layer that differs.
std::string to_text(const CheckReport& report);
/// The same as one JSON object in one line, layers in their order.
std::string to_json(const CheckReport& report);

/// Runs a model on two sides and compares what each of its layers puts out (docs/checking.md). Not
/// thread-safe.
class Checker {
 public:
  /// Opens a checkpoint folder or its model.safetensors, of any kind of model.
  static Checker load(const std::string& path, const CheckSide& side = {},
                      const SegmenterChoice& segmenters = {});
  ~Checker();
  Checker(Checker&&) noexcept;
  Checker& operator=(Checker&&) noexcept;

  /// ModelInfo::kind: what CheckInputs must hold.
  const std::string& kind() const;

  /// Compares with the same model on another side. `tolerance`: of every layer; 0: one that follows
  /// from the precisions of both sides and the layers below. Runs batch by batch, so memory does
  /// not grow with the number of inputs. Throws ErrorCode::kInvalidArgument if there are no inputs
  /// or those of another kind, and for a side that can't run the model; and as the classes of each
  /// kind do.
  CheckReport compare(const CheckSide& reference, const CheckInputs& inputs, double tolerance = 0);

  /// Compares with a file that `record` wrote, or anybody (docs/checking.md). Throws
  /// ErrorCode::kFormat for a damaged file, one of other inputs, or a tensor that is no layer of
  /// the model or of another shape; and as the other.
  CheckReport compare(const std::string& reference_file, const CheckInputs& inputs,
                      double tolerance = 0);

  /// Writes what each layer puts out to a safetensors file, which is in memory until it is whole.
  /// Throws ErrorCode::kIo if the disk refuses.
  void record(const std::string& file, const CheckInputs& inputs);

 private:
  struct State;
  explicit Checker(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Reads what a model of this kind is checked on: lines of text; with `targets` (seq2seq only) a
/// second file, line by line, else lines `source TAB target` if every line is one; CoNLL sentences
/// of a tagger; arrays of a model on features. `features`: of a language model on features. Empty
/// names are none. Throws as the readers of each.
CheckInputs read_check_inputs(const std::string& kind, const std::string& path,
                              const std::string& targets = {}, const std::string& features = {});

}  // namespace sluice
