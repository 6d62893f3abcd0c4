#pragma once

#include "kernels/attention_decoder/cuda/persistent/exchange.h"
#include "kernels/attention_decoder/cuda/persistent/positions.h"
#include "kernels/attention_decoder/cuda/persistent/product.h"

/// The third warpgroup: products of query and output, and attention for the cluster's row.
namespace sluice::kernels::attention_decoder::cuda::persistent {

template <typename S>
class AttentionRole {
 public:
  __device__ AttentionRole(const Arguments<S>& args, const Block& block)
      : args_(args), block_(block), row_(block.cluster) {
    if (row_ < args.rows) {
      length_ = args.target_lengths == nullptr ? args.time : args.target_lengths[row_];
      source_ = args.source_time;
      if (args.source_lengths != nullptr) {
        source_ = min(max(args.source_lengths[row_], 0), args.source_time);
      }
    }
    const int column = this->column();
    if (column < args.key) vector_ = *reinterpret_cast<const float4*>(args.score_vector + column);
    vector_sum_ = vector_.x + vector_.y + vector_.z + vector_.w;
    if (column < args.padded_output) {
      bias_ = *reinterpret_cast<const float4*>(args.output_bias + column);
    }
  }

  __device__ void run() {
#pragma unroll 1
    for (int t = 0; t < args_.time; ++t) {
      multiply_columns(t);
      const bool attends = t < length_ && source_ > 0;
      uint2 ahead[kAhead];
      load_ahead(args_.keys, args_.key, 0, attends, ahead);
      await_parts(t);
      float4 query = part_of(0), sum = part_of(1);
      if (attends) {
        score(query, ahead);
        load_ahead(args_.projected, args_.padded_output, 0, true, ahead);
        make_alpha();
        add_context(ahead, sum);
      }
      hand_on(t, sum);
      write(t, attends, query);
    }
  }

 private:
  using Math = recurrent::cuda::FastMath;

  __device__ static int thread() { return thread_of_role(); }
  __device__ static int warp() { return thread() / 32; }
  __device__ static int lane() { return thread() % 32; }
  /// The thread's four of keys and of the output.
  __device__ int column() const { return block_.rank * (kWidth / 2) + thread() * 4; }

  /// q times the cluster's columns of query and output, by the block's half of the depth.
  __device__ void multiply_columns(int t) {
    float sums[16] = {};
    const std::uint32_t weights = of_warp(block_.base + BlockMemory::kColumnWeights);
    multiply_item<kOwnTiles>(block_, Items::state(1, t) * kOwnTiles, kUpperState, states_, 2, sums,
                             [&](int tile, int step, std::uint64_t lines) {
                               recurrent::cuda::multiply_lines<S, kColumns>(
                                   sums, lines, lines_of(weights + tile * kColumnBytes, step), 1);
                             });
    const int row = warp() * 16 + lane() / 4, column = block_.cluster * kUnits + lane() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float* to = part(block_.rank, row, i / 2) + column + i % 2 * 8;
      *reinterpret_cast<float2*>(to) = make_float2(sums[4 * i], sums[4 * i + 1]);
      *reinterpret_cast<float2*>(to + 8 * 2 * kWidth) =
          make_float2(sums[4 * i + 2], sums[4 * i + 3]);
    }
    sync_warpgroup<3>();
    if (thread() == 0) publish(counter_of(args_, kQueryCounters, block_.cluster / 4));
  }
  __device__ float* part(int rank, int row, int which) const {
    return args_.parts + ((rank * kRows + row) * 2 + which) * kWidth;
  }

  /// Until all clusters have multiplied the block's columns.
  __device__ void await_parts(int t) const {
    const std::uint32_t* counter =
        counter_of(args_, kQueryCounters, block_.rank * kOwnTiles + lane() % kOwnTiles);
    const auto wanted = static_cast<std::uint32_t>((t + 1) * kAnnouncements);
    while (!__all_sync(~0u, read_counter(counter) >= wanted)) {
    }
    // Each lane reads what others' counters tell of.
    __syncwarp();
  }
  /// The thread's columns of the row's query, or output.
  __device__ float4 part_of(int which) const {
    const float4 a = __ldcg(reinterpret_cast<const float4*>(part(0, row_, which) + column()));
    const float4 b = __ldcg(reinterpret_cast<const float4*>(part(1, row_, which) + column()));
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  }

  /// The thread's columns of positions from `first` on.
  __device__ void load_ahead(const S* matrix, int width, int first, bool attends,
                             uint2 (&to)[kAhead]) const {
    const Positions<S> positions{matrix, width, row_, args_.source_time, source_};
    positions.load(first, column(), attends, to);
  }

  /// vector . tanh(key + query) is the sum of the vector's numbers less 2 v / (1 + e^(2 (k + q)))
  /// for each; a pair has one division. `query` comes times 2 / ln(2).
  __device__ float score_of(const uint2& bits, const float4& query) const {
    const float4 key = wide<S>(bits);
    return vector_sum_ - 2 * (fractions(key.x, key.y, query.x, query.y, vector_.x, vector_.y) +
                              fractions(key.z, key.w, query.z, query.w, vector_.z, vector_.w));
  }
  __device__ void score(float4 query, uint2 (&ahead)[kAhead]) {
    query.x *= 2 * kLog2E;
    query.y *= 2 * kLog2E;
    query.z *= 2 * kLog2E;
    query.w *= 2 * kLog2E;
    sum_positions(
        block_, source_, attended_,
        [&](int first) { load_ahead(args_.keys, args_.key, first, true, ahead); },
        [&](int s) { return score_of(ahead[s], query); });
  }

  /// Each warp for itself.
  __device__ void make_alpha() {
    float most = -INFINITY, total = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int s = lane() + i * 32;
      alpha_[i] = -INFINITY;
      if (s >= source_) continue;
      alpha_[i] = sum_of_position(block_, s);
      most = fmaxf(most, alpha_[i]);
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
#pragma unroll
    for (float& alpha : alpha_) {
      alpha = recurrent::cuda::fast_exp2((alpha - most) * kLog2E);
      total += alpha;
    }
    const float factor = 1 / warp_sum(total);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      // Of a row whose scores have NaN, what is past its end is still 0.
      alpha_[i] = lane() + i * 32 < source_ ? alpha_[i] * factor : 0;
    }
  }

  /// Adds the output's products with the context.
  __device__ void add_context(uint2 (&ahead)[kAhead], float4& sum) const {
#pragma unroll 1
    for (int first = 0; first < source_; first += kAhead) {
      if (first > 0) load_ahead(args_.projected, args_.padded_output, first, true, ahead);
      add_positions(first, ahead, sum);
    }
  }
  __device__ void add_positions(int first, const uint2 (&ahead)[kAhead], float4& sum) const {
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (first + s >= source_) break;
      add_scaled<S>(of_position(alpha_, first + s), ahead[s], sum);
    }
  }

  __device__ void hand_on(int t, const float4& sum) {
    output_ = {0, 0};
    if (t < length_) {
      output_ = narrow<S>(make_float4(Math::tanh(sum.x + bias_.x), Math::tanh(sum.y + bias_.y),
                                      Math::tanh(sum.z + bias_.z), Math::tanh(sum.w + bias_.w)));
    }
    *reinterpret_cast<uint2*>(published(args_, kFed, t, row_, column())) = output_;
    sync_warpgroup<3>();
    if (thread() == 0) {
      publish(counter_of(args_, kFedCounters, block_.rank * kOwnTiles + block_.cluster / 8));
    }
  }

  /// What later steps don't wait for.
  __device__ void write(int t, bool attends, const float4& query) const {
    if (row_ >= args_.rows) return;
    if (column() < args_.key) {
      *reinterpret_cast<float4*>(args_.query + args_.queries.at(t) + row_ * args_.key + column()) =
          t < length_ ? query : make_float4(0, 0, 0, 0);
    }
    write_output(t);
    write_alpha(t, attends);
    write_context(t, attends);
  }
  __device__ void write_output(int t) const {
    if (column() >= args_.padded_output) return;
    const Layer<S>& lowest = args_.layers[0];
    *reinterpret_cast<uint2*>(lowest.joint + lowest.joints.at(t + 1) +
                              row_ * (lowest.x + args_.hidden) + column()) = output_;
    S* a = args_.a + (std::int64_t{t} * args_.rows + row_) * args_.output + column();
    if (args_.a_in_fours) {
      *reinterpret_cast<uint2*>(a) = output_;
      return;
    }
    S values[4];
    memcpy(values, &output_, sizeof(output_));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column() + i < args_.output) a[i] = values[i];
    }
  }
  __device__ void write_alpha(int t, bool attends) const {
    const int s = thread();
    if (block_.rank != 0 || s >= args_.source_time) return;
    const float alpha = attends ? s < 32 ? alpha_[0] : alpha_[1] : 0;
    const int at = row_ * args_.source_time + s;
    args_.alpha[args_.alphas.at(t) + at] = alpha;
    if (args_.alpha_out == nullptr) return;
    args_.alpha_out[std::int64_t{t} * args_.rows * args_.source_time + at] = static_cast<S>(alpha);
  }
  __device__ void write_context(int t, bool attends) const {
    S* context = args_.combined + args_.combineds.at(t) + row_ * (args_.memory + args_.hidden);
    const S* values = args_.values + std::int64_t{row_} * args_.source_time * args_.memory;
#pragma unroll 1
    for (int at = column(); at - lane() * 4 < args_.memory; at += kWidth) {
      const bool has = at < args_.memory;
      float4 sum = {0, 0, 0, 0};
#pragma unroll 4
      for (int s = 0; attends && s < source_; ++s) {
        uint2 bits = {0, 0};
        if (has) bits = __ldg(reinterpret_cast<const uint2*>(values + s * args_.memory + at));
        add_scaled<S>(of_position(alpha_, s), bits, sum);
      }
      if (has) *reinterpret_cast<uint2*>(context + at) = narrow<S>(sum);
    }
  }

  const Arguments<S>& args_;
  const Block& block_;
  const int row_;
  int length_ = 0, source_ = 0;
  std::uint32_t attended_ = 0;  ///< parity of the steps at which the row has attended
  float4 vector_ = {0, 0, 0, 0}, bias_ = {0, 0, 0, 0};
  float vector_sum_ = 0;
  float alpha_[kOfLane];
  uint2 output_ = {0, 0};
  Phases states_;
};

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
