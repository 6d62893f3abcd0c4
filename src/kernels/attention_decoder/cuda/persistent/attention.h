#pragma once

#include "kernels/attention_decoder/cuda/persistent/layer.h"

/// The third warpgroup: products of query and output, and attention for the cluster's row.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// Four numbers of 16 bits.
template <typename S>
__device__ float4 wide(const uint2& bits) {
  S values[4];
  memcpy(values, &bits, sizeof(bits));
  return make_float4(static_cast<float>(values[0]), static_cast<float>(values[1]),
                     static_cast<float>(values[2]), static_cast<float>(values[3]));
}
template <typename S>
__device__ uint2 narrow(const float4& v) {
  return {pair_of<S>(v.x, v.y), pair_of<S>(v.z, v.w)};
}

template <typename S>
class AttentionRole {
 public:
  __device__ AttentionRole(const Arguments<S>& args, const Block& block)
      : args_(args), block_(block), row_(block.cluster) {
    if (row_ < args.rows) {
      length_ = args.target_lengths == nullptr ? args.time : args.target_lengths[row_];
      source_ = args.source_lengths == nullptr ? args.source_time : args.source_lengths[row_];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = product_row() + i * 8;
      lengths_[i] = row >= args.rows                 ? 0
                    : args.target_lengths == nullptr ? args.time
                                                     : args.target_lengths[row];
    }
    const int column = this->column();
    if (column < args.key) vector_ = *reinterpret_cast<const float4*>(args.score_vector + column);
    vector_sum_ = vector_.x + vector_.y + vector_.z + vector_.w;
    if (column < args.padded_output) {
      bias_ = *reinterpret_cast<const float4*>(args.output_bias + column);
    }
  }

  __device__ void run() {
    if (thread() == 0) expect_columns();
    for (int t = 0; t < args_.time; ++t) {
      multiply_columns(t);
      const bool attends = t < length_ && source_ > 0;
      uint2 ahead[kAhead];
      load_ahead(args_.keys, args_.key, 0, attends, ahead);
      await_query(t);
      float4 sum = bias_;
      if (column() < args_.padded_output) {
        const float4 own = __ldcg(reinterpret_cast<const float4*>(
            args_.outputs + min(row_, args_.rows - 1) * args_.padded_output + column()));
        sum.x += own.x;
        sum.y += own.y;
        sum.z += own.z;
        sum.w += own.w;
      }
      if (attends) {
        score(t, ahead);
        load_ahead(args_.projected, args_.padded_output, 0, true, ahead);
        make_alpha(t);
        add_context(ahead, sum);
      }
      hand_on(t, sum);
      write(t, attends);
    }
  }

 private:
  /// Positions whose keys a thread has on their way.
  static constexpr int kAhead = 20;
  static_assert(kAhead > 16 && kAhead <= 32);

  __device__ static int thread() { return thread_of_role(); }
  __device__ static int warp() { return thread() / 32; }
  __device__ static int lane() { return thread() % 32; }
  /// The thread's four of keys and of the output.
  __device__ int column() const { return block_.rank * (kWidth / 2) + thread() * 4; }

  __device__ void expect_columns() const {
    arrive_and_expect(block_.barrier(BlockMemory::kColumnSums), BlockMemory::kColumnPartBytes);
  }

  /// q times the cluster's columns of query and output, which each block sums up for its rows.
  __device__ void multiply_columns(int t) {
    float sums[16] = {};
    const std::uint32_t weights = of_warp(block_.base + BlockMemory::kColumnWeights);
    multiply_item(block_, Items::state(1, t), kUpperState, states_, 2, sums,
                  [&](int tile, int step, std::uint64_t lines) {
                    recurrent::cuda::multiply_lines<S, kColumns>(
                        sums, lines, lines_of(weights + tile * kColumnBytes, step), 1);
                  });
    const std::uint32_t barrier = block_.barrier(BlockMemory::kColumnSums);
    const int offset = BlockMemory::kColumnParts + (warp() % 2 * 32 + lane()) * 16;
    if (warp() / 2 != block_.rank) {
      const std::uint32_t to = block_.there(block_.base + offset), counts = block_.there(barrier);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        send(to + i * 1024,
             make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]), counts);
      }
    } else {
      wait_for_phase(barrier, t & 1);
      if (thread() % 64 == 0) expect_columns();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 part = *reinterpret_cast<const float4*>(block_.shared + offset + i * 1024);
        const int column = block_.cluster * kUnits + i % 2 * 8 + lane() % 4 * 2;
        write_columns(t, i >= 2, 0, column, sums[4 * i] + part.x, sums[4 * i + 1] + part.y);
        write_columns(t, i >= 2, 1, column, sums[4 * i + 2] + part.z, sums[4 * i + 3] + part.w);
      }
    }
    sync_warpgroup<3>();
    if (thread() == 0) {
      announce(counter_of(args_, kQueryCounters, block_.rank * kOwnTiles + block_.cluster / 8));
    }
  }
  /// The first of the two rows of which the thread has products.
  __device__ static int product_row() { return warp() * 16 + lane() / 4; }
  __device__ void write_columns(int t, bool of_output, int which, int column, float x,
                                float y) const {
    const int width = of_output ? args_.padded_output : args_.key;
    const int row = product_row() + which * 8;
    if (row >= args_.rows || column >= width) return;
    const bool active = t < lengths_[which];
    float* to = of_output ? args_.outputs : args_.query + args_.queries.at(t);
    *reinterpret_cast<float2*>(to + row * width + column) =
        make_float2(active ? x : 0, active ? y : 0);
  }

  __device__ void await_query(int t) const {
    const std::uint32_t* counter =
        counter_of(args_, kQueryCounters, row_ / (kRows / 2) * kOwnTiles + lane() % kOwnTiles);
    const auto wanted = static_cast<std::uint32_t>((t + 1) * kAnnouncements);
    while (!__all_sync(~0u, read_counter(counter) >= wanted)) {
    }
  }

  /// The thread's columns of positions from `first` on; behind the last one that one again.
  __device__ void load_ahead(const S* matrix, int width, int first, bool attends,
                             uint2 (&to)[kAhead]) const {
    if (!attends || column() >= width) {
#pragma unroll
      for (uint2& bits : to) bits = {0, 0};
      return;
    }
    const S* from = matrix + (std::int64_t{row_} * args_.source_time + first) * width + column();
    const int last = (source_ - 1 - first) * width;
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      to[s] = __ldg(reinterpret_cast<const uint2*>(from + min(s * width, last)));
    }
  }

  __device__ float* scores(int copy) const {
    return reinterpret_cast<float*>(block_.shared + BlockMemory::kScores +
                                    copy * BlockMemory::kScoreBytes) +
           warp() * kMostSource;
  }

  /// vector . tanh(key + query) is the sum of the vector's numbers less 2 v / (1 + e^(2 (k + q)))
  /// for each; a pair has one division. `query` is in units of ln(2) / 2.
  __device__ float score_of(const uint2& bits, const float4& query) const {
    const float4 key = wide<S>(bits);
    return vector_sum_ - 2 * (fractions(key.x, key.y, query.x, query.y, vector_.x, vector_.y) +
                              fractions(key.z, key.w, query.z, query.w, vector_.z, vector_.w));
  }
  __device__ static float fractions(float key_a, float key_b, float query_a, float query_b, float a,
                                    float b) {
    // Where both are this large, tanh is 1 and their product is still a number.
    constexpr float kMost = 60;
    const float x = 1 + power_of_two(fminf(fmaf(key_a, 2 * kLog2OfE, query_a), kMost));
    const float y = 1 + power_of_two(fminf(fmaf(key_b, 2 * kLog2OfE, query_b), kMost));
    return fmaf(a, y, b * x) * reciprocal(x * y);
  }
  /// The sum of this lane and the one `half` away: of `low` in the lower of them, `high` in the
  /// upper.
  __device__ static float exchanged(float low, float high, int half) {
    const bool upper = (lane() & half) != 0;
    return (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, half);
  }

  /// Sums of the warp's columns to both blocks.
  __device__ void score(int t, uint2 (&ahead)[kAhead]) const {
    const std::uint32_t barrier = block_.barrier(BlockMemory::kScoreSums);
    if (thread() == 0) arrive_and_expect(barrier, 4 * 4 * source_);
    float4 query = {0, 0, 0, 0};
    if (column() < args_.key) {
      query = __ldcg(reinterpret_cast<const float4*>(args_.query + args_.queries.at(t) +
                                                     row_ * args_.key + column()));
      query.x *= 2 * kLog2OfE;
      query.y *= 2 * kLog2OfE;
      query.z *= 2 * kLog2OfE;
      query.w *= 2 * kLog2OfE;
    }
    const std::uint32_t there = block_.there(recurrent::cuda::shared_address(scores(1))),
                        counts = block_.there(barrier);
    for (int first = 0; first < source_; first += kAhead) {
      if (first > 0) load_ahead(args_.keys, args_.key, first, true, ahead);
      // Lane l is left with the l-th.
      float sums[16];
#pragma unroll
      for (int s = 0; s < 16; ++s) {
        const float low = score_of(ahead[s], query);
        const float high =
            s + 16 < kAhead ? score_of(ahead[s + 16 < kAhead ? s + 16 : 0], query) : 0;
        sums[s] = exchanged(low, high, 16);
      }
#pragma unroll
      for (int level = 0; level < 4; ++level) {
        const int half = 8 >> level;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (i < half) sums[i] = exchanged(sums[i], sums[(half + i) % 16], half);
        }
      }
      const int s = first + lane();
      if (lane() < kAhead && s < source_) {
        scores(0)[s] = sums[0];
        send(there + s * 4, sums[0], counts);
      }
    }
    sync_warpgroup<3>();
    ++const_cast<AttentionRole*>(this)->attended_;
    wait_for_phase(barrier, attended_ - 1 & 1);
  }

  /// Each warp for itself.
  __device__ void make_alpha(int) const {
    const auto* parts = reinterpret_cast<const float*>(block_.shared + BlockMemory::kScores);
    float* alpha = scores(2);
    float most = -INFINITY;
    for (int s = lane(); s < source_; s += 32) {
      // In one order for both blocks.
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sum += parts[((i / 4 ^ block_.rank) * 4 + i % 4) * kMostSource + s];
      }
      alpha[s] = sum;
      most = fmaxf(most, sum);
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
    float total = 0;
    for (int s = lane(); s < source_; s += 32) {
      alpha[s] = __expf(alpha[s] - most);
      total += alpha[s];
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2) total += __shfl_xor_sync(~0u, total, i);
    const float factor = 1 / total;
    for (int s = lane(); s < source_; s += 32) alpha[s] *= factor;
    __syncwarp();
  }

  /// Adds the output's products with the context.
  __device__ void add_context(uint2 (&ahead)[kAhead], float4& sum) const {
    for (int first = 0; first < source_; first += kAhead) {
      if (first > 0) load_ahead(args_.projected, args_.padded_output, first, true, ahead);
      add_positions(first, ahead, sum);
    }
  }
  __device__ void add_positions(int first, const uint2 (&ahead)[kAhead], float4& sum) const {
    const float* alpha = scores(2);
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (first + s >= source_) break;
      const float factor = alpha[first + s];
      const float4 value = wide<S>(ahead[s]);
      sum.x += factor * value.x;
      sum.y += factor * value.y;
      sum.z += factor * value.z;
      sum.w += factor * value.w;
    }
  }

  __device__ void hand_on(int t, const float4& sum) {
    output_ = {0, 0};
    if (t < length_) {
      output_ = narrow<S>(
          make_float4(fast_tanh(sum.x), fast_tanh(sum.y), fast_tanh(sum.z), fast_tanh(sum.w)));
    }
    *reinterpret_cast<uint2*>(handed_on(args_, kFed, t, row_, column())) = output_;
    sync_warpgroup<3>();
    if (thread() == 0) {
      announce(counter_of(args_, kFedCounters, block_.rank * kOwnTiles + block_.cluster / 8));
    }
  }

  /// What later steps don't wait for.
  __device__ void write(int t, bool attends) const {
    if (row_ >= args_.rows) return;
    const Layer<S>& lowest = args_.layers[0];
    if (column() < args_.padded_output) {
      *reinterpret_cast<uint2*>(lowest.joint + lowest.joints.at(t + 1) +
                                row_ * (lowest.x + args_.hidden) + column()) = output_;
    }
    S* a = args_.a + (std::int64_t{t} * args_.rows + row_) * args_.output;
    S values[4];
    memcpy(values, &output_, sizeof(output_));
    if (args_.output == args_.padded_output) {
      if (column() < args_.output) *reinterpret_cast<uint2*>(a + column()) = output_;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column() + i < args_.output) a[column() + i] = values[i];
      }
    }
    const float* alpha = scores(2);
    const std::int64_t entry = std::int64_t{row_} * args_.source_time;
    if (block_.rank == 0) {
      for (int s = thread(); s < args_.source_time; s += 128) {
        const float value = attends && s < source_ ? alpha[s] : 0;
        args_.alpha[args_.alphas.at(t) + entry + s] = value;
        if (args_.alpha_out != nullptr) {
          args_.alpha_out[std::int64_t{t} * args_.rows * args_.source_time + entry + s] =
              static_cast<S>(value);
        }
      }
    }
    S* context = args_.combined + args_.combineds.at(t) + row_ * (args_.memory + args_.hidden);
    for (int at = column(); at < args_.memory; at += kWidth) {
      float4 sum = {0, 0, 0, 0};
      for (int s = 0; attends && s < source_; ++s) {
        const float4 value = wide<S>(
            __ldg(reinterpret_cast<const uint2*>(args_.values + (entry + s) * args_.memory + at)));
        sum.x += alpha[s] * value.x;
        sum.y += alpha[s] * value.y;
        sum.z += alpha[s] * value.z;
        sum.w += alpha[s] * value.w;
      }
      *reinterpret_cast<uint2*>(context + at) = narrow<S>(sum);
    }
  }

  const Arguments<S>& args_;
  const Block& block_;
  const int row_;
  int length_ = 0, source_ = 0;
  std::uint32_t attended_ = 0;
  float4 vector_ = {0, 0, 0, 0}, bias_ = {0, 0, 0, 0};
  float vector_sum_ = 0;
  int lengths_[2];
  uint2 output_ = {0, 0};
  Phases states_;
};

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
