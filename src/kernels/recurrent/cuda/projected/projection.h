#pragma once

#include "kernels/recurrent/cuda/persistent/tensor_core.h"
#include "kernels/recurrent/cuda/projected/block.h"

/// A step of 16 features of the projection for a tile of rows.
namespace sluice::kernels::recurrent::cuda::projected {

template <typename T, int kOctets>
class Projection {
 public:
  __device__ Projection(const Block& block)
      : block_(block),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  __device__ void run(int t, int tile, ValueRing& ring) const {
    float sums[kShare][4] = {};
    multiply(sums, ring);
    if (block_.rank < block_.layer.state_pieces) {
      join(sums);
      if (warp_ < kOctets) put_out(t, tile);
    }
    meet_workers();
    announce(counter_of(block_.layer.state_done, tile));
  }

 private:
  /// Groups of warps have some octets each, and the warps of a group share the depth.
  static constexpr int kGroups = kOctets < 4 ? kOctets : 4, kShare = kOctets / kGroups;
  static constexpr int kParts = kWorkers / 32 / kGroups;

  __device__ int part() const { return warp_ % kParts; }
  __device__ int octet(int i) const { return warp_ / kParts * kShare + i; }

  __device__ void multiply(float (&sums)[kShare][4], ValueRing& ring) const {
    const int pieces = block_.stack.unit_pieces();
    const bool works = block_.rank < block_.layer.state_pieces;
    const std::byte* weights = block_.shared + block_.places.projection + lane_ * 16;
    int mine = part();  // the next piece of this warp's part of the depth
    for (int first = 0; first < pieces; first += chunk_pieces(kOctets)) {
      const std::byte* values = ring.wait() + octet(0) * kPieceBytes + lane_ * 8;
      const int end = works ? min(first + chunk_pieces(kOctets), pieces) : 0;
#pragma unroll 4
      for (; mine < end; mine += kParts) {
        const Factor factor(weights + mine * 512);
#pragma unroll
        for (int i = 0; i < kShare; ++i) {
          const std::byte* piece = values + ((mine - first) * kOctets + i) * kPieceBytes;
          const uint2 b = *reinterpret_cast<const uint2*>(piece);
          persistent::multiply_add<T>(sums[i], factor.values, b.x, b.y);
        }
      }
      ring.release();
    }
  }

  /// Sums of all parts of the depth, where put_out finds them.
  __device__ void join(const float (&sums)[kShare][4]) const {
#pragma unroll
    for (int i = 0; i < kShare; ++i) store_sums(place(part(), octet(i)), sums[i]);
    meet_workers();
  }
  __device__ std::byte* place(int of, int octet) const {
    return block_.shared + block_.places.exchange + ((of * kOctets + octet) * 32 + lane_) * 16;
  }

  /// A warp has an octet of rows: a thread features g and g + 8, of rows 2q and 2q + 1.
  __device__ void put_out(int t, int tile) const {
    const Stack& stack = block_.stack;
    const Layer& layer = block_.layer;
    float h[4] = {};
#pragma unroll
    for (int i = 0; i < kParts; ++i) add_sums(h, place(i, warp_));
    const int row = lane_ % 4 * 2 + lane_ / 4 % 2;
    const std::int64_t tiles = static_cast<std::int64_t>(t + 1) * stack.tiles + tile;
    std::byte* to = layer.state +
                    ((tiles * layer.state_pieces + block_.rank) * kOctets + warp_) * kPieceBytes +
                    (row * 4 + lane_ / 8) * 8;
    *reinterpret_cast<uint2*>(to) = make_uint2(paired<T>(h[0], h[1]), paired<T>(h[2], h[3]));
    if (!layer.hn && !block_.last) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      put_out(t, (tile * kOctets + warp_) * 8 + lane_ % 4 * 2 + i % 2,
              block_.rank * 16 + lane_ / 4 + i / 2 * 8, h[i]);
    }
  }

  __device__ void put_out(int t, int row, int feature, float value) const {
    const Stack& stack = block_.stack;
    const Layer& layer = block_.layer;
    if (row >= stack.rows || feature >= layer.output) return;
    const int length = stack.lengths ? stack.lengths[row] : stack.time;
    const std::int64_t at = static_cast<std::int64_t>(row) * layer.output + feature;
    if (block_.last) {
      const std::int64_t step = static_cast<std::int64_t>(t) * stack.rows * layer.output;
      store(static_cast<T*>(layer.y) + step + at, t < length ? value : 0.0f);
    }
    if (!layer.hn) return;
    T* hn = static_cast<T*>(layer.hn) + at;
    if (t + 1 == length) store(hn, value);
    if (t == 0 && length == 0) {
      store(hn, layer.h0 ? load(static_cast<const T*>(layer.h0) + at) : 0.0f);
    }
  }

  const Block& block_;
  const int lane_, warp_;
};

}  // namespace sluice::kernels::recurrent::cuda::projected
