#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/block.h"

/// How inputs are read ahead, by one thread for all.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// As copy_box() of tensor_copy.h, of a tensor of four extents.
__device__ inline void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, int z,
                                int w, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}

template <typename Memory>
class InputReader {
 public:
  /// `map` of the inputs: [sixteen units][gate of a direction][time and row][unit], boxes of the
  /// block's units, a direction's gates and eight rows.
  __device__ InputReader(const LayerForward& args, const Geometry& geometry, const Part& part,
                         const CUtensorMap& map, int gates, std::uint32_t inputs,
                         const Barriers& barriers)
      : geometry_(geometry),
        map_(map),
        barriers_(barriers),
        inputs_(inputs),
        rows_(args.extent.rows),
        first_row_(part.first_row),
        gate_(part.direction * gates),
        group_(part.rank * Memory::kUnits / kGroupUnits) {}

  /// Begins to copy a tile's inputs at `time`. Padding has those of other rows, which are there to
  /// be read, or zeros.
  __device__ void read(int tile, int time, int slot) const {
    const int eights = geometry_.columns(tile) / kEight;
    const std::uint32_t full = barriers_.inputs_full(slot);
    std::uint32_t to = inputs_ + slot * Memory::slot_bytes(geometry_);
    int line = time * rows_ + first_row_ + geometry_.first_column(tile);
    arrive_and_expect(full, eights * Memory::kInputBytes);
#pragma unroll 1
    for (int i = 0; i < eights; ++i) {
      copy_box(to, map_, 0, line, gate_, group_, full);
      to += Memory::kInputBytes;
      line += kEight;
    }
  }

 private:
  const Geometry& geometry_;
  const CUtensorMap& map_;
  const Barriers& barriers_;
  const std::uint32_t inputs_;
  const int rows_, first_row_, gate_, group_;
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
