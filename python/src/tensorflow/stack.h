#pragma once

#include <sluice.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::tensorflow {

namespace tf = ::tensorflow;

/// Where one of an op's weights belongs, and its shape.
struct WeightPlace {
  std::size_t index;  ///< layer * directions + direction
  void* sluice_recurrent_weights::*member;
  std::vector<std::int64_t> shape;  ///< kInputWidth stands for the features of x
};

/// In a shape: as many as x has features.
inline constexpr std::int64_t kInputWidth = -1;

/// The attributes that both ops have: a stack of layers, without the extent of a run.
struct Stack {
  std::string cell;
  std::vector<std::int64_t> hidden;      ///< units of each layer
  std::vector<std::int64_t> projection;  ///< projected width of each layer; empty: none
  std::int64_t directions = 1;
  std::vector<std::string> weight_kinds;  ///< of each weight; a "weight_ih" begins a direction
  bool batch_first = false;
  bool training = false;  ///< of the plan: backward is called, and dropout and zoneout draw
  float dropout = 0, zoneout_h = 0, zoneout_c = 0, recurrent_dropout = 0;
  bool hard_sigmoid = false;
  std::string implementation;

  std::vector<WeightPlace> weights;  ///< of all weights, in their order

  std::int64_t states() const { return layers() * directions; }
  std::int64_t layers() const { return static_cast<std::int64_t>(hidden.size()); }
  bool is_lstm() const { return cell == "lstm"; }
  const std::vector<std::int64_t>& outputs() const {
    return projection.empty() ? hidden : projection;
  }
  std::int64_t y_width() const { return directions * outputs().back(); }
  bool has(const char* kind) const;

  /// [layers*directions, rows, width] where all widths are equal. Else the states of all layers,
  /// each [directions, rows, width], lie one after the other: [elements]. Fails if 64 bits do not
  /// hold the number of elements.
  absl::Status state_shape(const std::vector<std::int64_t>& widths, std::int64_t rows,
                           tf::TensorShape* shape) const;
  absl::Status h_shape(std::int64_t rows, tf::TensorShape* shape) const {
    return state_shape(outputs(), rows, shape);
  }
  /// [0] for cells without c.
  absl::Status c_shape(std::int64_t rows, tf::TensorShape* shape) const;

  /// The plan's options, which point into this object.
  sluice_recurrent_options options() const;
};

/// Reads the attributes from an OpKernelConstruction or a shape_inference::InferenceContext.
template <typename Attributes>
absl::Status read_stack(Attributes& attributes, Stack* stack);

extern template absl::Status read_stack(tf::OpKernelConstruction&, Stack*);
extern template absl::Status read_stack(tf::shape_inference::InferenceContext&, Stack*);

}  // namespace sluice::tensorflow
