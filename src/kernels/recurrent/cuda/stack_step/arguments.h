#pragma once

#include "kernels/recurrent/cuda/cell_extras.h"
#include "kernels/recurrent/cuda/cell_kernels.h"

/// Forward steps of several layers of an LSTM in float32, for some rows each, as one kernel: the
/// products by parts of bfloat16 (kernels/matmul/cuda/by_parts), of state and input as one, and the
/// cell where a tile's sums are. None of a kernel's steps waits for another one.
namespace sluice::kernels::recurrent::cuda::stack_step {

inline constexpr int kTileRows = 128, kTileUnits = 32;  ///< of a block, which has one tile
inline constexpr int kMostSteps = 12;                   ///< of a kernel

/// A layer's step for the tiles of kTileRows rows. Pointers are multiples of 16 bytes, and so are
/// rows.
struct LayerStep {
  int first_row;
  const float* state;          ///< [rows, H]
  const float* state_weights;  ///< [4*H, H]
  const float* input;          ///< [rows, H]; null: the cell reads its products
  const float* input_weights;  ///< [4*H, H]
  CellForwardArgs cell;        ///< its `input` is null if that above isn't; `recurrent` isn't read
  bool drops;                  ///< elements of y out, as elementwise/cuda/dropout.h does
  runtime::DropoutSource dropout;
};

struct StackStep {
  int rows, hidden;
  Rate dropout;
  const std::int32_t* row_ids;  ///< null: the row index
  int count;
  LayerStep steps[kMostSteps];
};

}  // namespace sluice::kernels::recurrent::cuda::stack_step
