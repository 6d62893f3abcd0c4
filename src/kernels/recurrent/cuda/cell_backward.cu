#include "kernels/recurrent/cuda/cell_backward_unit.h"
#include "kernels/recurrent/cuda/dispatch_scaled_cell.h"
#include "kernels/recurrent/cuda/last_step.h"
#include "kernels/recurrent/cuda/scaled_cells.h"
#include "kernels/recurrent/cuda/scaled_row.h"
#include "runtime/cuda/scale.h"

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

constexpr int kLanes = 32, kRowBlock = 32 * kLanes;

/// to [columns] = from * up, as float16.
__device__ void scale_row(void* to, const float* from, std::int64_t columns, float up) {
  for (std::int64_t k = threadIdx.x * kFactorGroup; k < columns; k += kRowBlock * kFactorGroup) {
    const FactorGroup group = *reinterpret_cast<const FactorGroup*>(from + k);
    store_scaled(static_cast<__half*>(to) + k, group, up);
  }
}

/// A block has a row, whose gate gradients wait in shared memory, [gates, H], until it knows the
/// largest; behind them those for the recurrent product of n, where they differ.
template <typename Cell>
__global__ void __launch_bounds__(kRowBlock)
    scaled_backward_kernel(const CellBackwardArgs args, const ScaledProduct product,
                           const ScaledGates to) {
  extern __shared__ __align__(16) float gates[];
  // Of a thread, on their way from memory together: as many as its registers hold.
  constexpr int kUnits = Cell::kHasCellState ? 2 : 3;
  const std::int64_t row = blockIdx.x, hidden = args.hidden, last = Cell::kGates - 1;
  const bool active = is_active(args.lengths, row, args.t);
  const auto* dy = active ? static_cast<const float*>(args.dy) : nullptr;
  const float product_scale = product.values ? product.scales[row] : 0.0f;
  float largest = 0;
  for (std::int64_t first = threadIdx.x; first < hidden; first += kUnits * kRowBlock) {
    UnitBackward values[kUnits];
    float direct[kUnits], products[kUnits], from_output[kUnits], dc[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const std::int64_t unit = min(first + i * kRowBlock, hidden - 1), at = row * hidden + unit;
      values[i] = load_unit<Cell, float>(args, row, unit);
      direct[i] = args.dh ? args.dh[at] : 0.0f;
      products[i] = product.values ? product.values[at] : 0.0f;
#pragma unroll
      for (int part = 1; part < Cell::kGates; ++part) {
        if (part < product.parts) products[i] += product.values[part * product.part_width + at];
      }
      from_output[i] = dy ? dy[row * args.dy_stride + unit] : 0.0f;
      dc[i] = 0;
      if constexpr (Cell::kHasCellState) dc[i] = args.dc[at];
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const std::int64_t unit = first + i * kRowBlock;
      if (unit >= hidden) continue;
      const float dh = direct[i] + products[i] * product_scale + from_output[i];
      const auto put = [&](int g, float d_gate, float d_recurrent) {
        gates[g * hidden + unit] = d_gate;
        if (Cell::kProductsApart && g == last) gates[Cell::kGates * hidden + unit] = d_recurrent;
        largest = fmaxf(largest, fmaxf(fabsf(d_gate), fabsf(d_recurrent)));
      };
      if (active) {
        step_unit<Cell>(args, row, unit, values[i], dh, dc[i], put);
      } else {
        skip_unit<Cell>(args, row, unit, dh, put);
      }
    }
  }
  const unsigned bits =
      largest_of_block(__float_as_uint(largest), threadIdx.x / kLanes, threadIdx.x % kLanes);
  const runtime::cuda::Scale scale(__uint_as_float(bits));
  const std::int64_t width = Cell::kGates * hidden;
  scale_row(static_cast<__half*>(to.d_input) + row * width, gates, width, scale.up);
  if constexpr (Cell::kProductsApart) {
    __half* d_recurrent = static_cast<__half*>(to.d_recurrent) + row * width;
    scale_row(d_recurrent, gates, last * hidden, scale.up);
    scale_row(d_recurrent + last * hidden, gates + width, hidden, scale.up);
  }
  if (threadIdx.x == 0) to.scales[row] = scale.down;
}

}  // namespace

void cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args) {
  queue<false>(stream, kind, args, nullptr);
}

void last_cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                        const void* dhn) {
  queue<true>(stream, kind, args, dhn);
}

void scaled_cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                          const ScaledProduct& product, const ScaledGates& to) {
  dispatch_scaled_cell(kind, [&](auto cell) {
    using Cell = typename decltype(cell)::type;
    const auto kernel = scaled_backward_kernel<Cell>;
    const auto bytes = static_cast<int>(static_cast<std::int64_t>(sizeof(float)) *
                                        (Cell::kGates + Cell::kProductsApart) * args.hidden);
    runtime::cuda::check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "queue the pointwise kernel of a recurrent step");
    kernel<<<static_cast<unsigned>(args.rows), kRowBlock, static_cast<std::size_t>(bytes),
             stream>>>(args, product, to);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
