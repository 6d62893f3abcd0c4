#pragma once

#include "kernels/recurrent/cuda/cell_backward_unit.h"
#include "kernels/recurrent/cuda/cluster_sums.h"

namespace sluice::kernels::recurrent::cuda {

/// A block's tile of the backward step: a column a unit; a warpgroup takes half of them.
struct BackwardTile {
  static constexpr int kUnits = 64, kColumns = kUnits;
  static constexpr int kLeastCluster = 4;
  using Sums = ClusterSums<kColumns>;
  template <typename T>
  using Loop = ProductLoop<T, kColumns>;
};

/// Grid: x units, times the blocks of a cluster; y rows. `gates` [rows, depth] are the next step's
/// gradients, `weights` [H, depth] the transposed ones.
template <typename Cell, typename T>
__global__ void __launch_bounds__(kTileThreads, 3)
    backward_step_kernel(const __grid_constant__ CUtensorMap gates,
                         const __grid_constant__ CUtensorMap weights, const CellBackwardArgs args,
                         const int stages) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kUnits = BackwardTile::kUnits;
  using Loop = BackwardTile::Loop<T>;
  extern __shared__ __align__(1024) float shared[];
  if (threadIdx.x == 0) {
    prefetch_map(weights);
    prefetch_map(gates);
  }
  const int size = static_cast<int>(cluster_size());
  const int first_unit = static_cast<int>(blockIdx.x) / size * kUnits;
  const int first_row = static_cast<int>(blockIdx.y) * kTileRows;
  const auto copy_weights = [&](std::uint32_t to, int depth, std::uint32_t barrier) {
    copy_box(to, weights, depth, first_unit, barrier);
  };
  const auto copy_gates = [&](std::uint32_t to, int depth, std::uint32_t barrier) {
    copy_box(to, gates, depth, first_row, barrier);
  };
  Loop loop(shared + BackwardTile::Sums::kBytes / sizeof(float), stages, copied_rows(args.rows),
            DepthSlice::of(Cell::kGates * args.hidden * static_cast<std::int64_t>(sizeof(T)),
                           static_cast<int>(cluster_rank()), size));
  loop.begin_right(copy_weights);
  cluster_arrive();
  const BackwardTile::Sums sums(shared, min(kTileRows, static_cast<int>(args.rows) - first_row));

  // The units that this thread finishes.
  constexpr int kMost = kTileRows * kUnits / BackwardTile::kLeastCluster / kTileThreads;
  const auto for_units = [&](const auto& body) {
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * kTileThreads;
      const int row = index / kUnits, unit = index % kUnits;
      if (row < sums.rows() && first_unit + unit < args.hidden) {
        body(i, row, unit, std::int64_t{first_row} + sums.first_row() + row,
             std::int64_t{first_unit} + unit);
      }
    }
  };
  UnitBackward values[kMost];
  bool active[kMost];
  float dh[kMost], dc[kMost];
  for_units([&](int i, int, int, std::int64_t row, std::int64_t unit) {
    // Of a row past its length these may be anything, and are not used.
    values[i] = load_unit<Cell, T>(args, row, unit);
    active[i] = is_active(args.lengths, row, args.t);
    dh[i] = 0;
    if (active[i] && args.dy) {
      dh[i] = load(static_cast<const T*>(args.dy) + row * args.dy_stride + unit);
    }
  });

  wait_for_kernel_ahead();
  loop.begin_left(copy_gates);
  let_next_kernel_begin();  // not before, or its weights would come ahead of these gradients
  for_units([&](int i, int, int, std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.hidden + unit;
    if (args.dh) dh[i] += args.dh[at];
    dc[i] = 0;
    if constexpr (Cell::kHasCellState) dc[i] = args.dc[at];
  });
  __syncthreads();  // barriers are there
  const int group = static_cast<int>(threadIdx.x) / 128;
  loop.run(copy_gates, copy_weights, group * (kUnits / 16), 1);

  cluster_wait();  // for the others to have begun
  const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int unit = group * (kUnits / 2) + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kUnits / 8; ++i) {  // of eight units after another, the row or that 8 below
    sums.send(row + i % 2 * 8, unit + i / 2 * 8,
              make_float2(loop.sums[2 * i], loop.sums[2 * i + 1]));
  }
  cluster_arrive();
  cluster_wait();
  for_units([&](int i, int from_row, int from_unit, std::int64_t to_row, std::int64_t to_unit) {
    float product;
    sums.add_up<1>(from_row, from_unit, &product);
    const float whole = dh[i] + product;
    if (active[i]) {
      step_unit<Cell, T>(args, to_row, to_unit, values[i], whole, dc[i]);
    } else {
      skip_unit<Cell, T>(args, to_row, to_unit, whole);
    }
  });
#endif
}

}  // namespace sluice::kernels::recurrent::cuda
