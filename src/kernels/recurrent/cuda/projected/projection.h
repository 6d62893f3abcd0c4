#pragma once

#include "kernels/recurrent/cuda/projected/block.h"
#include "kernels/recurrent/cuda/projected/products.h"

/// A step of the features of a cluster's projection for a tile of rows. Each block multiplies half
/// of the depth for all of them, and adds up what all have of its own.
namespace sluice::kernels::recurrent::cuda::projected {

template <typename T, int kOctets>
class Projection {
 public:
  __device__ Projection(const Block& block)
      : block_(block), lane_(static_cast<int>(threadIdx.x) % 32), warp_(own_warp()) {}

  __device__ void run(int t, int tile, ValueRing& ring) {
    if (!block_.projects()) return;
    if (threadIdx.x == 0) {
      arrive_and_expect(block_.barriers.sums_full(), kSources * kOctets * kOctetBytes);
    }
    float sums[kSums] = {};
    multiply(sums, ring);
    if (works()) send(sums);
    float h[4] = {};
    if (warp_ < kOctets) hand_on(t, tile, h);
    parity_ ^= 1;
    meet();
    // Only now: other blocks already wait for the published h, but not yet for these sums' places.
    if (warp_ < kOctets) arrive_in_all_after_loads(block_.barriers.sums_empty());
    if (warp_ < kOctets && puts_out(t)) put_out(t, tile, h);
  }

 private:
  static constexpr int kParts = projection_parts(kOctets);
  static_assert(kParts <= kGroups);
  /// Whether the products' 64 rows are those of the tile, and features their columns; else features
  /// are rows, and half of those there are nobody's.
  static constexpr bool kRowsFirst = kOctets == kMostOctets;
  static constexpr int kSums = (kRowsFirst ? kClusterFeatures : kOctets * 8) / 2;
  static constexpr int kSources = kCluster * kParts, kOctetBytes = 512;
  using Columns = Product<T, 2 * kSums>;
  /// Pieces of a chunk that a warpgroup multiplies, and where the next one's descriptors are.
  static constexpr int kChunk = unit_chunk_pieces(kOctets) / kParts;
  static constexpr int kWeightStep = kParts * kProjectionBytes / 16;
  static constexpr int kValueStep = kParts * kOctets * kPieceBytes / 16;

  __device__ int group() const { return warp_ / 4; }
  /// Whether the warpgroup has a part of the depth.
  __device__ bool works() const { return group() < kParts; }

  /// Of each chunk a warpgroup takes every kParts-th piece.
  __device__ void multiply(float (&sums)[kSums], ValueRing& ring) const {
    const int pieces = block_.stack.own_pieces();
    std::uint64_t weights =
        factor_at(block_.memory + block_.places.projection + group() * kProjectionBytes,
                  kProjectionBytes / 2);
    int left = pieces;
#pragma unroll 1
    for (; left >= kParts * kChunk; left -= kParts * kChunk) {
      const std::uint64_t values = next_values(ring);
      if (works()) multiply_pieces<kChunk>(sums, weights, values);
      weights += kChunk * kWeightStep;
      if (left < pieces) {
        wait_for_products<1>();
        ring.release();
      }
    }
    finish_products(sums);
    if (left < pieces) ring.release();
    if (left == 0) return;
    // What is left of a depth that isn't a number of chunks.
    std::uint64_t values = next_values(ring);
#pragma unroll 1
    for (int i = group(); works() && i < left; i += kParts) {
      multiply_pieces<1>(sums, weights, values);
      weights += kWeightStep;
      values += kValueStep;
    }
    finish_products(sums);
    ring.release();
  }

  /// Those of the next chunk that the warpgroup multiplies.
  __device__ std::uint64_t next_values(ValueRing& ring) const {
    return factor_at(ring.take() + group() * kOctets * kPieceBytes, kOctets * kMatrixBytes);
  }
  template <int kPieces>
  __device__ void multiply_pieces(float (&sums)[kSums], std::uint64_t weights,
                                  std::uint64_t values) const {
    begin_products();
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      add_product(sums, weights + i * kWeightStep, values + i * kValueStep);
    }
    end_products();
  }
  __device__ static void add_product(float (&sums)[kSums], std::uint64_t weights,
                                     std::uint64_t values) {
    if constexpr (kRowsFirst) {
      Columns::add(sums, values, weights);
    } else {
      Columns::add(sums, weights, values);
    }
  }

  /// Where a block has an octet's sums of a source: [4][lane].
  __device__ int place(int source, int octet) const {
    return block_.places.sums + (source * kOctets + octet) * kOctetBytes + lane_ * 4;
  }

  /// Gives the sums of a block's features to that block.
  __device__ void send(const float (&sums)[kSums]) const {
    const int source = static_cast<int>(cluster_rank()) * kParts + group(), warp = warp_ % 4;
    // Of the 64 rows those of the first warps are features.
    if (!kRowsFirst && warp >= kCluster) return;
    wait_for_phase(block_.barriers.sums_empty(), parity_ ^ 1);
    follow_loads();
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int eight = i / 4, k = i % 4;
      if constexpr (kRowsFirst) {
        give(eight / 2, place(source, 2 * warp + k / 2) + (eight % 2 * 2 + k % 2) * 128, sums[i]);
      } else {
        give(warp, place(source, eight) + k * 128, sums[i]);
      }
    }
  }
  __device__ void give(int to, int place, float sum) const {
    const auto block = static_cast<std::uint32_t>(to);
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
            address_in(block, block_.memory + place)),
        "f"(sum), "r"(address_in(block, block_.barriers.sums_full()))
        : "memory");
  }
  /// Which feature and row of its octet the i-th of a thread's four sums is.
  __device__ int feature(int i) const {
    return kRowsFirst ? i / 2 * 8 + lane_ % 4 * 2 + i % 2 : lane_ / 4 + i / 2 * 8;
  }
  __device__ int row(int i) const { return kRowsFirst ? lane_ / 4 : lane_ % 4 * 2 + i % 2; }

  /// A warp has an octet of rows.
  __device__ void hand_on(int t, int tile, float (&h)[4]) const {
    const Layer& layer = block_.layer;
    wait_for_phase(block_.barriers.sums_full(), parity_);
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      const auto* sums = reinterpret_cast<const float*>(block_.shared + place(i, warp_));
#pragma unroll
      for (int k = 0; k < 4; ++k) h[k] += sums[k * 32];
    }
    const std::int64_t tiles = static_cast<std::int64_t>(t + 1) * block_.stack.tiles + tile;
    std::byte* state = layer.state + tiles * layer.state_pieces * kOctets * kPieceBytes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      store(value_at<T, kOctets>(state, block_.rank, feature(i), warp_, row(i)), h[i]);
    }
  }

  /// Whether anybody wants what a step comes to: the last layer's, and that of a row's last step.
  __device__ bool puts_out(int t) const {
    const Stack& stack = block_.stack;
    return block_.last || (block_.layer.hn && (stack.lengths || t + 1 == stack.time));
  }

  __device__ void put_out(int t, int tile, const float (&h)[4]) const {
    // Parameters, which are far away, are asked once.
    const Layer& layer = block_.layer;
    const int rows = block_.stack.rows, output = layer.output, time = block_.stack.time;
    const std::int32_t* lengths = block_.stack.lengths;
    T* y = block_.last ? static_cast<T*>(layer.y) + static_cast<std::int64_t>(t) * rows * output
                       : nullptr;
    T* hn = static_cast<T*>(layer.hn);
    const T* h0 = static_cast<const T*>(layer.h0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int own = (tile * kOctets + warp_) * 8 + row(i);
      const int column = block_.rank * kFeatures + feature(i);
      if (own >= rows || column >= output) continue;
      const int length = lengths ? lengths[own] : time;
      const std::int64_t at = static_cast<std::int64_t>(own) * output + column;
      if (y) store(y + at, t < length ? h[i] : 0.0f);
      if (hn && t + 1 == length) store(hn + at, h[i]);
      if (hn && t == 0 && length == 0) store(hn + at, h0 ? load(h0 + at) : 0.0f);
    }
  }

  const Block& block_;
  const int lane_, warp_;
  std::uint32_t parity_ = 0;
};

}  // namespace sluice::kernels::recurrent::cuda::projected
