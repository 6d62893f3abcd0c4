#pragma once

#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/shared_vectors.h"
#include "kernels/recurrent/cuda/streamed/block.h"
#include "kernels/recurrent/cuda/wide/resident_product.h"

/// Products of a block's part of the depth for all units of its cluster, and the way of their sums.
namespace sluice::kernels::recurrent::cuda::streamed {

/// sums [64, 8] (+)= a [64, 16] * the transpose of b [8, 16], both lines of shared memory.
template <typename T>
__device__ void multiply_eight(float (&d)[4], std::uint64_t a, std::uint64_t b, int add) {
#define SLUICE_WGMMA(KIND)                                       \
  asm volatile(                                                  \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32." KIND "." KIND \
      " {%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;\n}"                \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])           \
      : "l"(a), "l"(b), "r"(add))
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    SLUICE_WGMMA("bf16");
  } else {
    SLUICE_WGMMA("f16");
  }
#undef SLUICE_WGMMA
}

/// A warpgroup's weights: a tile of 64 rows, which are pairs of units in the order of slots, eight
/// even units and then the eight odd ones. kBeside: slots beyond both tiles, too, of which values
/// are the rows and slots the columns.
template <typename T, int kRegisterChunks, bool kBeside>
class Product {
 public:
  __device__ Product(const Geometry& geometry, const std::byte* weights, int group,
                     std::uint32_t shared, const BlockMemory& memory, const Barriers& barriers)
      : geometry_(geometry),
        ring_(shared + memory.ring),
        resident_(shared + BlockMemory::kResident + group * 64 * 128),
        weight_ring_(shared + memory.weight_ring + group * 64 * 128),
        beside_(shared + memory.beside),
        barriers_(barriers) {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const uint4* from = reinterpret_cast<const uint4*>(weights) + group * kSteps * 128 + thread;
#pragma unroll
    for (int i = 0; i < kRegisterChunks; ++i) {
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        reinterpret_cast<uint4&>(weights_[i * kSteps + k]) =
            from[(i * kProductGroups * kSteps + k) * 128];
      }
    }
    wait_for_phase(barriers.resident(), 0);
  }

  /// Multiplies the values that were published next.
  __device__ void run(float (&sums)[16], float (&beside)[4]) {
    int before = kNone, other = 0;
    std::uint32_t resident = resident_;
#pragma unroll
    for (int i = 0; i < kRegisterChunks; ++i) {
#pragma unroll 1
      for (; other < geometry_.others_before(i); ++other) {
        int stage = kNone;
        std::uint32_t at = resident;
        if (geometry_.is_streamed(other)) {
          stage = weights_place_.stage;
          at = weight_ring_ + stage * geometry_.weight_bytes();
          wait_for_phase(barriers_.weights_full(stage), weights_place_.parity);
          weights_place_.next(geometry_.weight_ring);
        } else {
          resident += geometry_.weight_bytes();
        }
        const std::uint64_t lines = lines_at(at, kGroupBytes);
        const int position = other + i;
        multiply_chunk(stage, before, position, beside, [&](int k, std::uint64_t values) {
          multiply_lines<T, kMostRows>(sums, at_step(lines, k, geometry_.half_weight_bytes()),
                                       values, position + k > 0);
        });
      }
      const int position = other + i;
      multiply_chunk(kNone, before, position, beside, [&](int k, std::uint64_t values) {
        wide::multiply_resident<T>(sums, weights_[i * kSteps + k], values, position + k > 0);
      });
    }
    wait_for_products<0>();
    release(1, before);
  }

 private:
  static constexpr int kSteps = kChunkUnits / 16, kStepLines = kDepthBytes / 16;
  static constexpr int kNone = -1;  ///< no place in the ring of weights

  /// Where the lines of a step of depth begin, with those of the second half so far behind.
  __device__ static std::uint64_t at_step(std::uint64_t lines, int k, int half_bytes) {
    constexpr int kHalfSteps = kLineUnits / 16;
    return lines + k % kHalfSteps * kStepLines + k / kHalfSteps * (half_bytes / 16);
  }

  /// The products of the next chunk, whose weights have the place `stage`; then those of the one
  /// before have been made, and its places are free.
  template <typename Multiply>
  __device__ void multiply_chunk(int stage, int& before, int position, float (&beside)[4],
                                 const Multiply& multiply) {
    wait_for_phase(barriers_.full(place_.stage), place_.parity);
    const std::uint64_t values =
        lines_at(ring_ + place_.stage * geometry_.chunk_bytes(), kGroupBytes);
    begin_products();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) multiply(k, at_step(values, k, geometry_.half_bytes()));
    if constexpr (kBeside) {
      const std::uint64_t lines = lines_at(beside_ + position * kBesideChunkBytes, kGroupBytes);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        multiply_eight<T>(beside, at_step(values, k, geometry_.half_bytes()),
                          at_step(lines, k, kBesideChunkBytes / 2), position + k > 0);
      }
    }
    end_products();
    place_.next(geometry_.ring);
    if (position > 0) {
      wait_for_products<1>();
      release(2, before);
    }
    before = stage;
  }
  /// Of the values that lie so far behind in the ring, and of their weights.
  __device__ void release(int behind, int weights) const {
    __syncwarp();
    if (threadIdx.x % 32 != 0) return;
    const int stage = place_.stage - behind;
    arrive(barriers_.empty(stage < 0 ? stage + geometry_.ring : stage));
    if (weights != kNone) arrive(barriers_.weights_empty(weights));
  }

  const Geometry& geometry_;
  const std::uint32_t ring_, resident_, weight_ring_, beside_;
  const Barriers& barriers_;
  RingPlace place_, weights_place_;
  std::uint32_t weights_[kRegisterChunks * kSteps][4];
};

/// Sums of one block for one: of eight rows after another the slots, 64 bytes each, in which a row
/// has the two units' after each other. Called by a warp that multiplies; both buffers take turns.
/// Those that stay in the block are plain stores.
class SumSender {
 public:
  __device__ SumSender(const Geometry& geometry, const Part& part, int group, std::uint32_t shared,
                       const BlockMemory& memory, const Barriers& barriers)
      : geometry_(geometry) {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
    const int slot = group * kTileSlots + thread / 32 * 8 + lane / 4, owner = slot / geometry.slots;
    sums_ = shared + memory.sums + part.rank * geometry.part_bytes();
    sends_ = owner < geometry.cluster;
    to_ = sums_ + slot % geometry.slots * 64 + lane % 4 * 16;
    barrier_ = barriers.sums(0);
    if (!sends_ || geometry.has_whole_depth()) return;
    to_ = address_in(owner, to_);
    barrier_ = address_in(owner, barrier_);
  }

  __device__ void send(int number, const float (&sums)[16]) const {
    const std::uint32_t to = to_ + number % 2 * geometry_.sums_bytes();
    const std::uint32_t barrier = barrier_ + number % 2 * 8;
    if (geometry_.has_whole_depth()) {
      for_eights(sums, to, [&](std::uint32_t place, const float4& v) {
        if (sends_) persistent::store_four(place, v);
      });
      arrive(barrier);
    } else {
      for_eights(sums, to, [&](std::uint32_t place, const float4& v) {
        persistent::send(place,
                         make_uint4(__float_as_uint(v.x), __float_as_uint(v.y),
                                    __float_as_uint(v.z), __float_as_uint(v.w)),
                         barrier, sends_);
      });
    }
  }
  /// Of what is beside, whose columns are slots and whose rows those of the batch.
  __device__ void send_beside(int number, const float (&sums)[4], const Barriers& barriers) const {
    int thread = static_cast<int>(threadIdx.x) % 128;
    // Worked out anew each time: there are no registers to keep it in.
    asm volatile("" : "+r"(thread));
    const int lane = thread % 32, slot = kProductGroups * kTileSlots + lane % 4,
              owner = slot / geometry_.slots;
    if (owner >= geometry_.cluster) return;
    const std::uint32_t first = address_in(
        owner, sums_ + number % 2 * geometry_.sums_bytes() + slot % geometry_.slots * 64);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = thread / 32 * 16 + lane / 4 + 8 * i;
      if (row >= geometry_.lines) return;
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1,%2}, "
          "[%3];" ::"r"(first + row / 8 * geometry_.slots * 64 + row % 8 * 8),
          "r"(__float_as_uint(sums[2 * i])), "r"(__float_as_uint(sums[2 * i + 1])),
          "r"(address_in(owner, barriers.sums(number % 2)))
          : "memory");
    }
  }

 private:
  /// Calls body(place, sums) for a thread's sums of each eight rows.
  template <typename Body>
  __device__ void for_eights(const float (&sums)[16], std::uint32_t to, const Body& body) const {
#pragma unroll
    for (int i = 0; i < kMostRows / 8; ++i) {
      if (8 * i >= geometry_.lines) return;
      body(to + i * geometry_.slots * 64, wide::row_by_row(sums + 4 * i));
    }
  }

  const Geometry& geometry_;
  std::uint32_t sums_, to_, barrier_;
  bool sends_;
};

}  // namespace sluice::kernels::recurrent::cuda::streamed
