#pragma once

#include <cstdint>
#include <vector>

#include "kernels/recurrent/recurrent.h"

/// The weights of a stack in one buffer of float32, as cuDNN takes them.
namespace sluice::kernels::recurrent {

enum class CudnnBiases { kNone, kInput, kRecurrent, kBoth };

/// A stack that cuDNN runs as one.
struct CudnnStack {
  CellType cell = CellType::kLstm;
  std::int64_t layers = 1, directions = 1;
  std::int64_t input = 0, hidden = 0;
  std::int64_t projection = 0;  ///< P, LSTM only; 0: none
  CudnnBiases biases = CudnnBiases::kBoth;

  std::int64_t output() const { return projection > 0 ? projection : hidden; }
  std::int64_t input_of(std::int64_t layer) const {
    return layer == 0 ? input : directions * output();
  }
};

/// A matrix [rows, columns] or a bias [rows] of one gate, or the projection [P, H].
struct CudnnPart {
  std::int64_t cell = 0;  ///< layer * directions + direction: cuDNN's pseudo-layer
  /// cuDNN's number of a linear layer: the input's G gates, the state's G gates, the projection.
  std::int64_t linear = 0;
  bool is_bias = false;
  std::int64_t rows = 0, columns = 1;
  std::int64_t offset = 0;  ///< in numbers

  std::int64_t size() const { return rows * columns; }
};

struct CudnnLayout {
  std::vector<CudnnPart> parts;
  std::int64_t size = 0;  ///< of the buffer, in numbers
};

/// The layout of cuDNN's standard algorithm: the matrices of all cells, then the biases of all
/// cells, each in the order of `linear`. Throws ErrorCode::kInvalidArgument for sizes out of range
/// and ErrorCode::kUnsupported for cells and projections that cuDNN lacks.
CudnnLayout cudnn_layout(const CudnnStack& stack);

/// The same parts where the device's cuDNN has them. Throws also ErrorCode::kUnsupported if the
/// device has no cuDNN, and ErrorCode::kDevice with cuDNN's own words.
CudnnLayout cudnn_layout(const CudnnStack& stack, runtime::Device& device);

/// A function that needs cuDNN; a device whose build has cuDNN registers it.
struct CudnnPlaces {
  /// Gives parts their offsets and the buffer its size.
  void (*place)(const CudnnStack&, runtime::Device&, CudnnLayout&);
};

}  // namespace sluice::kernels::recurrent
