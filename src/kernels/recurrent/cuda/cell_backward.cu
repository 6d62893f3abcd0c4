#include "kernels/recurrent/cuda/cell_backward_unit.h"
#include "kernels/recurrent/cuda/dispatch_scaled_cell.h"
#include "kernels/recurrent/cuda/last_step.h"
#include "kernels/recurrent/cuda/scaled_cells.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// Where what later steps give to the gradient of a step's h is.
struct FromLater {
  template <typename T>
  __device__ float load_dh(const CellBackwardArgs& args, std::int64_t row,
                           std::int64_t unit) const {
    return args.dh[row * args.hidden + unit];
  }
};
struct FromLast {
  const void* dhn;

  template <typename T>
  __device__ float load_dh(const CellBackwardArgs& args, std::int64_t row,
                           std::int64_t unit) const {
    const auto* last = static_cast<const T*>(dhn);
    return last ? load(last + row * args.hidden + unit) : 0.0f;
  }
};
struct FromScaled {
  ScaledProduct product;

  template <typename T>
  __device__ float load_dh(const CellBackwardArgs& args, std::int64_t row,
                           std::int64_t unit) const {
    const std::int64_t at = row * args.hidden + unit;
    const float dh = product.values[at] * product.scales[row];
    return args.dh ? args.dh[at] + dh : dh;
  }
};

template <typename Cell, typename T, typename From>
__global__ void backward_kernel(const CellBackwardArgs args, const From from) {
  const std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= args.hidden) return;
  // Of a row past its length these may be anything, and are not used.
  UnitBackward values = load_unit<Cell, T>(args, blockIdx.y, unit);
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    if (row != blockIdx.y) values = load_unit<Cell, T>(args, row, unit);
    const bool active = is_active(args.lengths, row, args.t);
    const float dh =
        whole_dh<T>(args, row, unit, active, from.template load_dh<T>(args, row, unit));
    if (active) {
      float dc = 0;
      if constexpr (Cell::kHasCellState) dc = args.dc[row * args.hidden + unit];
      step_unit<Cell, T>(args, row, unit, values, dh, dc);
    } else {
      skip_unit<Cell, T>(args, row, unit, dh);
    }
  }
}

template <typename From>
void queue(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
           const From& from) {
  const dim3 grid = cell_grid(args.rows, args.hidden);
  if constexpr (std::is_same_v<From, FromScaled>) {
    dispatch_scaled_cell(kind, [&](auto cell) {
      using Cell = typename decltype(cell)::type;
      backward_kernel<Cell, float><<<grid, kCellBlock, 0, stream>>>(args, from);
    });
  } else {
    dispatch_cell(kind, [&](auto cell, auto storage) {
      using Cell = typename decltype(cell)::type;
      using T = typename decltype(storage)::type;
      backward_kernel<Cell, T><<<grid, kCellBlock, 0, stream>>>(args, from);
    });
  }
  check_cell_launch();
}

}  // namespace

void cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args) {
  queue(stream, kind, args, FromLater{});
}

void last_cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                        const void* dhn) {
  queue(stream, kind, args, FromLast{dhn});
}

void scaled_cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                          const ScaledProduct& product) {
  queue(stream, kind, args, FromScaled{product});
}

}  // namespace sluice::kernels::recurrent::cuda
