#pragma once

#include "kernels/recurrent/cuda/projected/block.h"

/// The two warps that copy, a thread each. They take the block's tasks in the order of its workers:
/// in each step the gates of all tiles, then the projections of all tiles, so that what one tile
/// hands on travels while another is multiplied.
namespace sluice::kernels::recurrent::cuda::projected {

__device__ inline void wait_for_count(const std::uint32_t* counter, std::uint32_t wanted) {
  std::uint32_t value;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  } while (value < wanted);
  // What was written can be read by copies from now on.
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Brings values to all blocks of the cluster, of which each copies a share.
class ValueCopies {
 public:
  __device__ ValueCopies(const Block& block, int octets)
      : block_(block), octets_(octets), rank_(static_cast<int>(cluster_rank())) {}

  __device__ void copy(const std::byte* from, int pieces) {
    const int piece = octets_ * kPieceBytes, chunk = chunk_pieces(octets_);
    for (int first = 0; first < pieces; first += chunk) {
      const int bytes = min(chunk, pieces - first) * piece, share = bytes / kCluster;
      wait_for_phase(block_.barriers.empty(place_.stage), place_.parity ^ 1);
      const std::uint32_t full = block_.barriers.full(place_.stage);
      arrive_and_expect(full, bytes);
      const std::uint32_t to =
          block_.memory + block_.places.values + place_.stage * kChunkBytes + rank_ * share;
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
          "[%0], [%1], %2, [%3], %4;" ::"r"(to),
          "l"(from + static_cast<std::int64_t>(first) * piece + rank_ * share), "r"(share),
          "r"(full), "h"(static_cast<std::uint16_t>((1 << kCluster) - 1))
          : "memory");
      place_.advance(block_.stack.ring);
    }
  }

 private:
  const Block& block_;
  const int octets_, rank_;
  Place place_;
};

__device__ inline void copy_values(const Block& block, int octets) {
  const Stack& stack = block.stack;
  const Layer& layer = block.layer;
  ValueCopies copies(block, octets);
  const std::int64_t piece = octets * kPieceBytes;
  const auto blocks = static_cast<std::uint32_t>(stack.blocks);
  for (int t = 0; t < stack.time; ++t) {
    for (int tile = 0; tile < stack.tiles; ++tile) {
      const std::int64_t index = static_cast<std::int64_t>(t) * stack.tiles + tile;
      if (layer.input_done) wait_for_count(counter_of(layer.input_done, tile), blocks * (t + 1));
      copies.copy(layer.input + index * layer.input_pieces * piece, layer.input_pieces);
      if (t > 0) wait_for_count(counter_of(layer.state_done, tile), blocks * t);
      copies.copy(layer.state + index * layer.state_pieces * piece, layer.state_pieces);
    }
    for (int tile = 0; tile < stack.tiles; ++tile) {
      wait_for_count(counter_of(layer.units_done, tile), blocks * (t + 1));
      copies.copy(layer.units + tile * stack.unit_pieces() * piece, stack.unit_pieces());
    }
  }
}

__device__ inline void copy_to_block(std::uint32_t to, const std::byte* from, int bytes,
                                     std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

/// `in_registers`: depths of 32 that the workers keep themselves.
__device__ inline void copy_weights(const Block& block, int in_registers) {
  const Stack& stack = block.stack;
  const Layer& layer = block.layer;
  const std::byte* gates =
      layer.gates +
      (static_cast<std::int64_t>(block.rank) * layer.depths() + in_registers) * kGatesBytes;
  const bool projects = block.rank < layer.state_pieces;
  const int projection = projects ? stack.unit_pieces() * 512 : 0;
  arrive_and_expect(block.barriers.resident(), layer.resident * kGatesBytes + projection);
  Streaming once(layer);
  std::uint32_t resident = block.memory + block.places.gates;
  for (int i = 0; i < once.count(); ++i) {
    if (once.next()) continue;
    copy_to_block(resident, gates + i * kGatesBytes, kGatesBytes, block.barriers.resident());
    resident += kGatesBytes;
  }
  if (projects) {
    copy_to_block(block.memory + block.places.projection,
                  layer.projection + static_cast<std::int64_t>(block.rank) * projection, projection,
                  block.barriers.resident());
  }
  Place place;
  for (int task = 0; task < stack.time * stack.tiles; ++task) {
    Streaming streaming(layer);
    for (int i = 0; i < streaming.count(); ++i) {
      if (!streaming.next()) continue;
      wait_for_phase(block.barriers.weights_empty(place.stage), place.parity ^ 1);
      const std::uint32_t full = block.barriers.weights_full(place.stage);
      arrive_and_expect(full, kGatesBytes);
      copy_to_block(block.memory + block.places.weights + place.stage * kGatesBytes,
                    gates + i * kGatesBytes, kGatesBytes, full);
      place.advance(kWeightRing);
    }
  }
}

}  // namespace sluice::kernels::recurrent::cuda::projected
