#pragma once

#include <cstring>

#include "kernels/recurrent/cuda/persistent/forward_cell.h"
#include "kernels/recurrent/cuda/persistent/forward_product.h"

/// The state as the blocks of a cluster have it of each other: where it comes from before the first
/// step, and how it is sent.
namespace sluice::kernels::recurrent::cuda::persistent {

/// What the product reads of eight values of h0 in a row from `unit` on, and by what it may exceed
/// them: h0 itself, but where Args adds to LayerForward.
template <typename T>
__device__ void as_product_reads(T (&)[8], const LayerForward&, const Share&, int /*row*/,
                                 int /*unit*/) {}
__device__ inline float most_of_product(const LayerForward&) { return 1.0f; }

/// That of the state of all rows of the share: it never exceeds 1, or the initial state. Called by
/// all threads of a block, which may use `scratch` again after their next barrier.
template <typename Args>
__device__ Scale scale_of_state(const Args& args, const Share& share, float* scratch) {
  constexpr int kWarps = kThreads / 32;
  float largest = 1;
  if (args.h0) {
    const std::int64_t first =
        static_cast<std::int64_t>(share.direction) * args.extent.rows + share.first_row;
    const float* h0 = static_cast<const float*>(args.h0) + first * args.extent.hidden;
    for (int i = threadIdx.x; i < share.rows * args.extent.hidden; i += kThreads) {
      largest = fmaxf(largest, fabsf(h0[i]));
    }
  }
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
  }
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int i = 0; i < kWarps; ++i) largest = fmaxf(largest, scratch[i]);
  return Scale(largest * most_of_product(args));
}

/// Eight values of h0 from `unit` on, of which those that don't exist are zero.
template <typename T>
__device__ void read_octet(T (&values)[8], const T* row, int unit, int hidden, bool aligned) {
  if (aligned && unit < hidden) {
    uint4 bits[sizeof(values) / 16];
#pragma unroll
    for (std::size_t i = 0; i < sizeof(values) / 16; ++i) {
      bits[i] = reinterpret_cast<const uint4*>(row + unit)[i];
    }
    memcpy(values, bits, sizeof(values));
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = unit + i < hidden ? row[unit + i] : T(0.0f);
  }
}

/// Fills the first buffer with the initial state of all units, and clears the second: rows and
/// units that don't exist stay zero.
template <typename Arithmetic, int kBlocks, int kTiles, int kBlockUnits, typename Args,
          typename Ring>
__device__ void fill_state(std::byte* state, const Args& args, const Share& share, const Ring& ring,
                           const Scale& scale) {
  using Storage = typename Arithmetic::Storage;
  using Factor = typename Arithmetic::Factor;
  constexpr int kEach = kBlockUnits / kUnits, kSlots = kBlocks * kEach;  // slots
  using Buffer = StateBuffer<Arithmetic, kSlots, kTiles>;
  constexpr int kRows = 8 * kTiles;
  const int all = ring.part_of(kSlots * kOctets * kRows);
  const int hidden = args.extent.hidden;
  const Storage* h0 = static_cast<const Storage*>(args.h0);
  const bool aligned = hidden % 8 == 0 && reinterpret_cast<std::uintptr_t>(h0) % 16 == 0;
#pragma unroll
  for (int i = threadIdx.x; i < all; i += kThreads) {
    const int slot = i / (kOctets * kRows), octet = i / kRows % kOctets, row = i % kRows;
    const int unit = ring.behind(slot / kEach) * kBlockUnits + (slot % kEach * kOctets + octet) * 8;
    Storage values[8] = {};
    if (h0 && row < share.rows) {
      const std::int64_t global =
          static_cast<std::int64_t>(share.direction) * args.extent.rows + share.first_row + row;
      read_octet(values, h0 + global * hidden, unit, hidden, aligned);
      as_product_reads(values, args, share, share.first_row + row, unit);
    }
    Factor factors[Arithmetic::kParts][8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const Factors<Arithmetic> split(values[k], scale);
#pragma unroll
      for (int part = 0; part < Arithmetic::kParts; ++part) factors[part][k] = split.parts[part];
    }
#pragma unroll
    for (int part = 0; part < Arithmetic::kParts; ++part) {
      uint4 bits;
      memcpy(&bits, factors[part], sizeof(bits));
      uint4* to = reinterpret_cast<uint4*>(state + part * Buffer::kPartBytes) + i;
      to[0] = bits;
      to[Buffer::kBytes / sizeof(uint4)] = uint4{};
    }
  }
}

/// Sends an octet of units of the rows that a warp owns, or kThreadUnits of them, to all blocks of
/// the cluster.
template <typename Arithmetic, int kBlocks, int kTiles, int kBlockUnits, int kThreadUnits = 1>
class StateSender {
  static constexpr int kParts = Arithmetic::kParts;
  using Factor = typename Arithmetic::Factor;
  using Product = ForwardProduct<Arithmetic, kBlocks, kTiles, kBlockUnits, kThreadUnits>;
  using Buffer = StateBuffer<Arithmetic, Product::kSlots, kTiles>;
  using Ring = typename Product::Ring;
  static constexpr int kOwned = Product::kOwned;
  static constexpr int kWarpBytes = kParts * kOwned * 64 * kThreadUnits;

 public:
  static constexpr int kOutgoingBytes = kThreads / 32 * kWarpBytes;

  __device__ StateSender(std::uint32_t state, std::uint32_t barriers, std::byte* outgoing,
                         const Ring& ring, const Owner& owner, const Scale& scale)
      : owner_(owner),
        blocks_(ring.blocks),
        outgoing_(outgoing + threadIdx.x / 32 * kWarpBytes),
        scale_(scale) {
    const int octet = owner.octet * kThreadUnits + owner.lane / 4 % kThreadUnits;
#pragma unroll
    for (int i = 0; i < kTargets; ++i) {
      // A lane's target; the rows of one target are neighbours.
      const int distance = distance_of(i), to = min(distance, ring.blocks - 1);
      const int slot = distance * (kBlockUnits / kUnits);
      states_[i] = ring.address_ahead(
          to, state + slot * Buffer::kSlotBytes + octet * Buffer::kOctetBytes + owner.row * 16);
      barriers_[i] =
          ring.address_ahead(to, barriers + slot * Product::kBarriers / Product::kSlots * 8);
    }
  }

  template <typename Cell>
  __device__ void send_all(const Cell& cell, int buffer) {
    cell.for_rows([&](int n) {
      Factor* to = reinterpret_cast<Factor*>(outgoing_) +
                   ((n * 4 + owner_.lane % 4) * 8 + owner_.lane / 4) * kThreadUnits;
#pragma unroll
      for (int unit = 0; unit < kThreadUnits; ++unit) {
        typename Arithmetic::Storage h;
        if constexpr (kThreadUnits == 1) {
          store(&h, cell.h(n));
        } else {
          store(&h, cell.h(n, unit));
        }
        const Factors<Arithmetic> factors(h, scale_);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          to[part * kOwned * 32 * kThreadUnits + unit] = factors.parts[part];
        }
      }
    });
    __syncwarp();
    cell.for_rows([&](int n) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const uint4 value = reinterpret_cast<const uint4*>(
            outgoing_)[((part * kOwned + n) * 4 + owner_.lane % 4) * kThreadUnits +
                       owner_.lane / 4 % kThreadUnits];
#pragma unroll
        for (int i = 0; i < kTargets; ++i) {
          const bool target = (kThreadUnits == 1 && kBlocks % 8 == 0) || distance_of(i) < blocks_;
          send(states_[i] + buffer * Buffer::kBytes + part * Buffer::kPartBytes +
                   n * Cell::kRowStep * 16,
               value, barriers_[i] + buffer * Product::kBarriers * 8, target && cell.has_row(n));
        }
      }
    });
    // The next step writes there again.
    __syncwarp();
  }

 private:
  static constexpr int kTargets = (kBlocks * kThreadUnits + 7) / 8;

  /// Of the block that the lane's i-th octet goes to.
  __device__ int distance_of(int i) const { return (i * 8 + owner_.lane / 4) / kThreadUnits; }

  const Owner& owner_;
  const int blocks_;
  std::byte* outgoing_;
  Scale scale_;
  std::uint32_t states_[kTargets], barriers_[kTargets];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
