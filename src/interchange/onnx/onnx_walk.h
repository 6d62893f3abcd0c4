#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/onnx/onnx_budget.h"
#include "interchange/onnx/onnx_value.h"

namespace sluice::interchange::onnx {

/// Walks the nodes of a graph in order and keeps what is known about each value.
class Walk {
 public:
  /// `opset` is the version of ONNX's operators.
  Walk(const std::filesystem::path& model, std::int64_t opset, Account& account)
      : path_(model), opset_(opset), account_(account) {}

  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  /// A graph input, whose axes have no meaning yet.
  void add_input(const io::formats::OnnxValue& input);
  /// The input of a recurrent node that is taken alone: time, batch and features. From now on,
  /// values that are not known may be lengths and initial states.
  void add_features(const std::string& name, bool is_batch_first);

  /// Computes the outputs of a node. Throws ErrorCode::kUnsupported, naming the node, for what is
  /// not read.
  void visit(const io::formats::OnnxNode& node);
  /// The operators that visit() knows.
  static bool knows(const io::formats::OnnxNode& node);

  /// Null if nothing is known about it.
  const Value* find(std::string_view name) const;
  /// The layer whose output `data` is, with the pooling that it reads; `reader` for messages.
  StepPointer settle(const Data& data, const std::string& reader);
  /// The recurrent layer that was visited last; null if there is none.
  const StepPointer& last_recurrent() const { return last_recurrent_; }
  /// The meaning of an axis, as far as it is known.
  Axis resolve(Axis axis) const;
  /// "[time, batch, features]"
  std::string describe_axes(const std::vector<Axis>& axes) const;

 private:
  using Node = io::formats::OnnxNode;

  // onnx_walk.cpp
  const Value* input(const Node& node, std::size_t index) const;
  const Data* data_input(const Node& node, std::size_t index) const;
  const Data& require_data(const Node& node, std::size_t index) const;
  std::optional<Constant> constant_input(const Node& node, std::size_t index) const;
  std::optional<Numbers> numbers_input(const Node& node, std::size_t index) const;
  /// Known integers only.
  std::optional<std::vector<std::int64_t>> integers_input(const Node& node,
                                                          std::size_t index) const;
  std::optional<std::int64_t> integer_input(const Node& node, std::size_t index) const;
  /// A constant as float32.
  io::HostTensor load(const Node& node, const Constant& constant);
  bool is_zero(const Node& node, const Constant& constant);
  void put(const Node& node, Value value, std::size_t output = 0);
  bool try_constants(const Node& node);
  bool is_trivial(const Data& data, const Axis& axis) const;
  std::optional<std::int64_t> width_of(const Data& data) const;
  std::optional<std::int64_t> size_of(const Data& data, const Axis& axis) const;
  /// Gives an axis a meaning; refuses if it has another.
  void require(const Node& node, const Data& data, std::size_t index, Axis::Kind kind);
  void require_features_last(const Node& node, const Data& data);
  StepPointer join_pieces(const Data& data, const std::string& reader) const;
  StepPointer read_last(const StepPointer& step, const std::string& reader);
  StepPointer append(StepPointer before, SourceLayer layer, std::optional<std::int64_t> width);
  Data output_of(StepPointer step, std::vector<Axis> axes, std::vector<Axis> rows = {}) const;

  // onnx_shape_nodes.cpp
  void shape(const Node& node);
  bool try_numbers(const Node& node);
  bool try_zeros(const Node& node);

  // onnx_axis_nodes.cpp
  void transpose(const Node& node);
  void squeeze(const Node& node);
  void unsqueeze(const Node& node);
  void reshape(const Node& node);
  void flatten(const Node& node);
  void regroup(const Node& node, const Data& data, const std::vector<Number>& wanted);
  Data with_rows_apart(const Data& data, std::size_t wanted) const;
  std::optional<Data> with_rows_joined(const Data& data, const std::vector<Number>& wanted) const;
  void same(const Node& node);
  static void cast(const Node& node, Data& data);

  // onnx_selection_nodes.cpp
  void gather(const Node& node);
  void slice(const Node& node);
  void split(const Node& node);
  void concat(const Node& node);
  void reduce(const Node& node);
  /// Keeps [first, last) of an axis; a negative number counts from its end.
  void select(const Node& node, Data& data, std::size_t axis, std::int64_t first,
              std::int64_t last);
  void select_pieces(const Node& node, Data& data, std::int64_t first, std::int64_t last,
                     bool by_features) const;
  void read_time(Data& data, bool is_last);
  void select_step(const Node& node, Data& data, std::size_t axis, bool is_last, bool keeps);

  // onnx_layer_nodes.cpp
  void recurrent(const Node& node);
  void check_lengths(const Node& node, const Data& data, std::size_t time_axis);
  bool check_state(const Node& node, std::size_t index, const char* name);
  void note_input(const std::string& name, std::string_view what);
  void embed(const Node& node, const Data& ids);
  void matmul(const Node& node);
  void gemm(const Node& node);
  void elementwise(const Node& node);
  void normalize(const Node& node);
  void activation(const Node& node);
  void sluice_pooling(const Node& node);
  std::vector<float> vector_of(const Node& node, const Constant& constant, std::int64_t width);

  const std::filesystem::path path_;
  const std::int64_t opset_;
  Account& account_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::optional<Axis::Kind>> meanings_;       // of axes of graph inputs
  std::vector<std::optional<std::int64_t>> input_sizes_;  // of the same
  std::set<std::string, std::less<>> noted_;              // inputs that the account names
  Budget budget_;
  bool has_lengths_ = false;
  bool takes_alone_ = false;
  StepPointer last_recurrent_;

  friend struct Operators;
};

}  // namespace sluice::interchange::onnx
