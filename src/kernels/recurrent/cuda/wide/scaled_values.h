#pragma once

#include "kernels/recurrent/cuda/wide/cell_place.h"
#include "kernels/recurrent/cuda/wide/row_exponents.h"

/// How gate gradients of TF32 are published. The warps that evaluate cells store them unscaled and
/// go on. The publishing warp waits for the scales that blocks agree on, scales the gradients and
/// writes them to the exchange.
namespace sluice::kernels::recurrent::cuda::wide {

/// Where they wait, a place for each of the tiles that take turns: [gate][place of a row][unit];
/// and what takes the scale of a row back, for when its product comes.
class ScaledValues {
 public:
  __device__ ScaledValues(std::byte* waiting, std::byte* scales)
      : waiting_(reinterpret_cast<float*>(waiting)), scales_(reinterpret_cast<float*>(scales)) {}

  /// Of a row's units from `unit` on.
  __device__ float* at(int tile, int gate, int place, int unit) const {
    return waiting_ + ((tile * 4 + gate) * kTileRows + place) * kUnits + unit;
  }
  __device__ float& down(int tile, int place) const { return scales_[tile * kTileRows + place]; }

 private:
  float *waiting_, *scales_;
};

/// Eight neighbours times a scale, as factors.
template <typename T>
__device__ uint4 scale_eight(const float* from, float up) {
  const float4 a = *reinterpret_cast<const float4*>(from);
  const float4 b = *reinterpret_cast<const float4*>(from + 4);
  return make_uint4(Pair<T>(a.x * up, a.y * up).bits, Pair<T>(a.z * up, a.w * up).bits,
                    Pair<T>(b.x * up, b.y * up).bits, Pair<T>(b.z * up, b.w * up).bits);
}

/// Hides the value from the compiler, which would otherwise compute from it ahead of a loop and
/// take registers.
__device__ inline Part keep(Part part) {
  asm volatile(""
               : "+r"(part.direction), "+r"(part.chunk), "+r"(part.quarter), "+r"(part.first_tile));
  return part;
}

/// One of the warps that publish scaled values; they take tiles in turns. See announce_items. All
/// `items` are also written for the weight gradients; only those `announced` go to other blocks.
template <typename T, typename Cell, int kWarps>
__device__ void announce_scaled_items(const LayerBackward& args, const Geometry& geometry,
                                      const Part& all, const Items& items, const Items& announced,
                                      const int* steps, const ScaledValues& scaled,
                                      const Barriers& barriers, int warp) {
  constexpr int kGates = Cell::kGates;
  constexpr bool kWrites = Cell::kHasCellState;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Item item = items.first(); items.has(item); item = items.after(item)) {
    if (item.tile % kWarps != warp) continue;
    const Part part = keep(all);
    wait_for_phase(barriers.written(item.tile), item.number % 2);
    const int directions = args.extent.directions;
    const persistent::Scale scale(
        RowExponents(geometry, directions, part).largest(item.number, item.tile));
    scaled.down(item.tile, lane) = scale.down;
    const bool hands_on = item.number < announced.count(item.tile);
    std::byte* to_tile =
        Values(geometry, directions, part, part.chunk, 0).at(item.number, item.tile);
    // Of the tile's first row at that time.
    const int first_row = (part.first_tile + item.tile) * kTileRows;
    const int line = (steps[item.tile] - 1 - item.number) * args.extent.rows + first_row;
    const int rows = kWrites && args.d_scaled ? args.extent.rows - first_row : 0;
    if (kWrites && part.block() == 0 && row_at(lane) < rows) {
      args.row_scales[line + row_at(lane)] = scale.down;
    }
    // Two lanes have a row's units of a gate.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = half * 16 + lane / 2, row = row_at(place), eight = lane % 2;
      const float up = __shfl_sync(~0u, scale.up, place);
      if (place / 8 * 8 >= geometry.lines) continue;
      std::byte* to = to_tile + row * 128 + ((part.quarter * 2 + eight) ^ row % 8) * 16;
      const int unit = part.block() * kUnits + eight * 8, hidden = args.extent.hidden;
      const bool writes = kWrites && row < rows && unit < hidden;
      T* beside = static_cast<T*>(args.d_scaled) + multiply_wide(line + row, kGates * hidden, unit);
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        const uint4 values = scale_eight<T>(scaled.at(item.tile, g, place, eight * 8), up);
        if (hands_on) *reinterpret_cast<uint4*>(to) = values;
        if (writes) *reinterpret_cast<uint4*>(beside) = values;
        to += geometry.chunks * geometry.chunk_bytes();
        beside += hidden;
      }
    }
    __syncwarp();
    if (lane == 0 && hands_on) announce(Announced(geometry, part, part.chunk).counter(item.tile));
  }
}

}  // namespace sluice::kernels::recurrent::cuda::wide
