#pragma once

#include "kernels/attention_decoder/cuda/persistent/attention_parts.h"
#include "kernels/attention_decoder/cuda/persistent/parts.h"
#include "kernels/attention_decoder/cuda/persistent/product.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

/// A layer's warpgroup: its cells, and products of their gates' gradients: of the input, for which
/// the next role waits, with weights in registers, then of the state with those in shared memory. A
/// thread has the cells of four units in one row.
template <typename S>
class BackwardLayerRole {
 public:
  __device__ BackwardLayerRole(const BackwardArguments<S>& args, const BackwardBlock& block,
                               int layer)
      : args_(args), layer_(args.layers[layer]), block_(block), number_(layer) {
    load_weights();
    const bool exists = this->exists();
    const int at = row() * args.hidden + unit();
    constexpr float4 kNone = {0, 0, 0, 0};
    unpack(exists ? *reinterpret_cast<const float4*>(layer_.d_hidden + at) : kNone, held_);
    unpack(exists ? *reinterpret_cast<const float4*>(layer_.d_cell + at) : kNone, d_cell_);
  }

  __device__ void run() {
#pragma unroll 1
    for (int n = 0; n < args_.time; ++n) {
      const int t = args_.time - 1 - n;
      receive(t);
      if (n > 0) add_state(n - 1);
      await_turn(upper() ? Turn::kUpper : Turn::kLower);
      step(await_sums<4>(args_, block_, upper() ? Summed::kTop : Summed::kInput, n));
      hand_on(n);
      write(t);
      multiply_gates(n);
    }
    finish();
  }

 private:
  using Math = recurrent::cuda::FastMath;
  static constexpr int kSteps = kGateTiles * kTileSteps;

  __device__ bool upper() const { return number_ + 1 == kLayers; }
  __device__ int width() const { return layer_.x + args_.hidden; }
  __device__ Published gates() const {
    return upper() ? Published::kUpperGates : Published::kLowerGates;
  }
  __device__ Summed state_sums() const {
    return upper() ? Summed::kUpperState : Summed::kLowerState;
  }
  /// The thread's row and its first unit.
  __device__ int row() const { return block_.rank * (kRows / 2) + thread_of_role() / 4; }
  __device__ int unit() const { return block_.cluster * kUnits + thread_of_role() % 4 * 4; }
  __device__ bool exists() const { return row() < args_.rows && unit() < args_.hidden; }

  /// Those of the input are brought in by way of those of the state.
  __device__ void load_weights() {
    std::byte* shared =
        block_.shared + BackwardMemory::kStateWeights + number_ * (kGateTiles * kTileBytes);
    load_columns(shared, 0, layer_.x);
    sync_warpgroup(1 + number_);
    const int lane = thread_of_role() % 32, line = lane / 16 * 8 + lane % 8;
    const int piece = thread_of_role() / 32 * 2 + lane / 8 % 2;
    const std::uint32_t from =
        recurrent::cuda::shared_address(shared) + line * 128 + (piece ^ line % 8) * 16;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(weights_[step][0]), "=r"(weights_[step][1]), "=r"(weights_[step][2]),
                     "=r"(weights_[step][3])
                   : "r"(from + step * 16 * 128)
                   : "memory");
    }
    sync_warpgroup(1 + number_);
    load_columns(shared, layer_.x, args_.hidden);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    sync_warpgroup(1 + number_);
  }
  /// The block's group of `count` columns from `first` on, for its slice of the gates: of a cluster
  /// 16 units of each gate.
  __device__ void load_columns(std::byte* to, int first, int count) const {
    load_tiles<S>(to, kGateTiles, [&](int tile, int line, int piece_column) -> const S* {
      const int unit = (block_.slice * kGateTiles + tile) * kUnits + line % kUnits;
      const int column = block_.group * kGroupColumns + piece_column;
      if (unit >= args_.hidden || column >= count) return nullptr;
      return layer_.weights + std::int64_t{line / kUnits * args_.hidden + unit} * width() + first +
             column;
    });
  }

  /// What of step t does not depend on later ones.
  __device__ void receive(int t) {
    active_ =
        exists() && (args_.target_lengths == nullptr || t < __ldg(args_.target_lengths + row()));
    mask_ = keep(t);
    // Not those of the step before, which would stay in registers throughout.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      saved_[i] = {0, 0};
      c_before_[i] = c_tanh_[i] = 0;
    }
    if (!active_) return;
    const int hidden = args_.hidden;
    const S* saved = layer_.saved + (std::int64_t{t} * args_.rows + row()) * 4 * hidden + unit();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      saved_[i] = __ldg(reinterpret_cast<const uint2*>(saved + i * hidden));
    }
    const float* c = layer_.c + (std::int64_t{t} * args_.rows + row()) * hidden + unit();
    unpack(__ldg(reinterpret_cast<const float4*>(c)), c_before_);
    unpack(__ldg(reinterpret_cast<const float4*>(c + std::int64_t{args_.rows} * hidden)), c_tanh_);
#pragma unroll
    for (float& x : c_tanh_) x = Math::tanh(x);
  }

  /// The dropout mask of its units' outputs at step t: a bit each.
  __device__ std::uint32_t keep(int t) const {
    const Dropout& dropout = args_.dropout;
    if (upper() || dropout.scale == 0) return 15;
    const int row = min(this->row(), args_.rows - 1);
    const auto id =
        static_cast<std::uint32_t>(dropout.row_ids == nullptr ? row : dropout.row_ids[row]);
    const auto words = dropout.source.key().words(id, static_cast<std::uint32_t>(t),
                                                  static_cast<std::uint32_t>(unit() / 4));
    std::uint32_t mask = 0;
#pragma unroll
    for (std::size_t i = 0; i < 4; ++i) mask |= (words[i] >= dropout.threshold ? 1u : 0u) << i;
    return mask;
  }

  /// Adds what comes to the state through the products of the n-th step.
  __device__ void add_state(int n) {
    float sums[4];
    unpack(await_sums<4>(args_, block_, state_sums(), n), sums);
#pragma unroll
    for (int i = 0; i < 4; ++i) held_[i] += sums[i];
  }

  /// `above`: of the layer's output.
  __device__ void step(const float4& above) {
    if (!active_) {
      // The state stayed, and so does its gradient.
#pragma unroll
      for (uint2& gate : d_gates_) gate = {0, 0};
      return;
    }
    const auto scale =
        static_cast<float>(args_.dropout.scale == 0 || upper() ? 1 : args_.dropout.scale);
    float y[4], gates[4][4], d_gates[4][4];
    unpack(above, y);
#pragma unroll
    for (int g = 0; g < 4; ++g) unpack(wide<S>(saved_[g]), gates[g]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float in = gates[0][i], forget = gates[1][i], cell = gates[2][i], out = gates[3][i];
      const float c_tanh = c_tanh_[i];
      float dh = held_[i] + ((mask_ >> i & 1) != 0 ? y[i] * scale : 0);
      dh = unit() + i < args_.units ? dh : 0;
      const float dc = d_cell_[i] + dh * out * (1 - c_tanh * c_tanh);
      d_gates[0][i] = dc * cell * in * (1 - in);
      d_gates[1][i] = dc * c_before_[i] * forget * (1 - forget);
      d_gates[2][i] = dc * in * (1 - cell * cell);
      d_gates[3][i] = dh * c_tanh * out * (1 - out);
      d_cell_[i] = dc * forget;
      held_[i] = 0;
    }
#pragma unroll
    for (int g = 0; g < 4; ++g) {
#pragma unroll
      for (float& x : d_gates[g]) x = within(x, args_.limit);
      d_gates_[g] = narrow<S>(packed(d_gates[g]));
    }
  }

  __device__ void hand_on(int n) const {
    std::byte* tile = published(args_, gates(), n) + block_.cluster * kTileBytes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int place = place_in_tile(row(), i * kUnits + thread_of_role() % 4 * 4);
      *reinterpret_cast<uint2*>(tile + place) = d_gates_[i];
    }
    sync_warpgroup(1 + number_);
    if (thread_of_role() == 0) publish(counter_of(args_, gates(), block_.cluster));
  }

  /// What later steps don't wait for.
  __device__ void write(int t) const {
    if (!exists()) return;
    S* to = layer_.d_gates + (std::int64_t{t} * args_.rows + row()) * 4 * args_.hidden + unit();
#pragma unroll
    for (int i = 0; i < 4; ++i) *reinterpret_cast<uint2*>(to + i * args_.hidden) = d_gates_[i];
  }

  __device__ void multiply_gates(int n) {
    const int first = first_tile(gates(), n), kind = static_cast<int>(gates());
    {
      float sums[32];
      multiply_item<kGateTiles, Pass::kFirst>(
          block_, first, kind, phases_, 1, sums, [&](int tile, int step, std::uint64_t lines) {
            multiply<S>(sums, weights_[tile * kTileSteps + step], lines, tile + step > 0);
          });
      if (upper()) {
        store_parts<Summed::kInput>(args_, block_, n, sums);
      } else {
        store_parts<Summed::kFed>(args_, block_, n, sums);
      }
    }
    give_turn(upper() ? Turn::kLower : Turn::kAttention);
    float sums[32];
    const std::uint32_t weights =
        of_warp(block_.base + BackwardMemory::kStateWeights + number_ * (kGateTiles * kTileBytes));
    multiply_item<kGateTiles, Pass::kLast>(
        block_, first, kind, phases_, 1, sums, [&](int tile, int step, std::uint64_t lines) {
          multiply_transposed<S>(sums, depth_of(weights + tile * kTileBytes, step), lines,
                                 tile + step > 0);
        });
    await_turn(Turn::kStates);
    if (upper()) {
      store_parts<Summed::kUpperState>(args_, block_, n, sums);
    } else {
      store_parts<Summed::kLowerState>(args_, block_, n, sums);
    }
  }

  /// What flows out before the first step.
  __device__ void finish() const {
    const float4 sum = await_sums<4>(args_, block_, state_sums(), args_.time - 1);
    if (!exists()) return;
    const int at = row() * args_.hidden + unit();
    *reinterpret_cast<float4*>(layer_.d_hidden + at) = packed(held_);
    *reinterpret_cast<float4*>(layer_.d_cell + at) = packed(d_cell_);
    *reinterpret_cast<float4*>(layer_.d_joint + row() * width() + layer_.x + unit()) = sum;
  }

  const BackwardArguments<S>& args_;
  const LayerBackward<S>& layer_;
  const BackwardBlock& block_;
  const int number_;
  std::uint32_t weights_[kSteps][4];
  /// Of h past the products of the step at hand, and of c.
  float held_[4], d_cell_[4];
  float c_before_[4], c_tanh_[4];  ///< c of the step before, tanh of the step's
  uint2 saved_[4], d_gates_[4];
  bool active_ = false;
  std::uint32_t mask_ = 0;
  Phases phases_;
};

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
