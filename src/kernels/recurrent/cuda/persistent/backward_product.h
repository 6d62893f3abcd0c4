#pragma once

#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/tensor_core.h"

/// The recurrent product of a backward step. A block has the gate gradients of its own units, and
/// multiplies them with their rows of the weights: a part of the gradient of every h in the
/// cluster. It sends each block the part for that block's units, and adds what it is sent.
namespace sluice::kernels::recurrent::cuda::persistent {

/// Gate gradients of a block in shared memory: octets of 8 gates of all rows, 16 bytes a row.
template <int kGates, int kTiles>
struct GateBuffer {
  static constexpr int kRows = 8 * kTiles;
  static constexpr int kOctetBytes = kRows * 16;
  static constexpr int kBytes = kGates * kOctets * kOctetBytes;

  /// Of a gate of the owner's unit, in its row of tile n, in elements.
  __device__ static int index(int gate, const Owner& owner, int n) {
    return ((gate * kOctets + owner.octet) * kRows + owner.row + n * 8) * 8 + owner.lane / 4;
  }
};

/// Parts in shared memory: a slot a block of the cluster, slot i from the block i behind; within it
/// float32 [pair of rows][unit][2], so that what a thread sends at once, two rows of a unit, lies
/// beside what its neighbours send. Pairs are padded: eight units of two pairs, which a warp reads
/// at once, lie in 32 banks.
template <int kBlocks, int kTiles>
struct PartBuffer {
  static constexpr int kPairBytes = kUnits * 8 + 64;
  static constexpr int kSlotBytes = 4 * kTiles * kPairBytes;
  static constexpr int kBytes = kBlocks * kSlotBytes;

  __device__ static std::uint32_t offset(int unit, int row) {
    return static_cast<std::uint32_t>(row / 2 * kPairBytes + unit * 8 + row % 2 * 4);
  }
  /// The sum of all parts of a unit and row.
  __device__ static float total(const std::byte* parts, int unit, int row) {
    const std::byte* from = parts + offset(unit, row);
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      sums[i % 4] += *reinterpret_cast<const float*>(from + i * kSlotBytes);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

template <typename T, int kGates, int kBlocks, int kTiles>
class BackwardProduct {
 public:
  static_assert(kBlocks % 4 == 0);
  using Gates = GateBuffer<kGates, kTiles>;
  using Parts = PartBuffer<kBlocks, kTiles>;

  /// `weights` as pack_backward leaves them.
  __device__ BackwardProduct(const void* weights, int rank, const Owner& owner, int rows,
                             std::uint32_t parts, std::uint32_t barriers)
      : lane_(owner.lane), rows_(rows) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const uint4* from = static_cast<const uint4*>(weights) +
                        (rank * kThreads / 32 + warp) * kBands * kDepth * 32 + lane_;
#pragma unroll
    for (int m = 0; m < kBands; ++m) {
      const int band = warp * kBands + m, distance = band / 2, half = band % 2 * 16;
      const int to = ahead<kBlocks>(rank, distance);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        reinterpret_cast<uint4&>(weights_[m][k]) = from[(m * kDepth + k) * 32];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        parts_[m][i] = address_in(to, parts + distance * Parts::kSlotBytes +
                                          Parts::offset(half + i * 8 + lane_ / 4, lane_ % 4 * 2));
      }
      barriers_[m] = address_in(to, barriers);
    }
  }

  /// Multiplies `gates` and sends all parts; the receivers' buffer and its barrier are number
  /// `buffer`.
  __device__ void send_parts(std::uint32_t gates, int buffer) const {
    const std::uint32_t from =
        gates + static_cast<std::uint32_t>(lane_ / 8 * Gates::kOctetBytes + lane_ % 8 * 16);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      std::uint32_t b[kDepth / 2][4];
#pragma unroll
      for (int k = 0; k < kDepth / 2; ++k) {
        load_blocks(b[k], from + k * 4 * Gates::kOctetBytes + n * 128);
      }
#pragma unroll
      for (int first = 0; first < kBands; first += 2) {
        constexpr int kMost = kBands < 2 ? 1 : 2;
        float sums[kMost][2][4] = {};
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
#pragma unroll
          for (int m = 0; m < kMost; ++m) {
            if (first + m >= kBands) continue;
            multiply_add<T>(sums[m][k % 2], weights_[first + m][k], b[k / 2][k % 2 * 2],
                            b[k / 2][k % 2 * 2 + 1]);
          }
        }
        const bool has_row = n * 8 + lane_ % 4 * 2 < rows_;
#pragma unroll
        for (int m = 0; m < kMost; ++m) {
          if (first + m >= kBands) continue;
          const auto& sum = sums[m];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            send(parts_[first + m][i] + n * 4 * Parts::kPairBytes + buffer * Parts::kBytes,
                 sum[0][2 * i] + sum[1][2 * i], sum[0][2 * i + 1] + sum[1][2 * i + 1],
                 barriers_[first + m] + buffer * 8, has_row);
          }
        }
      }
    }
  }

  /// What a block is sent in a step.
  __device__ static int step_bytes(int rows) { return kBlocks * kUnits * ((rows + 1) / 2) * 8; }

 private:
  static constexpr int kDepth = 2 * kGates;   ///< sixteens of gates
  static constexpr int kBands = kBlocks / 4;  ///< sixteens of units that a warp multiplies

  const int lane_, rows_;
  std::uint32_t weights_[kBands][kDepth][4];
  std::uint32_t parts_[kBands][2], barriers_[kBands];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
