#pragma once

#include <utility>

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/projected/block.h"
#include "kernels/recurrent/cuda/projected/products.h"

/// A step of the cells of a block's units for a tile of rows.
namespace sluice::kernels::recurrent::cuda::projected {

template <typename T, int kOctets>
class Gates {
 public:
  __device__ Gates(const Block& block)
      : block_(block),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(own_warp() % 4),
        group_(own_warp() / 4) {
    const Layer& layer = block.layer;
    if (layer.late) wait_for_phase(block.barriers.resident(), 0);
    const std::byte* from =
        block.gates() + group_ * kGroupGatesBytes + warp_ * 2 * kMatrixBytes + lane_ * 4;
#pragma unroll
    for (int i = 0; i < kKept * kSteps; ++i) {
      const int step = 2 * layer.depth_at(layer.first() * kDepths + i / 2) + i % 2;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int matrix = k / 2 * 8 + k % 2;
        kept_[i][k] = 0;
        if (layer.kept > 0) {
          kept_[i][k] = *reinterpret_cast<const std::uint32_t*>(from + step * kStepBytes +
                                                                matrix * kMatrixBytes);
        }
      }
    }
    const float4 bias = reinterpret_cast<const float4*>(layer.bias)[unit()];
    bias_[0] = bias.x;
    bias_[1] = bias.y;
    bias_[2] = bias.z;
    bias_[3] = bias.w;
  }

  /// Does once what comes behind the products, of which nothing counts: the code of the first step
  /// is there then, and what it reads. Nobody's output is written, for cn may be c0.
  __device__ void rehearse() {
    float sums[kOctets * 4] = {}, cells[kOctets];
    const std::uint32_t active = begin(cells, 0, 0);
    evaluate(sums, cells, active, 0);
    keep(cells, 0);
  }

  __device__ void run(int t, int tile, ValueRing& ring) {
    float cells[kOctets];
    const std::uint32_t active = begin(cells, t, tile);
    float sums[kOctets * 4] = {};
    if (block_.layer.kept > 0) {
      multiply<true>(sums, ring);
    } else {
      multiply<false>(sums, ring);
    }
    evaluate(sums, cells, active, tile);
    meet();
    keep(cells, tile);
    put_out(cells, active, t, tile);
  }

 private:
  using Columns = Product<T, kOctets * 8>;
  /// Depths of 32 of a group, and steps of a depth of 16; groups whose weights are in registers.
  static constexpr int kDepths = group_depths(kOctets), kSteps = 2 * kDepths;
  static_assert(kDepths == 1 || (kDepths == 2 && chunk_pieces(kOctets) == 4));
  static constexpr int kKept = groups_in_registers(kOctets);
  static constexpr int kStepBytes = kGatesBytes / 2;

  /// The thread's unit.
  __device__ int unit() const { return block_.rank * kUnits + group_ * 16 + warp_ * 4 + lane_ / 8; }
  /// The thread's row of an octet, and of all.
  __device__ int row() const { return lane_ % 4 * 2 + lane_ / 4 % 2; }
  __device__ int row_of(int tile, int octet) const { return (tile * kOctets + octet) * 8 + row(); }
  /// Where its unit is among [rows, H].
  __device__ std::int64_t at(int row) const {
    return static_cast<std::int64_t>(row) * block_.stack.hidden + unit();
  }

  /// Goes through the chunks of values: those of the input, then those of the state, or the other
  /// way round.
  struct Walk {
    std::uint64_t values;  ///< of the next depth of 32
    int left;              ///< depths of the chunk
    int pieces;            ///< of the input or the state, that are still to come
    int then;              ///< of the other
    bool behind;           ///< another chunk, which is to be released
  };
  /// Of values and of weights for a depth of 16, in descriptors of factors.
  static constexpr int kPieceStep = kOctets * kPieceBytes / 16, kWeightStep = kStepBytes / 16;

  /// sums += the products of the next group of depths, by the factors weight(k) of its depths
  /// of 16.
  template <typename Weight>
  __device__ void multiply_group(float (&sums)[kOctets * 4], const Weight& weight, Walk& walk,
                                 ValueRing& ring) const {
    const bool fresh = kDepths == chunk_pieces(kOctets) / 2 || walk.left == 0;
    if (fresh) {
      if (walk.pieces == 0) walk.pieces = walk.then;
      walk.values = factor_at(ring.take(), kOctets * kMatrixBytes);
      walk.left = min(walk.pieces, chunk_pieces(kOctets)) / 2;
      walk.pieces -= 2 * walk.left;
    }
    begin_products();
    Columns::add(sums, weight(0), walk.values);
    Columns::add(sums, weight(1), walk.values + kPieceStep);
    if constexpr (kDepths > 1) {
      Columns::add(sums, weight(2), walk.values + 2 * kPieceStep);
      Columns::add(sums, weight(3), walk.values + 3 * kPieceStep);
    }
    end_products();
    walk.values += kSteps * kPieceStep;
    walk.left -= kDepths;
    if (!fresh) return;
    if (walk.behind) {
      wait_for_products<1>();
      ring.release();
    }
    walk.behind = true;
  }
  /// By weights in shared memory.
  __device__ void multiply_shared(float (&sums)[kOctets * 4], std::uint32_t weights, Walk& walk,
                                  ValueRing& ring) const {
    const std::uint64_t first = factor_at(weights, 8 * kMatrixBytes);
    multiply_group(
        sums, [&](int k) { return first + k * kWeightStep; }, walk, ring);
  }

  /// By weights that come through the ring.
  __device__ void multiply_streamed(float (&sums)[kOctets * 4], int groups, Walk& walk,
                                    ValueRing& ring) {
    const std::uint32_t own = block_.memory + block_.places.weights + group_ * kGroupGatesBytes;
    const int stages = block_.layer.ring;
#pragma unroll 1
    for (int i = 0; i < groups; ++i) {
      wait_for_phase(block_.barriers.weights_full(weights_.stage), weights_.parity);
      multiply_shared(sums, own + weights_.stage * group_bytes(kOctets), walk, ring);
      if (i > 0) {
        wait_for_products<1>();
        release_weights();
      }
      weights_.next(stages);
    }
    finish_products(sums);
    if (groups > 0) release_weights();
  }
  __device__ void release_weights() {
    __syncwarp();
    if (lane_ == 0) arrive(block_.barriers.weights_empty(read_.stage));
    read_.next(block_.layer.ring);
  }

  /// kDeep: whether the layer has weights in registers. Sums of the tensor cores may not meet those
  /// of another path before they are finished.
  template <bool kDeep>
  __device__ void multiply(float (&sums)[kOctets * 4], ValueRing& ring) {
    const Layer& layer = block_.layer;
    Walk walk{0, 0, layer.input_pieces, layer.state_pieces, false};
    if (layer.waits()) std::swap(walk.pieces, walk.then);
    multiply_streamed(sums, layer.first(), walk, ring);
    if constexpr (kDeep) {
#pragma unroll
      for (int i = 0; i < kKept; ++i) {
        multiply_group(
            sums, [&](int k) -> const auto& { return kept_[i * kSteps + k]; }, walk, ring);
      }
    }
    wait_for_phase(block_.barriers.resident(), 0);
    std::uint32_t weights = block_.memory + block_.places.gates + group_ * kGroupGatesBytes;
#pragma unroll 1
    for (int i = 0; i < layer.resident; ++i) {
      multiply_shared(sums, weights, walk, ring);
      weights += group_bytes(kOctets);
    }
    multiply_streamed(sums, layer.streamed - layer.first(), walk, ring);
    ring.release();
  }

  /// What cells have before a step, and a bit an octet whether its row takes part.
  __device__ std::uint32_t begin(float (&cells)[kOctets], int t, int tile) const {
    const std::uint32_t inside = rows_inside(tile);
    // What is the same for all octets is asked once: parameters of a layer are far away.
    const float* c0 = block_.layer.c0;
    const std::int32_t* lengths = block_.stack.lengths;
    if (t > 0) {
      const float* from = cells_of(tile);
#pragma unroll
      for (int octet = 0; octet < kOctets; ++octet) cells[octet] = from[octet * kWorkers];
    } else {
#pragma unroll
      for (int octet = 0; octet < kOctets; ++octet) cells[octet] = 0;
    }
    if (t == 0 && c0) {
#pragma unroll
      for (int octet = 0; octet < kOctets; ++octet) {
        if (inside >> octet & 1) cells[octet] = c0[at(row_of(tile, octet))];
      }
    }
    if (lengths == nullptr) return inside;
    std::uint32_t active = 0;
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      if ((inside >> octet & 1) && t < lengths[row_of(tile, octet)]) active |= 1u << octet;
    }
    return active;
  }

  /// A bit an octet whether the thread has a cell of the layer there.
  __device__ std::uint32_t rows_inside(int tile) const {
    const int rows = unit() < block_.stack.hidden ? block_.stack.rows - row_of(tile, 0) : 0;
    std::uint32_t inside = 0;
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      inside |= static_cast<std::uint32_t>(octet * 8 < rows) << octet;
    }
    return inside;
  }

  /// A thread has gates i and f of a unit for two rows, or g and o; the one it shares them with is
  /// four lanes away. Each gets all of one row.
  __device__ void collect(float (&gates)[4], const float* sums) const {
    const bool second = lane_ / 4 % 2 == 1;
    const float first_given = __shfl_xor_sync(~0u, second ? sums[0] : sums[1], 4);
    const float second_given = __shfl_xor_sync(~0u, second ? sums[2] : sums[3], 4);
    gates[0] = (second ? first_given : sums[0]) + bias_[0];
    gates[1] = (second ? second_given : sums[2]) + bias_[1];
    gates[2] = (second ? sums[1] : first_given) + bias_[2];
    gates[3] = (second ? sums[3] : second_given) + bias_[3];
  }

  /// The states of this thread's unit in its row of each octet, kWorkers apart.
  __device__ float* cells_of(int tile) const {
    const std::int64_t octets =
        (static_cast<std::int64_t>(block_.rank) * block_.stack.tiles + tile) * kOctets;
    return block_.layer.cells + octets * kWorkers + threadIdx.x;
  }

  /// Hands on h before the projection, as the projection's products take it.
  __device__ void evaluate(const float (&sums)[kOctets * 4], float (&cells)[kOctets],
                           std::uint32_t active, int tile) const {
    using Cell = LstmCell<FastMath>;
    const int piece = block_.rank * (kUnits / 16) + group_;
    std::byte* units = block_.layer.units + static_cast<std::int64_t>(tile) *
                                                block_.stack.unit_pieces() * kOctets * kPieceBytes;
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      float gates[4];
      collect(gates, sums + octet * 4);
      FastMath::activate(gates);
      const float next = Cell::next_c(gates, cells[octet]);
      if (active >> octet & 1) cells[octet] = next;
      store(value_at<T, kOctets>(units, piece, warp_ * 4 + lane_ / 8, octet, row()),
            Cell::next_h(gates, next, 0));
    }
  }

  /// Keeps c for the next step.
  __device__ void keep(const float (&cells)[kOctets], int tile) const {
    float* to = cells_of(tile);
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) to[octet * kWorkers] = cells[octet];
  }

  /// Gives c to whoever wants it.
  __device__ void put_out(const float (&cells)[kOctets], std::uint32_t active, int t,
                          int tile) const {
    const Stack& stack = block_.stack;
    float* c_sequence = block_.layer.c_sequence;
    float* cn = t + 1 == stack.time ? block_.layer.cn : nullptr;
    if (!c_sequence && !cn) return;
    const std::uint32_t inside = rows_inside(tile);
    const std::int64_t step = static_cast<std::int64_t>(t) * stack.rows * stack.hidden;
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      if ((inside >> octet & 1) == 0) continue;
      const std::int64_t place = at(row_of(tile, octet));
      if (c_sequence) c_sequence[step + place] = active >> octet & 1 ? cells[octet] : 0.0f;
      if (cn) cn[place] = cells[octet];
    }
  }

  const Block& block_;
  const int lane_, warp_, group_;
  std::uint32_t kept_[kKept * kSteps][4];
  float bias_[4];
  RingPlace weights_, read_;  ///< the next stage of the ring of weights; that to be released
};

}  // namespace sluice::kernels::recurrent::cuda::projected
