#pragma once

#include "kernels/recurrent/cuda/wide/cell_place.h"
#include "kernels/recurrent/cuda/wide/row_exponents.h"

/// How gate gradients of TF32 are handed on. Whoever evaluates cells lays them down as they are and
/// goes on; the warp that announces them waits for the scales that blocks agree on, scales them and
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

/// The same as something that isn't reckoned with ahead of a loop, where it would take registers.
__device__ inline Part keep(Part part) {
  asm volatile(""
               : "+r"(part.direction), "+r"(part.chunk), "+r"(part.quarter), "+r"(part.first_tile));
  return part;
}

/// One of the announcing warps, of values that are scaled, which take tiles in turns: see
/// announce_items.
template <typename T, int kGates, int kWarps>
__device__ void announce_scaled_items(const Geometry& geometry, int directions, const Part& all,
                                      const Items& items, const ScaledValues& scaled,
                                      const Barriers& barriers, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Item item = items.first(); items.has(item); item = items.after(item)) {
    if (item.tile % kWarps != warp) continue;
    const Part part = keep(all);
    wait_for_phase(barriers.written(item.tile), item.number % 2);
    const persistent::Scale scale(
        RowExponents(geometry, directions, part).largest(item.number, item.tile));
    scaled.down(item.tile, lane) = scale.down;
    std::byte* to_tile =
        Values(geometry, directions, part, part.chunk, 0).at(item.number, item.tile);
    // Two lanes have a row's units of a gate.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = half * 16 + lane / 2, row = row_at(place), eight = lane % 2;
      const float up = __shfl_sync(~0u, scale.up, place);
      if (place / 8 * 8 >= geometry.lines) continue;
      std::byte* to = to_tile + row * 128 + ((part.quarter * 2 + eight) ^ row % 8) * 16;
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        *reinterpret_cast<uint4*>(to) =
            scale_eight<T>(scaled.at(item.tile, g, place, eight * 8), up);
        to += geometry.chunks * geometry.chunk_bytes();
      }
    }
    __syncwarp();
    if (lane == 0) announce(Announced(geometry, part, part.chunk).counter(item.tile));
  }
}

}  // namespace sluice::kernels::recurrent::cuda::wide
