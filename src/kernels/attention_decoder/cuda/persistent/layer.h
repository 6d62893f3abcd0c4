#pragma once

#include "kernels/attention_decoder/cuda/persistent/cell_place.h"
#include "kernels/attention_decoder/cuda/persistent/exchange.h"
#include "kernels/attention_decoder/cuda/persistent/product.h"
#include "kernels/recurrent/cuda/cells.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

/// A layer's warpgroup: products of its gates, of the input with weights in registers and of h with
/// those in shared memory, and its cells.
template <typename S>
class LayerRole {
 public:
  __device__ LayerRole(const Arguments<S>& args, const Block& block, int layer)
      : args_(args), layer_(args.layers[layer]), block_(block), number_(layer) {
    load_weights();
    const CellPlace place(block_);
    const bool has = place.unit < args.hidden;
    float h[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = place.row_of(i);
      const bool exists = row < args.rows && has;
      c_[i] = exists ? layer_.c[row * args.hidden + place.unit] : 0;
      h[i] = exists ? static_cast<float>(layer_.joint[row * width() + layer_.x + place.unit]) : 0;
    }
    h_[0] = pair_of<S>(h[0], h[1]);
    h_[1] = pair_of<S>(h[2], h[3]);
  }

  __device__ void run() {
    if (thread() == 0) expect_parts();
#pragma unroll 1
    for (int t = 0; t < args_.time; ++t) {
      multiply_state(t);
      multiply_item<kOwnTiles>(block_, Items::input(number_, t) * kOwnTiles, input_kind(), inputs_,
                               1, sums_, [&](int tile, int step, std::uint64_t lines) {
                                 multiply<S>(sums_, weights_[tile * kTileSteps + step], lines);
                               });
      float gates[4][4];
      meet(t, gates);
      step(t, gates);
    }
    // The last h is attention's alone.
    if (number_ + 1 < kLayers) return;
    skip_item<kOwnTiles>(block_, Items::state(1, args_.time - 1) * kOwnTiles, state_kind(), states_,
                         2);
  }

 private:
  using Math = recurrent::cuda::FastMath;
  static constexpr int kSteps = kOwnTiles * kTileSteps;

  __device__ static int thread() { return thread_of_role(); }
  __device__ int width() const { return layer_.x + args_.hidden; }

  __device__ int input_kind() const { return number_ == 0 ? kFed : kInput; }
  __device__ Exchange state_kind() const { return number_ == 0 ? kLowerState : kUpperState; }

  /// Those of the input, in fragments of mma.sync.
  __device__ void load_weights() {
    const CellPlace place(block_);
    const int gate = place.lane / 4 % 2 * 2;
    const bool has = place.unit < args_.hidden;
    const S* rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows[i] = layer_.weights + std::int64_t{(gate + i) * args_.hidden + place.unit} * width();
    }
    const int column = block_.rank * (kWidth / 2) + place.lane % 4 * 2;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = column + step * 16 + i / 2 * 8;
        weights_[step][i] = 0;
        if (has && at < layer_.x) {
          weights_[step][i] = *reinterpret_cast<const std::uint32_t*>(rows[i % 2] + at);
        }
      }
    }
  }

  /// Receives the next step's.
  __device__ void expect_parts() const {
    arrive_and_expect(block_.barrier(BlockMemory::kGates + number_), BlockMemory::kGatePartBytes);
  }

  /// What of step t does not depend on its input.
  __device__ void multiply_state(int t) {
    begin_sums(t);
    active_ = active(t);
    kept_ = keep(t);
    const std::uint32_t weights =
        of_warp(block_.base + BlockMemory::kStateWeights + number_ * (kOwnTiles * kTileBytes));
    const auto product = [&](int tile, int step, std::uint64_t lines) {
      multiply<S>(sums_, lines_of(weights + tile * kTileBytes, step), lines);
    };
    // Its own layer alone reads the first state, for which it awaits barriers of inputs.
    const bool first = t == 0;
    Phases phases = first ? inputs_ : states_;
    multiply_item<kOwnTiles>(block_, Items::state(number_, t - 1) * kOwnTiles,
                             first ? input_kind() : state_kind(), phases, first ? 1 : 1 + number_,
                             sums_, product);
    inputs_ = first ? phases : inputs_;
    states_ = first ? states_ : phases;
  }

  /// Sums begin with what is added to the products, in one of the two blocks.
  __device__ void begin_sums(int t) {
    const CellPlace place(block_);
    const int gate = place.lane / 4 % 2 * 2;
    const bool reads = number_ == 0 && place.unit < args_.hidden;
    float bias[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (place.unit < args_.hidden) {
        bias[i] = __ldg(layer_.bias + (gate + i) * args_.hidden + place.unit);
      }
    }
    const float* pre = args_.pre + std::int64_t{t} * args_.rows * 4 * args_.hidden +
                       gate * args_.hidden + place.unit;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = block_.rank * (kRows / 2) + i / 4 * 8 + place.lane % 4 * 2 + i % 2;
      float sum = bias[i / 2 % 2];
      if (reads && row < args_.rows) {
        sum += pre[std::int64_t{row} * 4 * args_.hidden + i / 2 % 2 * args_.hidden];
      }
      sums_[i] = block_.rank == 0 ? sum : 0;
      sums_[16 + i] = block_.rank == 0 ? 0 : sum;
    }
  }

  /// Which of its rows run at step t: a bit each.
  __device__ std::uint32_t active(int t) const {
    const CellPlace place(block_);
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = place.row_of(i);
      const bool runs = row < args_.rows && place.unit < args_.units &&
                        (args_.target_lengths == nullptr || t < __ldg(args_.target_lengths + row));
      bits |= (runs ? 1u : 0u) << i;
    }
    return bits;
  }

  /// Which of its rows keep the unit's output at step t: a bit each.
  __device__ std::uint32_t keep(int t) const {
    const Dropout& dropout = args_.dropout;
    if (number_ + 1 == kLayers || dropout.scale == 0) return 15;
    const CellPlace place(block_);
    const int row = min(place.row, args_.rows - 1);
    const auto id =
        static_cast<std::uint32_t>(dropout.row_ids == nullptr ? row : dropout.row_ids[row]);
    const auto words = dropout.source.key().words(id, static_cast<std::uint32_t>(t),
                                                  static_cast<std::uint32_t>(place.unit / 4));
    std::uint32_t mine = 0, kept = 0;
#pragma unroll
    for (std::size_t i = 0; i < 4; ++i) mine |= (words[i] >= dropout.threshold ? 1u : 0u) << i;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t of_row = __shfl_sync(~0u, mine, place.lane % 8 + i * 8);
      kept |= (of_row >> place.quarter & 1) << i;
    }
    return kept;
  }

  /// Adds what the other block has multiplied; gates[i]: of the i-th row, before activation.
  __device__ void meet(int t, float (&gates)[4][4]) {
    const CellPlace place(block_);
    const std::uint32_t barrier = block_.barrier(BlockMemory::kGates + number_);
    const int offset =
        BlockMemory::kGateParts + number_ * BlockMemory::kGatePartBytes + thread() * 16;
    const std::uint32_t to = block_.there(block_.base + offset), counts = block_.there(barrier);
    const bool second = block_.rank == 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* low = sums_ + 4 * i;
      const float* high = sums_ + 16 + 4 * i;
      send(to + i * 2048,
           make_float4(second ? low[0] : high[0], second ? low[1] : high[1],
                       second ? low[2] : high[2], second ? low[3] : high[3]),
           counts);
    }
    wait_for_phase(barrier, t & 1);
    if (thread() == 0) expect_parts();
    float own[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 part = *reinterpret_cast<const float4*>(block_.shared + offset + i * 2048);
      const float* low = sums_ + 4 * i;
      const float* high = sums_ + 16 + 4 * i;
      own[4 * i] = (second ? high[0] : low[0]) + part.x;
      own[4 * i + 1] = (second ? high[1] : low[1]) + part.y;
      own[4 * i + 2] = (second ? high[2] : low[2]) + part.z;
      own[4 * i + 3] = (second ? high[3] : low[3]) + part.w;
    }
    const bool odd = place.lane / 4 % 2 == 1;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float mine = odd ? own[8 + i] : own[i];
      const float other = __shfl_xor_sync(~0u, odd ? own[i] : own[8 + i], 4);
      const int row = i / 4 * 2 + i % 2, gate = i / 2 % 2;
      gates[row][gate] = odd ? other : mine;
      gates[row][2 + gate] = odd ? mine : other;
    }
  }

  __device__ void step(int t, float (&gates)[4][4]) {
    const CellPlace place(block_);
    float saved[4][4], y[4], h[4];
    const auto scale = static_cast<float>(
        args_.dropout.scale == 0 || number_ + 1 == kLayers ? 1 : args_.dropout.scale);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool active = (active_ >> i & 1) != 0;
      const float in = Math::logistic(gates[i][0]), forget = Math::logistic(gates[i][1]);
      const float cell = Math::tanh(gates[i][2]), out = Math::logistic(gates[i][3]);
      const float c = forget * c_[i] + in * cell;
      c_[i] = active ? c : c_[i];
      h[i] = out * Math::tanh(c);
      y[i] = active && (kept_ >> i & 1) != 0 ? h[i] * scale : 0;
      saved[0][i] = active ? in : 0;
      saved[1][i] = active ? forget : 0;
      saved[2][i] = active ? cell : 0;
      saved[3][i] = active ? out : 0;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t now = pair_of<S>(h[2 * i], h[2 * i + 1]), both = active_ >> (2 * i);
      const std::uint32_t mask = (both & 1 ? 0xFFFFu : 0u) | (both & 2 ? 0xFFFF0000u : 0u);
      h_[i] = (now & mask) | (h_[i] & ~mask);
    }
    const uint2 state = turned(place, h_[0], h_[1]), input = turned<S>(place, y);
    const int units = place.units(), row = place.row;
    *reinterpret_cast<uint2*>(published(args_, state_kind(), t, row, units)) = state;
    if (number_ == 0) *reinterpret_cast<uint2*>(published(args_, kInput, t, row, units)) = input;
    sync_warpgroup(1 + number_);
    if (thread() == 0) {
      publish(
          counter_of(args_, number_ == 0 ? kLowerCounters : kUpperCounters, block_.cluster / 4));
    }
    write(t, state, input, saved);
  }

  /// What later steps don't wait for.
  __device__ void write(int t, const uint2& h, const uint2& y, const float (&saved)[4][4]) const {
    const CellPlace place(block_);
    const float4 c = turned(place, c_);
    uint2 gates[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) gates[i] = turned<S>(place, saved[i]);
    const int row = place.row, units = place.units(), hidden = args_.hidden;
    if (row >= args_.rows || units >= hidden) return;
    *reinterpret_cast<uint2*>(layer_.joint + layer_.joints.at(t + 1) + row * width() + layer_.x +
                              units) = h;
    *reinterpret_cast<float4*>(layer_.c + layer_.cells.at(t + 1) + row * hidden + units) = c;
    S* above =
        number_ + 1 == kLayers
            ? args_.combined + args_.combineds.at(t) + row * (args_.memory + hidden) + args_.memory
            : args_.layers[1].joint + args_.layers[1].joints.at(t) + row * 2 * hidden;
    *reinterpret_cast<uint2*>(above + units) = y;
    if (layer_.saved == nullptr) return;
    S* to = layer_.saved + (std::int64_t{t} * args_.rows + row) * 4 * hidden + units;
#pragma unroll
    for (int i = 0; i < 4; ++i) *reinterpret_cast<uint2*>(to + i * hidden) = gates[i];
  }

  const Arguments<S>& args_;
  const Layer<S>& layer_;
  const Block& block_;
  const int number_;
  std::uint32_t weights_[kSteps][4];
  float sums_[32];
  float c_[4];
  std::uint32_t h_[2];  ///< of two rows each
  std::uint32_t active_ = 0, kept_ = 0;
  Phases inputs_, states_;
};

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
