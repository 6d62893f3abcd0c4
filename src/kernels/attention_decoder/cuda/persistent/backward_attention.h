#pragma once

#include "kernels/attention_decoder/cuda/persistent/parts.h"
#include "kernels/attention_decoder/cuda/persistent/positions.h"
#include "kernels/attention_decoder/cuda/persistent/product.h"

/// The third warpgroup of backward: gradients of the output and of attention for the cluster's row,
/// and products of what is published of them.
namespace sluice::kernels::attention_decoder::cuda::persistent {

template <typename S>
class BackwardAttentionRole {
 public:
  __device__ BackwardAttentionRole(const BackwardArguments<S>& args, const BackwardBlock& block)
      : args_(args), block_(block), row_(block.cluster) {
    load_weights();
    if (column() < args.key)
      vector_ = *reinterpret_cast<const float4*>(args.score_vector + column());
    if (row_ >= args.rows) return;
    length_ = args.target_lengths == nullptr ? args.time : args.target_lengths[row_];
    source_ = args.source_time;
    if (args.source_lengths != nullptr) {
      source_ = min(max(args.source_lengths[row_], 0), args.source_time);
    }
  }

  __device__ void run() {
#pragma unroll 1
    for (int n = 0; n < args_.time; ++n) {
      const int t = args_.time - 1 - n;
      const bool active = t < length_, attends = active && source_ > 0;
      uint2 ahead[kAhead];
      projected().load(0, column(), attends, ahead);
      receive(t, active, attends);
      float4 fed = {0, 0, 0, 0};
      if (n > 0) fed = await_fed(n - 1);
      make_output(active, fed);
      d_query_ = {0, 0};
      if (attends) {
        const float4 d_output = wide<S>(d_output_);
        sum_positions(
            block_, source_, attended_,
            [&](int first) { projected().load(first, column(), true, ahead); },
            [&](int s) { return product_of(wide<S>(ahead[s]), d_output); });
        keys().load(0, column(), true, ahead);
        make_scores();
        make_query(ahead);
      }
      hand_on(n);
      write(t, active);
      multiply_asked(n);
    }
    finish();
  }

 private:
  __device__ static int thread() { return thread_of_role(); }
  __device__ static int lane() { return thread() % 32; }
  /// The thread's four of keys and of the output.
  __device__ int column() const { return block_.rank * (kWidth / 2) + thread() * 4; }
  __device__ Positions<S> projected() const {
    return {args_.projected, args_.padded_output, row_, args_.source_time, source_};
  }
  __device__ Positions<S> keys() const {
    return {args_.keys, args_.key, row_, args_.source_time, source_};
  }

  /// Of the output (from q) and of the query, the block's columns and its slice of each.
  __device__ void load_weights() const {
    load_tiles<S>(
        block_.shared + BackwardMemory::kAskedWeights, kAskedTiles,
        [&](int tile, int line, int piece_column) -> const S* {
          const int column = block_.group * kGroupColumns + piece_column;
          const int at = block_.slice * (kWidth / kSlices) + tile % 2 * kTileDepth + line;
          const bool of_query = tile >= 2;
          if (at >= (of_query ? args_.key : args_.padded_output) || column >= args_.hidden) {
            return nullptr;
          }
          if (of_query) return args_.query_weight + std::int64_t{at} * args_.hidden + column;
          return args_.output_weight + std::int64_t{at} * (args_.memory + args_.hidden) +
                 args_.memory + column;
        });
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    sync_warpgroup<3>();
  }

  __device__ void receive(int t, bool active, bool attends) {
    da_ = a_ = {0, 0};
    query_ = {0, 0, 0, 0};
    if (attends && column() < args_.key) {
      query_ = __ldg(reinterpret_cast<const float4*>(
          args_.query + (std::int64_t{t} * args_.rows + row_) * args_.key + column()));
    }
    if (active) {
      const std::int64_t at = (std::int64_t{t} * args_.rows + row_) * args_.output + column();
      da_ = outputs_at(args_.da + at);
      a_ = outputs_at(args_.a + at);
    }
    const float* alpha = args_.alpha + (std::int64_t{t} * args_.rows + row_) * args_.source_time;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int s = lane() + i * 32;
      alpha_[i] = attends && s < source_ ? __ldg(alpha + s) : 0;
    }
  }
  /// Of rows that are not padded.
  __device__ uint2 outputs_at(const S* from) const {
    S values[4];
#pragma unroll
    for (S& value : values) value = static_cast<S>(0.0f);
    if (args_.a_in_fours) {
      if (column() < args_.output) return __ldg(reinterpret_cast<const uint2*>(from));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column() + i < args_.output) values[i] = from[i];
      }
    }
    uint2 bits;
    memcpy(&bits, values, sizeof(bits));
    return bits;
  }

  __device__ float4 await_fed(int n) const {
    await_turn(Turn::kAttention);
    const float4 fed = await_sums<4>(args_, block_, Summed::kFed, n);
    give_turn(Turn::kStates);
    return fed;
  }

  /// Of the output before its tanh.
  __device__ void make_output(bool active, const float4& fed) {
    const float4 a = wide<S>(a_), da = wide<S>(da_);
    const auto of = [&](float a, float da, float fed, int i) {
      const bool has = active && column() + i < args_.output;
      return has ? within((da + fed) * (1 - a * a), args_.limit) : 0;
    };
    d_output_ = narrow<S>(make_float4(of(a.x, da.x, fed.x, 0), of(a.y, da.y, fed.y, 1),
                                      of(a.z, da.z, fed.z, 2), of(a.w, da.w, fed.w, 3)));
  }

  __device__ static float product_of(const float4& a, const float4& b) {
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }

  /// Each warp for itself: gradients of scores, by those of alpha.
  __device__ void make_scores() {
    float mean = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int s = lane() + i * 32;
      d_scores_[i] = s < source_ ? sum_of_position(block_, s) : 0;
      mean += alpha_[i] * d_scores_[i];
    }
    mean = warp_sum(mean);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) d_scores_[i] = alpha_[i] * (d_scores_[i] - mean);
  }

  __device__ void make_query(uint2 (&ahead)[kAhead]) {
    float4 query = query_, sum = {0, 0, 0, 0};
    query.x *= 2 * kLog2E;
    query.y *= 2 * kLog2E;
    query.z *= 2 * kLog2E;
    query.w *= 2 * kLog2E;
#pragma unroll 1
    for (int first = 0; first < source_; first += kAhead) {
      if (first > 0) keys().load(first, column(), true, ahead);
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        if (first + s >= source_) break;
        const float d_score = of_position(d_scores_, first + s);
        const float4 key = wide<S>(ahead[s]);
        add_slopes(key.x, key.y, query.x, query.y, d_score, sum.x, sum.y);
        add_slopes(key.z, key.w, query.z, query.w, d_score, sum.z, sum.w);
      }
    }
    d_query_ = narrow<S>(make_float4(
        within(4 * vector_.x * sum.x, args_.limit), within(4 * vector_.y * sum.y, args_.limit),
        within(4 * vector_.z * sum.z, args_.limit), within(4 * vector_.w * sum.w, args_.limit)));
  }

  __device__ void hand_on(int n) const {
    const auto give = [&](bool of_query, const uint2& bits) {
      std::byte* tile =
          published(args_, Published::kAsked, n) + asked_tile(of_query, column()) * kTileBytes;
      *reinterpret_cast<uint2*>(tile + place_in_tile(row_, column() % kTileDepth)) = bits;
    };
    give(false, d_output_);
    give(true, d_query_);
    sync_warpgroup<3>();
    if (thread() == 0) {
      publish(counter_of(args_, Published::kAsked, block_.rank * kWatched + block_.cluster / 8));
    }
  }

  /// What later steps don't wait for.
  __device__ void write(int t, bool active) const {
    if (row_ >= args_.rows) return;
    const std::int64_t line = std::int64_t{t} * args_.rows + row_;
    if (column() < args_.padded_output) {
      *reinterpret_cast<uint2*>(args_.d_output + line * args_.padded_output + column()) = d_output_;
    }
    if (column() < args_.key) {
      *reinterpret_cast<uint2*>(args_.d_query + line * args_.key + column()) = d_query_;
    }
    const int s = thread();
    if (block_.rank != 0 || s >= args_.source_time) return;
    const bool attends = active && source_ > 0;
    args_.d_scores[line * args_.source_time + s] =
        attends ? s < 32 ? d_scores_[0] : d_scores_[1] : 0;
  }

  /// Into the upper layer's output.
  __device__ void multiply_asked(int n) {
    float sums[32];
    const std::uint32_t weights = of_warp(block_.base + BackwardMemory::kAskedWeights);
    multiply_item<kAskedTiles>(
        block_, first_tile(Published::kAsked, n), static_cast<int>(Published::kAsked), asked_, 1,
        sums, [&](int tile, int step, std::uint64_t lines) {
          multiply_transposed<S>(sums, depth_of(weights + tile * kTileBytes, step), lines,
                                 tile + step > 0);
        });
    store_parts<Summed::kTop>(args_, block_, n, sums);
    give_turn(Turn::kUpper);
  }

  /// The output's that precedes the first step.
  __device__ void finish() const {
    const float4 fed = await_fed(args_.time - 1);
    if (row_ >= args_.rows || column() >= args_.padded_output) return;
    const LayerBackward<S>& lowest = args_.layers[0];
    *reinterpret_cast<float4*>(lowest.d_joint + row_ * (lowest.x + args_.hidden) + column()) = fed;
  }

  const BackwardArguments<S>& args_;
  const BackwardBlock& block_;
  const int row_;
  int length_ = 0, source_ = 0;
  std::uint32_t attended_ = 0;  ///< parity of the steps at which the row has attended
  uint2 a_, da_, d_output_, d_query_;
  float4 vector_ = {0, 0, 0, 0}, query_;
  float alpha_[kOfLane], d_scores_[kOfLane];
  Phases asked_;
};

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
