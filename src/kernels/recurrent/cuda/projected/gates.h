#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/tensor_core.h"
#include "kernels/recurrent/cuda/projected/block.h"

/// A step of the cells of a block's units for a tile of rows.
namespace sluice::kernels::recurrent::cuda::projected {

using persistent::multiply_add;

template <typename T, int kOctets>
class Gates {
 public:
  static constexpr int kKept = depths_in_registers(kOctets);

  __device__ Gates(const Block& block)
      : block_(block),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32 % kUnitWarps),
        part_(static_cast<int>(threadIdx.x) / 32 / kUnitWarps),
        own_(((part_ * kUnitWarps + warp_) * 2 * 32 + lane_) * 16) {
    const std::byte* from =
        block.layer.gates +
        static_cast<std::int64_t>(block.rank) * block.layer.depths() * kGatesBytes + own_;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const bool there = i < block.layer.depths();
#pragma unroll
      for (int band = 0; band < 2; ++band) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (there) v = *reinterpret_cast<const uint4*>(from + i * kGatesBytes + band * 512);
        kept_[i][band][0] = v.x;
        kept_[i][band][1] = v.y;
        kept_[i][band][2] = v.z;
        kept_[i][band][3] = v.w;
      }
    }
    const float4 bias = reinterpret_cast<const float4*>(block.layer.bias)[unit()];
    bias_[0] = bias.x;
    bias_[1] = bias.y;
    bias_[2] = bias.z;
    bias_[3] = bias.w;
  }

  __device__ void run(int t, int tile, ValueRing& ring) {
    float2 cells[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int octet = part_ * kHalf + i;
      cells[i] = make_float2(0, 0);
      if (t > 0 && octet < kOctets) cells[i] = *cells_of(tile, octet);
    }
    float sums[2][kOctets][4] = {};
    multiply(sums, ring);
    float own[kHalf][2][4];
    join(sums, own);
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int octet = part_ * kHalf + i;
      if (octet < kOctets) evaluate(own[i], t, tile, octet, cells[i]);
    }
    meet_workers();
    announce(counter_of(block_.layer.units_done, tile));
  }

 private:
  /// Octets whose cells a part evaluates.
  static constexpr int kHalf = (kOctets + 1) / 2;

  __device__ int unit() const { return block_.rank * kUnits + warp_ * 8 + lane_ / 4; }

  /// Goes through the chunks of values, of which each has two depths of 32, or one at the end of
  /// the input or the state.
  struct Walk {
    const std::byte* values;  ///< of the next depth
    int left = 0;             ///< depths of the chunk
    int pieces;               ///< of the input or the state, that are still to come
  };

  __device__ const std::byte* next(Walk& walk, ValueRing& ring) const {
    if (walk.left == 0) {
      if (walk.pieces == 0) walk.pieces = block_.layer.state_pieces;
      walk.values = ring.wait();
      walk.left = min(walk.pieces, chunk_pieces(kOctets)) / 2;
      walk.pieces -= 2 * walk.left;
    } else {
      walk.values += 2 * kOctets * kPieceBytes;
    }
    return walk.values + (part_ * kOctets * 32 + lane_) * 8;
  }
  __device__ void done(Walk& walk, ValueRing& ring) const {
    if (--walk.left == 0) ring.release();
  }

  __device__ void multiply_depth(float (&sums)[2][kOctets][4], const std::uint32_t (&first)[4],
                                 const std::uint32_t (&second)[4], const std::byte* values) const {
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      const uint2 b = *reinterpret_cast<const uint2*>(values + octet * kPieceBytes);
      multiply_add<T>(sums[0][octet], first, b.x, b.y);
      multiply_add<T>(sums[1][octet], second, b.x, b.y);
    }
  }

  __device__ void multiply(float (&sums)[2][kOctets][4], ValueRing& ring) {
    const Layer& layer = block_.layer;
    Walk walk{nullptr, 0, layer.input_pieces};
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (i < layer.depths()) {
        multiply_depth(sums, kept_[i][0], kept_[i][1], next(walk, ring));
        done(walk, ring);
      }
    }
    wait_for_phase(block_.barriers.resident(), 0);
    const std::byte* resident = block_.shared + block_.places.gates + own_;
    Streaming streaming(layer);
    for (int i = 0; i < streaming.count(); ++i) {
      const bool streamed = streaming.next();
      const std::byte* from = resident;
      if (streamed) {
        wait_for_phase(block_.barriers.weights_full(weights_.stage), weights_.parity);
        from = block_.shared + block_.places.weights + weights_.stage * kGatesBytes + own_;
      } else {
        resident += kGatesBytes;
      }
      multiply_depth(sums, Factor(from).values, Factor(from + 512).values, next(walk, ring));
      if (streamed) {
        __syncwarp();
        if (lane_ == 0) arrive(block_.barriers.weights_empty(weights_.stage));
        weights_.advance(kWeightRing);
      }
      done(walk, ring);
    }
  }

  /// Both parts of the depth come together: each gives the other the sums of half of the octets.
  __device__ void join(const float (&sums)[2][kOctets][4], float (&own)[kHalf][2][4]) const {
    std::byte* place =
        block_.shared + block_.places.exchange + warp_ * kHalf * 2 * 512 + lane_ * 16;
    float given[kHalf][2][4];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      // Of a single octet the second part has nothing of its own.
      const int second = kHalf + i < kOctets ? kHalf + i : i;
#pragma unroll
      for (int band = 0; band < 2; ++band) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          own[i][band][k] = part_ == 0 ? sums[band][i][k] : sums[band][second][k];
          given[i][band][k] = part_ == 0 ? sums[band][second][k] : sums[band][i][k];
        }
      }
    }
    give(place, given, own, 0);
    if (kOctets == 1) return;
    meet<64>(2 + warp_);
    give(place, given, own, 1);
  }
  __device__ void give(std::byte* place, const float (&given)[kHalf][2][4],
                       float (&own)[kHalf][2][4], int to) const {
    if (part_ != to) {
#pragma unroll
      for (int i = 0; i < 2 * kHalf; ++i) store_sums(place + i * 512, given[i / 2][i % 2]);
    }
    meet<64>(2 + warp_);
    if (part_ != to) return;
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) add_sums(own[i / 2][i % 2], place + i * 512);
  }

  __device__ void evaluate(const float (&sums)[2][4], int t, int tile, int octet,
                           const float2& before) const {
    float h[2], gates[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      gates[j][0] = sums[0][j] + bias_[0];
      gates[j][1] = sums[0][2 + j] + bias_[1];
      gates[j][2] = sums[1][j] + bias_[2];
      gates[j][3] = sums[1][2 + j] + bias_[3];
    }
    step(t, tile, octet, before, gates, h);
    hand_on(tile, octet, h);
  }

  /// The state of this thread's unit in two rows.
  __device__ float2* cells_of(int tile, int octet) const {
    const std::int64_t octets =
        (static_cast<std::int64_t>(block_.rank) * block_.stack.tiles + tile) * kOctets + octet;
    return reinterpret_cast<float2*>(block_.layer.cells) + (octets * kUnitWarps + warp_) * 32 +
           lane_;
  }

  /// The cells of this thread's unit in two rows.
  __device__ void step(int t, int tile, int octet, const float2& before, float (&gates)[2][4],
                       float (&h)[2]) const {
    using Cell = LstmCell<FastMath>;
    const Stack& stack = block_.stack;
    const Layer& layer = block_.layer;
    const int row = (tile * kOctets + octet) * 8 + lane_ % 4 * 2;
    float c[2] = {before.x, before.y};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const bool inside = row + j < stack.rows && unit() < stack.hidden;
      const std::int64_t at = static_cast<std::int64_t>(row + j) * stack.hidden + unit();
      if (t == 0 && inside && layer.c0) c[j] = layer.c0[at];
      FastMath::activate(gates[j]);
      const float next = Cell::next_c(gates[j], c[j]);
      h[j] = Cell::next_h(gates[j], next, 0);
      const bool active = inside && (stack.lengths == nullptr || t < stack.lengths[row + j]);
      if (active) c[j] = next;
      if (!inside) continue;
      if (layer.c_sequence) {
        layer.c_sequence[static_cast<std::int64_t>(t) * stack.rows * stack.hidden + at] =
            active ? next : 0.0f;
      }
      if (layer.cn && t + 1 == stack.time) layer.cn[at] = c[j];
    }
    *cells_of(tile, octet) = make_float2(c[0], c[1]);
  }

  /// h before the projection, as the projection's products take it.
  __device__ void hand_on(int tile, int octet, const float (&h)[2]) const {
    const std::uint32_t word = paired<T>(h[0], h[1]);
    const int piece = block_.rank * (kUnits / 16) + warp_ / 2;
    const int row = lane_ % 4 * 2 + lane_ / 4 % 2;
    std::byte* to =
        block_.layer.units +
        ((static_cast<std::int64_t>(tile) * block_.stack.unit_pieces() + piece) * kOctets + octet) *
            kPieceBytes +
        (row * 4 + lane_ / 8) * 8 + warp_ % 2 * 4;
    *reinterpret_cast<std::uint32_t*>(to) = word;
  }

  const Block& block_;
  const int lane_, warp_, part_, own_;
  std::uint32_t kept_[kKept][2][4];
  float bias_[4];
  Place weights_;
};

}  // namespace sluice::kernels::recurrent::cuda::projected
