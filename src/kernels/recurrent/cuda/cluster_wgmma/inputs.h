#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/forward_cells.h"
#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"

/// The warps that read inputs ahead.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

inline constexpr int kReadingThreads = 64;

/// Copies the inputs of the tile's rows that have a step at `time` to `to`; `thread` of those that
/// read.
template <typename Cell, int kGroups>
__device__ void read_inputs(const LayerForward& args, const Part& part, const int* lengths,
                            int first, int columns, int time, std::uint32_t to, int thread) {
  using Memory = BlockMemory<kGroups>;
  constexpr int kPieces = Memory::kUnits / 4, kRowPieces = Cell::kGates * kPieces;
  const int hidden = args.extent.hidden, width = Cell::kGates * hidden;
  const int unit = part.rank * Memory::kUnits;
  const int stride = args.extent.directions * width;
  const int rows = min(columns, part.rows - first);
  const float* from = args.input + part.direction * width + unit +
                      static_cast<std::int64_t>(time * args.extent.rows + part.first_row + first) *
                          stride;
#pragma unroll 1
  for (int i = thread; i < rows * kRowPieces; i += kReadingThreads) {
    const int row = i / kRowPieces, gate = i % kRowPieces / kPieces, piece = i % kPieces;
    if (unit + piece * 4 >= hidden || time >= lengths[first + row]) continue;
    const int place = place_of_gate(Cell::kHasCellState || gate < 2 ? gate : 3);
    persistent::copy_four_ahead(
        to + (row * Memory::kInputStride + place * Memory::kGateStride + piece * 4) * 4,
        from + row * stride + gate * hidden + piece * 4);
  }
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
