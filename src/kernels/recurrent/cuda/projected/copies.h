#pragma once

#include "kernels/recurrent/cuda/projected/block.h"

/// Two warps that copy, one thread each, and one that publishes. They take the block's tasks in the
/// order of its workers (in_order).
namespace sluice::kernels::recurrent::cuda::projected {

__device__ inline void wait_for_count(const std::uint32_t* counter, std::uint32_t wanted) {
  std::uint32_t value;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  } while (value < wanted);
  // From now on, TMA copies see what was written.
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Prefetches to L2 what threads will load.
__device__ inline void prefetch(const std::byte* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/// Brings values to the block, whose ring goes with that of the other blocks of its cluster.
class ValueCopies {
 public:
  __device__ ValueCopies(const Block& block, int octets)
      : block_(block), octets_(octets), rank_(static_cast<int>(cluster_rank())) {}

  /// The same for all blocks of the cluster, of which each copies a share.
  __device__ void copy_to_all(const std::byte* from, int pieces) {
    copy_chunks(pieces, chunk_pieces(octets_),
                [&](int offset, int bytes, std::uint32_t to, std::uint32_t full) {
                  const int share = bytes / kCluster, mine = rank_ * share;
                  copy_to_sharers(to + mine, from + offset + mine, share, full,
                                  static_cast<std::uint16_t>((1 << kCluster) - 1));
                });
  }
  /// This block's part of what all of the cluster have.
  __device__ void copy_part(const std::byte* from, int pieces) {
    from += rank_ * pieces * octets_ * kPieceBytes;
    copy_chunks(pieces, unit_chunk_pieces(octets_),
                [&](int offset, int bytes, std::uint32_t to, std::uint32_t full) {
                  copy_bytes(to, from + offset, bytes, full);
                });
  }

 private:
  template <typename Copy>
  __device__ void copy_chunks(int pieces, int chunk, const Copy& copy) {
    const int piece = octets_ * kPieceBytes;
    for (int first = 0; first < pieces; first += chunk) {
      const int bytes = min(chunk, pieces - first) * piece;
      wait_for_phase(block_.barriers.empty(place_.stage), place_.parity ^ 1);
      const std::uint32_t full = block_.barriers.full(place_.stage);
      arrive_and_expect(full, bytes);
      copy(first * piece, bytes, block_.memory + block_.places.values + place_.stage * kChunkBytes,
           full);
      place_.next(block_.stack.ring);
    }
  }

  const Block& block_;
  const int octets_, rank_;
  RingPlace place_;
};

__device__ inline void copy_values(const Block& block, int octets) {
  const Stack& stack = block.stack;
  const Layer& layer = block.layer;
  ValueCopies copies(block, octets);
  const std::int64_t piece = octets * kPieceBytes;
  // All blocks of a layer publish units; those with features of the projection publish its state.
  const auto blocks = static_cast<std::uint32_t>(stack.blocks);
  const auto inputs = static_cast<std::uint32_t>(layer.input_pieces);
  const auto states = static_cast<std::uint32_t>(layer.state_pieces);
  const auto copy_input = [&](int t, int tile) {
    const std::int64_t index = static_cast<std::int64_t>(t) * stack.tiles + tile;
    if (layer.input_done) wait_for_count(counter_of(layer.input_done, tile), inputs * (t + 1));
    copies.copy_to_all(layer.input + index * layer.input_pieces * piece, layer.input_pieces);
  };
  const auto copy_state = [&](int t, int tile) {
    const std::int64_t index = static_cast<std::int64_t>(t) * stack.tiles + tile;
    if (t > 0) wait_for_count(counter_of(layer.state_done, tile), states * t);
    copies.copy_to_all(layer.state + index * layer.state_pieces * piece, layer.state_pieces);
  };
  const auto copy_factors = [&](int t, int tile) {
    if (!layer.waits()) copy_input(t, tile);
    copy_state(t, tile);
    if (layer.waits()) copy_input(t, tile);
  };
  const auto copy_units = [&](int t, int tile) {
    if (!block.projects()) return;
    wait_for_count(counter_of(layer.units_done, tile), blocks * (t + 1));
    copies.copy_part(layer.units + tile * stack.unit_pieces() * piece, stack.own_pieces());
  };
  in_order(block, copy_factors, copy_units);
}

/// The third warp: publishes what the workers wrote, after they have met. It waits until the writes
/// are visible, so that the workers need not.
__device__ inline void announce(const Block& block) {
  const Layer& layer = block.layer;
  const auto tell = [](std::uint32_t* counter) {
    meet();
    if (threadIdx.x % 32 != 0) return;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  };
  const auto tell_units = [&](int, int tile) { tell(counter_of(layer.units_done, tile)); };
  const auto tell_state = [&](int, int tile) {
    if (block.projects()) tell(counter_of(layer.state_done, tile));
  };
  in_order(block, tell_units, tell_state);
}

template <int kOctets>
__device__ void copy_weights(const Block& block) {
  constexpr int kDepths = group_depths(kOctets), kBytes = group_bytes(kOctets);
  const Stack& stack = block.stack;
  const Layer& layer = block.layer;
  const std::byte* gates = block.gates();
  const int first = layer.first(), behind = first + layer.kept;
  const int projection = block.projects() ? stack.own_pieces() * kProjectionBytes : 0;
  const auto weights_of = [&](int group) {
    return gates + layer.depth_at(group * kDepths) * kGatesBytes;
  };
  arrive_and_expect(block.barriers.resident(), layer.resident * kBytes + projection);
  if (layer.late) {
    wait_for_kernel_ahead();
    wait_for_count(counter_of(stack.layers[0].units_done, 0), 1);
    for (int i = first; i < behind; ++i) prefetch(weights_of(i), kBytes);
  }
  for (int i = 0; i < layer.resident; ++i) {
    copy_bytes(block.memory + block.places.gates + i * kBytes, weights_of(behind + i), kBytes,
               block.barriers.resident());
  }
  if (block.projects()) {
    copy_bytes(block.memory + block.places.projection,
               layer.projection + static_cast<std::int64_t>(block.rank) * projection, projection,
               block.barriers.resident());
  }
  RingPlace place;
  for (int task = 0; task < stack.time * stack.tiles; ++task) {
    for (int i = 0; i < layer.streamed; ++i) {
      const int group = i < first ? i : behind + layer.resident + i - first;
      wait_for_phase(block.barriers.weights_empty(place.stage), place.parity ^ 1);
      const std::uint32_t full = block.barriers.weights_full(place.stage);
      arrive_and_expect(full, kBytes);
      copy_bytes(block.memory + block.places.weights + place.stage * kBytes, weights_of(group),
                 kBytes, full);
      place.next(layer.ring);
    }
  }
}

}  // namespace sluice::kernels::recurrent::cuda::projected
