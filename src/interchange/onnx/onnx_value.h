#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "interchange/source_model.h"
#include "io/formats/onnx/onnx_file.h"

/// What the reader of ONNX knows about the values of a graph.
namespace sluice::interchange::onnx {

/// The meaning of a tensor's axis. An axis of a graph input has none until a node gives it one.
struct Axis {
  /// kRows: the two axes Data::rows in one, as a reshape to [-1, features] makes it.
  enum class Kind { kInput, kTime, kBatch, kDirection, kFeature, kOne, kRows };
  Kind kind = Kind::kOne;
  std::size_t input = 0;  ///< of kInput: which axis

  bool operator==(const Axis&) const = default;
};

/// A layer and the layers before it. Chains share their beginnings.
struct Step {
  std::shared_ptr<const Step> before = {};
  std::shared_ptr<SourceLayer> layer = {};  ///< null: the graph input `name`
  std::string name;
  std::optional<std::int64_t> width = {};  ///< of the features; absent: not known
  std::size_t depth = 0;
  /// What later nodes add to a linear layer, whose large weight is not copied.
  std::optional<io::HostTensor> bias = {};
  std::optional<Activation> activation = {};
};
using StepPointer = std::shared_ptr<const Step>;

/// Which features of a step's output: all, or those of a direction of a recurrent layer.
enum class Part { kWhole, kForward, kBackward };
/// Which time steps: all, the one that a direction processes last, or its first one.
enum class Read { kAll, kFinal, kFirst };

/// Some of the features of a step's output.
struct Piece {
  StepPointer step;
  Part part = Part::kWhole;
  Read read = Read::kAll;
  std::optional<std::int64_t> width = {};
};

/// A tensor that depends on the input. The pieces stand along the direction axis if there is one,
/// else along the features.
struct Data {
  std::vector<Piece> pieces;
  std::vector<Axis> axes;
  std::vector<Axis> rows = {};  ///< two, if `axes` has a kRows
  bool is_cell_state = false;
  bool is_cut = false;      ///< only some of a graph input's numbers
  bool is_integer = false;  ///< a Cast made integers of a graph input: ids
};

/// A number of a shape: known, the size of an axis or of two axes, or neither.
struct Number {
  std::optional<std::int64_t> value = {};
  std::optional<Axis> axis = {};
  std::optional<Axis> times = {};  ///< the second axis of a product
};
/// A scalar or a vector of integers that describes shapes.
struct Numbers {
  std::vector<Number> values;
  bool is_scalar = false;
  bool is_spread = false;  ///< one number, repeated
};

/// A tensor of the file, or one computed of such.
struct Constant {
  const io::formats::OnnxTensor* stored = nullptr;
  std::shared_ptr<const io::HostTensor> made = {};
};
/// Zeros of any shape.
struct Zeros {};

using Value = std::variant<Data, Numbers, Constant, Zeros>;

}  // namespace sluice::interchange::onnx
