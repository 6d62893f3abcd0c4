#pragma once

#include <type_traits>

#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent_grid/arguments.h"

/// How a layer lies on the whole GPU. A group of blocks holds all weights and works on up to
/// kGroupRows rows; a block owns kUnits units, their state and what computes it, and its eight
/// warps share the depth. A thread owns one unit of one row, as in persistent/, or nothing.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

using persistent::Owner;
using persistent::Share;

/// What a thread owns of its block's units and its group's rows.
template <int kUnits>
struct Place {
  static constexpr int kBlockUnits = kUnits;
  static constexpr int kOctets = (kUnits + kOctet - 1) / kOctet;
  static constexpr int kOwners = 2 * kOctets;  ///< warps
  static_assert(kUnits % 2 == 0 && kOwners <= kWarps);

  Owner owner;     ///< its unit that of the layer; beyond the layer if there is none
  int unit;        ///< of the block
  bool owns_warp;  ///< whether the warp has any
  bool sends;      ///< whether others wait for the unit
  bool first;      ///< of the pair of units that travels as a word

  __device__ Place(int rank, int hidden) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = owner.lane;
    owner.octet = warp % kOctets;
    unit = owner.octet * kOctet + lane / 4;
    owner.half = warp / kOctets % 2;
    owns_warp = warp < kOwners;
    owner.row = owner.half * 4 + lane % 4;
    owner.unit = owns_warp && unit < kUnits ? rank * kUnits + unit : hidden;
    // Units beyond the layer are sent, as zeros, where they share an octet with others.
    sends = owns_warp && unit < kUnits && rank * kUnits + unit < octets_of(hidden) * kOctet;
    first = unit % 2 == 0;
  }
};

/// Sums of one step in shared memory, a set a warp. Rows of the product come in kEights, kGates of
/// them for each octet of units: [warp][four rows][unit][row][gate], four numbers for several gates
/// and one for one. Fours of rows are padded, so that a warp writes both into different banks.
template <int kEights, int kGates>
struct SumBuffer {
  using Value = std::conditional_t<kGates == 1, float, float4>;
  static constexpr int kOctets = kEights / kGates;
  static constexpr int kUnit = 4 * sizeof(Value) / 4;  ///< of four rows
  static constexpr int kHalf = kOctets * kOctet * kUnit + (kGates == 1 ? 16 : 4);
  static constexpr int kWarp = 2 * kHalf;
  static constexpr int kFloats = kWarps * kWarp;
  static constexpr int kBytes = kFloats * 4;

  /// Leaves a warp's sums of 16 rows each, as thread 4g + q has them (tensor_core.h).
  __device__ static void leave(const float (&sums)[kEights / 2][4], float* buffer) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    float* to =
        buffer + warp * kWarp + lane % 4 / 2 * kHalf + lane / 4 * kUnit + lane % 2 * (kUnit / 2);
    const auto sum = [&](int eight, int column) { return sums[eight / 2][eight % 2 * 2 + column]; };
#pragma unroll
    for (int o = 0; o < kOctets; ++o, to += kOctet * kUnit) {
      if constexpr (kGates == 1) {
        *reinterpret_cast<float2*>(to) = make_float2(sum(o, 0), sum(o, 1));
      } else {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const auto gate = [&](int g) { return g < kGates ? sum(o * kGates + g, column) : 0.0f; };
          reinterpret_cast<float4*>(to)[column] = make_float4(gate(0), gate(1), gate(2), gate(3));
        }
      }
    }
  }

  /// Where the first warp has left the sums of a unit and row.
  __device__ static const Value* at(const float* buffer, int half, int unit, int row) {
    return reinterpret_cast<const Value*>(buffer + half * kHalf + unit * kUnit) + row;
  }

  /// The sum over all warps, `from` being the first one's.
  __device__ static Value total(const Value* from) {
    Value part[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      part[w] = from[w * kWarp * 4 / static_cast<int>(sizeof(Value))];
    }
    return sum(sum(sum(part[0], part[1]), sum(part[2], part[3])),
               sum(sum(part[4], part[5]), sum(part[6], part[7])));
  }

 private:
  __device__ static float sum(float a, float b) { return a + b; }
  __device__ static float4 sum(const float4& a, const float4& b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  }
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
