#pragma once

#include "kernels/recurrent/cuda/cell_forward_unit.h"
#include "kernels/recurrent/cuda/cluster_sums.h"

namespace sluice::kernels::recurrent::cuda {

/// A block's tile of the forward step: all gates of kUnits units. Columns of the product are lines
/// of weights, gate by gate; a warpgroup takes eight units of each gate, so that a thread has all
/// gates of its units (the GRU's fourth is zero).
struct ForwardTile {
  static constexpr int kUnits = 16, kGates = 4, kColumns = kGates * kUnits;
  static constexpr int kLeastCluster = 2;
  using Sums = ClusterSums<kColumns>;
  template <typename T>
  using Loop = ProductLoop<T, kColumns>;
};

/// Where the input's products are still to be added.
template <typename Cell>
__device__ void load_biases(const CellForwardArgs& args, std::int64_t unit, UnitForward& values) {
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) values.inputs[g] = args.bias[g * args.hidden + unit];
  if constexpr (!Cell::kHasCellState) values.bias_hn = args.bias_hn[unit];
}

/// What a block multiplies: h [rows, H] with weights [G, H, H], or the input with its weights [G,
/// H, input].
struct ForwardFactors {
  const CUtensorMap &left, &weights;
  DepthSlice slice;
  /// Of kInputToo: whether the left one is the input.
  bool of_input;
};

/// `kInputToo`: half of a cluster's blocks multiply the input.
template <typename Cell, typename T, bool kInputToo>
__device__ void step_forward(const ForwardFactors& factors, const CellForwardArgs& args,
                             const int stages) {
  constexpr int kUnits = ForwardTile::kUnits;
  using Loop = ForwardTile::Loop<T>;
  extern __shared__ __align__(1024) float shared[];
  if (threadIdx.x == 0) {
    prefetch_map(factors.weights);
    prefetch_map(factors.left);
  }
  const int size = static_cast<int>(cluster_size());
  const int first_unit = static_cast<int>(blockIdx.x) / size * kUnits;
  const int first_row = static_cast<int>(blockIdx.y) * kTileRows;
  const auto copy_weights = [&](std::uint32_t to, int depth, std::uint32_t barrier) {
    copy_box(to, factors.weights, depth, first_unit, 0, barrier);
  };
  const auto copy_left = [&](std::uint32_t to, int depth, std::uint32_t barrier) {
    copy_box(to, factors.left, depth, first_row, barrier);
  };
  Loop loop(shared + ForwardTile::Sums::kBytes / sizeof(float), stages, copied_rows(args.rows),
            factors.slice);
  loop.begin_right(copy_weights);
  cluster_arrive();
  const ForwardTile::Sums sums(shared, min(kTileRows, static_cast<int>(args.rows) - first_row));

  // The units that this thread finishes.
  constexpr int kMost = kTileRows * kUnits / ForwardTile::kLeastCluster / kTileThreads;
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
  UnitForward before[kMost];
  bool active[kMost];
  for_units([&](int i, int, int, std::int64_t row, std::int64_t unit) {
    if constexpr (kInputToo) {
      load_biases<Cell>(args, unit, before[i]);
    } else {
      load_inputs<Cell>(args, row, unit, before[i]);
    }
    active[i] = is_active(args.lengths, row, args.t);
  });

  wait_for_kernel_ahead();
  loop.begin_left(copy_left);
  let_next_kernel_begin();  // not before, or its weights would come ahead of this h
  for_units([&](int i, int, int, std::int64_t row, std::int64_t unit) {
    load_state<Cell, T>(args, row, unit, before[i]);
  });
  __syncthreads();  // barriers are there
  const int group = static_cast<int>(threadIdx.x) / 128;
  loop.run(copy_left, copy_weights, group, kUnits / 8);

  cluster_wait();  // for the others to have begun
  const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int unit = group * 8 + threadIdx.x % 4 * 2;
  // The GRU's n needs the product of h apart from that of the input: it goes to the fourth place.
  const bool apart = kInputToo && !Cell::kHasCellState && !factors.of_input;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // the row or that 8 below, the unit or the next
    const float third = loop.sums[8 + i], fourth = loop.sums[12 + i];
    sums.send(row + i / 2 * 8, (unit + i % 2) * 4,
              make_float4(loop.sums[i], loop.sums[4 + i], apart ? fourth : third,
                          apart ? third : fourth));
  }
  cluster_arrive();
  cluster_wait();
  for_units([&](int i, int from_row, int from_unit, std::int64_t to_row, std::int64_t to_unit) {
    if (active[i]) {
      float products[4];
      sums.add_up<4>(from_row, 4 * from_unit, products);
      if constexpr (kInputToo && !Cell::kHasCellState) {
        before[i].inputs[2] += products[2];
        products[2] = products[3];
      }
      step_unit<Cell, T>(args, to_row, to_unit, before[i], products);
    } else {
      skip_unit<Cell, T>(args, to_row, to_unit);
    }
  });
}

/// Grid: x units, times the blocks of a cluster; y rows.
template <typename Cell, typename T>
__global__ void __launch_bounds__(kTileThreads, 3)
    forward_step_kernel(const __grid_constant__ CUtensorMap h,
                        const __grid_constant__ CUtensorMap weights, const CellForwardArgs args,
                        const int stages) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const auto slice =
      DepthSlice::of(args.hidden * static_cast<std::int64_t>(sizeof(T)),
                     static_cast<int>(cluster_rank()), static_cast<int>(cluster_size()));
  step_forward<Cell, T, false>({h, weights, slice, false}, args, stages);
#endif
}

/// The factors of the input's product, then of the recurrent one.
struct InputAndState {
  CUtensorMap left[2], weights[2];
  std::int64_t depth_bytes[2];
};

/// The same with the input's product.
template <typename Cell, typename T>
__global__ void __launch_bounds__(kTileThreads, 3)
    forward_step_with_input_kernel(const __grid_constant__ InputAndState factors,
                                   const CellForwardArgs args, const int stages) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const int half = static_cast<int>(cluster_size()) / 2, rank = static_cast<int>(cluster_rank());
  const int product = rank / half;
  const auto slice = DepthSlice::of(factors.depth_bytes[product], rank % half, half);
  step_forward<Cell, T, true>(
      {factors.left[product], factors.weights[product], slice, product == 0}, args, stages);
#endif
}

}  // namespace sluice::kernels::recurrent::cuda
