#include "kernels/recurrent/cuda/cell_backward_unit.h"
#include "kernels/recurrent/cuda/last_step.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// The whole gradient of the last step's h.
template <typename T>
__device__ float load_last_dh(const CellBackwardArgs& args, const void* dhn, std::int64_t row,
                              std::int64_t unit, bool active) {
  const auto* last = static_cast<const T*>(dhn);
  const float dh = last ? load(last + row * args.hidden + unit) : 0.0f;
  if (!active || args.dy == nullptr) return dh;
  return dh + load(static_cast<const T*>(args.dy) + row * args.dy_stride + unit);
}

template <typename Cell, typename T, bool kLast>
__global__ void backward_kernel(const CellBackwardArgs args, const void* dhn) {
  const std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= args.hidden) return;
  // Of a row past its length these may be anything, and are not used.
  UnitBackward values = load_unit<Cell, T>(args, blockIdx.y, unit);
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    if (row != blockIdx.y) values = load_unit<Cell, T>(args, row, unit);
    const bool active = is_active(args.lengths, row, args.t);
    const float dh =
        kLast ? load_last_dh<T>(args, dhn, row, unit, active) : load_dh<T>(args, row, unit, active);
    if (active) {
      float dc = 0;
      if constexpr (Cell::kHasCellState) dc = args.dc[row * args.hidden + unit];
      step_unit<Cell, T>(args, row, unit, values, dh, dc);
    } else {
      skip_unit<Cell, T>(args, row, unit, dh);
    }
  }
}

template <bool kLast>
void queue(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
           const void* dhn) {
  dispatch_cell(kind, [&](auto cell, auto storage) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(storage)::type;
    backward_kernel<Cell, T, kLast>
        <<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args, dhn);
  });
  check_cell_launch();
}

}  // namespace

void cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args) {
  queue<false>(stream, kind, args, nullptr);
}

void last_cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                        const void* dhn) {
  queue<true>(stream, kind, args, dhn);
}

}  // namespace sluice::kernels::recurrent::cuda
