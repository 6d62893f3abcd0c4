#pragma once

#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/cluster_ring.h"
#include "kernels/recurrent/cuda/persistent/fragments.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/packed_weights.h"
#include "kernels/recurrent/cuda/persistent/tensor_core.h"

/// The recurrent product of a backward step. A block has the gate gradients of its own units, and
/// multiplies them with their rows of the weights: a part of the gradient of every h in the
/// cluster. It sends each block the part for that block's units, and adds what it is sent. A plain
/// RNN's block has the units of its threads in the places of four gates, and sends four parts.
namespace sluice::kernels::recurrent::cuda::persistent {

/// Gate gradients of a block, kGates of each thread and row, in shared memory, as factors: for each
/// of their parts octets of 8 gates of all rows, 16 bytes a row. Behind them, where they are
/// scaled, the largest of each octet of units [row][octet], which says by how much.
template <typename Arithmetic, int kGates, int kTiles>
struct GateBuffer {
  static constexpr int kRows = 8 * kTiles;
  static constexpr int kOctetBytes = kRows * 16;
  static constexpr int kPartBytes = kGates * kOctets * kOctetBytes;
  static constexpr int kLargest = Arithmetic::kParts * kPartBytes;
  static constexpr int kBytes = kLargest + (Arithmetic::kScaled ? kRows * kOctets * 4 : 0);

  /// Tells the block the largest gate gradients of the step, where they are scaled. `cell` has
  /// those of the owner's unit: cell.recurrent(n, gate) in its row of tile n.
  template <typename State>
  __device__ static void put_largest(std::byte* buffer, const State& cell, const Owner& owner) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!cell.warp_has_row(n)) continue;
      float largest = 0;
#pragma unroll
      for (int g = 0; g < kGates; ++g) largest = fmaxf(largest, fabsf(cell.recurrent(n, g)));
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
      }
      if (owner.lane < 4) {
        reinterpret_cast<float*>(buffer + kLargest)[(owner.row + n * 8) * kOctets + owner.octet] =
            largest;
      }
    }
  }

  /// Lays them down for the product, once the block knows the largest.
  template <typename State>
  __device__ static void put(std::byte* buffer, const State& cell, const Owner& owner) {
    using Factor = typename Arithmetic::Factor;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!cell.warp_has_row(n)) continue;
      const int row = owner.row + n * 8;
      Scale scale;
      if constexpr (Arithmetic::kScaled) scale = scale_of(buffer, row);
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        const Factors<Arithmetic> factors(cell.recurrent(n, g), scale);
        std::byte* to =
            buffer + (g * kOctets + owner.octet) * kOctetBytes + row * 16 + owner.lane / 4 * 2;
#pragma unroll
        for (int part = 0; part < Arithmetic::kParts; ++part) {
          *reinterpret_cast<Factor*>(to + part * kPartBytes) = factors.parts[part];
        }
      }
    }
  }

  __device__ static Scale scale_of(const std::byte* buffer, int row) {
    const auto octets = reinterpret_cast<const float4*>(buffer + kLargest)[row];
    return Scale(fmaxf(fmaxf(octets.x, octets.y), fmaxf(octets.z, octets.w)));
  }
};

/// Parts of dh in shared memory: a slot a block of the cluster, slot i from the block i behind, or
/// kThreadUnits of them, each with one of every thread's units; within a slot float32 [pair of
/// rows][16 units][8 units][2 of 8 units][2], so that what a thread sends at once, two rows of two
/// units, lies beside what its neighbours send. Of odd pairs the units that are 8 apart have
/// changed places: eight units of two pairs, which a warp reads at once, lie in 32 banks.
template <int kBlocks, int kTiles, int kThreadUnits>
struct PartBuffer {
  static constexpr int kPairBytes = kUnits * 8;
  static constexpr int kSlotBytes = 4 * kTiles * kPairBytes;
  static constexpr int kBytes = kBlocks * kThreadUnits * kSlotBytes;

  __device__ static std::uint32_t offset(int unit, int row) {
    const int pair = row / 2, high = (unit / 8 + pair) % 2;
    return static_cast<std::uint32_t>(pair * kPairBytes + unit / 16 * 128 + unit % 8 * 16 +
                                      high * 8 + row % 2 * 4);
  }
  /// The sum of all parts of a unit and row; `which` of a thread's units.
  __device__ static float total(const std::byte* parts, int blocks, int which, int unit, int row) {
    const std::byte* from = parts + which * kSlotBytes + offset(unit, row);
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      // No branch, so that all reads are on their way at once.
      const auto* part = reinterpret_cast<const float*>(from + i * kThreadUnits * kSlotBytes);
      sums[i % 4] += i < blocks ? *part : 0.0f;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

/// Of the weights' fragments, kAside stay in shared memory that would find a place in registers.
template <typename Arithmetic, int kGates, int kBlocks, int kTiles, int kAside = 0>
class BackwardProduct {
 public:
  static constexpr int kThreadUnits = thread_units(kGates);
  using Ring = ClusterRing<kBlocks, kThreadUnits>;
  using Gates = GateBuffer<Arithmetic, kGates * kThreadUnits, kTiles>;
  using Parts = PartBuffer<kBlocks, kTiles, kThreadUnits>;

 private:
  static constexpr int kParts = Arithmetic::kParts;         ///< of a factor
  static constexpr int kDepth = 2 * kGates * kThreadUnits;  ///< sixteens of gates
  /// Sixteens of units that a warp multiplies.
  static constexpr int kBands = kBlocks * kThreadUnits / 4;
  static constexpr int kPartFragments = kBands * kDepth;
  /// What else a thread needs leaves so many.
  static constexpr int kInRegisters = kParts == 1 ? kPartFragments - kAside : kTiles == 1 ? 36 : 32;

 public:
  using Weights = Fragments<kParts * kPartFragments, kInRegisters>;

  /// `weights` as pack_backward leaves them. Products are multiplied by `unscale` too.
  __device__ BackwardProduct(const void* weights, const Ring& ring, const Owner& owner, int rows,
                             std::byte* shared, float unscale, std::uint32_t parts,
                             std::uint32_t barriers)
      : lane_(owner.lane),
        rows_(rows),
        bands_(ring.part_of(kBands)),
        weights_(shared),
        unscale_(unscale) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    // Where blocks vary in number, a warp has a band of each.
    constexpr int kStride = kThreadUnits == 1 ? 1 : kWarps;
    const int first_band = kThreadUnits == 1 ? warp * kBands : warp;
    const int packed_part = backward_fragments(ring.blocks, kGates) * 32;
    const uint4* from = static_cast<const uint4*>(weights) +
                        (ring.rank * kWarps * bands_ + first_band) * kDepth * 32 + lane_;
#pragma unroll
    for (int m = 0; m < kBands; ++m) {
      if (m >= bands_) break;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
          weights_.put(part * kPartFragments + m * kDepth + k,
                       from[(m * kStride * kDepth + k) * 32 + part * packed_part]);
        }
      }
      const int band = first_band + m * kStride, slot = band / 2, half = band % 2 * 16;
      const int to = slot / kThreadUnits;
      parts_[m] =
          ring.address_ahead(to, parts + slot * Parts::kSlotBytes + lane_ % 4 * Parts::kPairBytes +
                                     half * 8 + lane_ / 4 * 16);
      barriers_[m] = ring.address_ahead(to, barriers);
    }
  }

  /// Multiplies `gates` and sends all parts; the receivers' buffer and its barrier are number
  /// `buffer`.
  __device__ void send_parts(const std::byte* gates, int buffer) const {
    const std::uint32_t from =
        shared_address(gates) +
        static_cast<std::uint32_t>(lane_ / 8 * Gates::kOctetBytes + lane_ % 8 * 16);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      std::uint32_t b[kParts][kDepth / 2][4];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int k = 0; k < kDepth / 2; ++k) {
          load_blocks(b[part][k],
                      from + part * Gates::kPartBytes + k * 4 * Gates::kOctetBytes + n * 128);
        }
      }
      float unscale[2] = {1, 1};
      if constexpr (Arithmetic::kScaled) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          unscale[i] = Gates::scale_of(gates, n * 8 + lane_ % 4 * 2 + i).down;
        }
      }
      const bool has_row = n * 8 + lane_ % 4 * 2 < rows_;
#pragma unroll
      for (int first = 0; first < kBands; first += 2) {
        if (first >= bands_) break;
        constexpr int kMost = kBands < 2 ? 1 : 2;
        float sums[kMost][2][4] = {};
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
#pragma unroll
          for (int m = 0; m < kMost; ++m) {
            if (first + m >= kBands) continue;
            multiply(sums[m], first + m, k, b);
          }
        }
#pragma unroll
        for (int m = 0; m < kMost; ++m) {
          if (first + m >= kBands) continue;
          const auto& sum = sums[m];
          std::uint32_t bits[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            bits[i] = __float_as_uint(scaled(sum[0][i] + sum[1][i], unscale[i % 2]));
          }
          const uint4 values = lane_ % 2 == 0 ? make_uint4(bits[0], bits[1], bits[2], bits[3])
                                              : make_uint4(bits[2], bits[3], bits[0], bits[1]);
          send(parts_[first + m] + n * 4 * Parts::kPairBytes + buffer * Parts::kBytes, values,
               barriers_[first + m] + buffer * 8, has_row && first + m < bands_);
        }
      }
    }
  }

  /// What a block is sent in a step.
  __device__ static int step_bytes(int rows, int blocks) {
    return blocks * kThreadUnits * kUnits * ((rows + 1) / 2) * 8;
  }

 private:
  /// Adds the products of a band with the k-th sixteen of gates. There are two sums, so that
  /// products wait less for each other, or are of like size.
  __device__ void multiply(float (&sums)[2][4], int m, int k,
                           const std::uint32_t (&b)[kParts][kDepth / 2][4]) const {
    using Factor = typename Arithmetic::Factor;
    std::uint32_t a[kParts][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      weights_.get(part * kPartFragments + m * kDepth + k, a[part]);
    }
    const int column = k % 2 * 2;
    if constexpr (kParts == 1) {
      multiply_add<Factor>(sums[k % 2], a[0], b[0][k / 2][column], b[0][k / 2][column + 1]);
    } else {
      multiply_add<Factor>(sums[0], a[0], b[0][k / 2][column], b[0][k / 2][column + 1]);
      multiply_add<Factor>(sums[1], a[0], b[1][k / 2][column], b[1][k / 2][column + 1]);
      multiply_add<Factor>(sums[1], a[1], b[0][k / 2][column], b[0][k / 2][column + 1]);
    }
  }
  __device__ float scaled(float sum, float unscale) const {
    return Arithmetic::kScaled ? sum * unscale * unscale_ : sum;
  }

  static constexpr int kWarps = kThreads / 32;

  const int lane_, rows_;
  const int bands_;  ///< as many as the cluster has blocks for
  Weights weights_;
  float unscale_;
  std::uint32_t parts_[kBands], barriers_[kBands];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
