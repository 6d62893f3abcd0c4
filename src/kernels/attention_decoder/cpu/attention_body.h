#pragma once

#include "kernels/attention_decoder/cpu/attention_leaf.h"
#include "kernels/vector_math.h"

namespace sluice::kernels::attention_decoder::cpu {

/// The attention leaf written once for vectors of W elements (a divisor of 16).
template <typename T, int W>
struct AttentionBody {
  using V = Vector<T, W>;
  static constexpr int kUnroll = 4;  ///< accumulators in flight
  static constexpr std::int64_t kBlock = 16;

  static V at(const T* source) { return load<T, W>(source); }

  static T dot(const T* a, const T* b, std::int64_t width) {
    V sums[kUnroll] = {};
    std::int64_t i = 0;
    for (; i + kUnroll * W <= width; i += kUnroll * W) {
      for (int u = 0; u < kUnroll; ++u) sums[u] += at(a + i + u * W) * at(b + i + u * W);
    }
    for (; i < width; i += W) sums[0] += at(a + i) * at(b + i);
    return sum_of_lanes<T, W>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  static T additive_score(const T* key, const T* query, const T* vector, std::int64_t width) {
    V sum = {};
    for (std::int64_t k = 0; k < width; k += W) {
      sum += at(vector + k) * tanh_of<W>(at(key + k) + at(query + k));
    }
    return sum_of_lanes<T, W>(sum);
  }

  /// scores[0, length) in place to their softmax; the sum runs over rising elements.
  static void softmax(T* scores, std::int64_t length) {
    T most = scores[0];
    for (std::int64_t s = 1; s < length; ++s) most = scores[s] > most ? scores[s] : most;
    T total = 0;
    for (std::int64_t s = 0; s < length; s += W) {
      const std::int64_t count = length - s < W ? length - s : W;
      V part = {};
      __builtin_memcpy(&part, scores + s, count * sizeof(T));
      part = exp_nonpositive<W>(part - most);
      __builtin_memcpy(scores + s, &part, count * sizeof(T));
      for (std::int64_t i = 0; i < count; ++i) total += scores[s + i];
    }
    const T factor = T(1) / total;
    for (std::int64_t s = 0; s < length; ++s) scores[s] *= factor;
  }

  /// N vectors of out from column `column` on.
  template <int N>
  static void weighted_columns(const WeightedSumArgs<T>& args, std::int64_t column) {
    V sums[N] = {};
    const T* x = args.x + column;
    for (std::int64_t n = 0; n < args.count; ++n, x += args.x_stride) {
      const T weight = args.weights[n * args.weight_stride];
      for (int u = 0; u < N; ++u) sums[u] += weight * at(x + u * W);
    }
    const std::int64_t left = args.width - column;
    const std::int64_t count = left < N * W ? left : N * W;
    __builtin_memcpy(args.out + column, sums, count * sizeof(T));
  }

  static void weighted_sum(const WeightedSumArgs<T>& args) {
    constexpr int kVectors = kBlock / W;
    std::int64_t column = 0;
    if constexpr (kVectors < 8) {
      constexpr int kWide = 8;
      for (; column + kWide * W <= args.width; column += kWide * W) {
        weighted_columns<kWide>(args, column);
      }
    }
    for (; column < args.width; column += kBlock) weighted_columns<kVectors>(args, column);
  }

  static void attend(const AttendArgs<T>& args) {
    for (std::int64_t s = args.length; s < args.source_time; ++s) args.alpha[s] = 0;
    for (std::int64_t s = 0; s < args.length; ++s) {
      const T* key = args.keys + s * args.key_stride;
      args.alpha[s] = args.score_vector != nullptr
                          ? additive_score(key, args.query, args.score_vector, args.key_stride)
                          : dot(key, args.query, args.key_stride);
    }
    if (args.length > 0) softmax(args.alpha, args.length);
    weighted_sum(
        {args.length, args.memory, args.alpha, 1, args.values, args.value_stride, args.context});
  }

  /// The gradient of one score flows into d_query, d_keys and d_score_vector.
  static void additive_backward(const AttendBackwardArgs<T>& args, std::int64_t s) {
    const T* key = args.keys + s * args.key_stride;
    T* d_key = args.d_keys + s * args.key_stride;
    const T d_score = args.d_scores[s];
    for (std::int64_t k = 0; k < args.key_stride; k += W) {
      const V activation = tanh_of<W>(at(key + k) + at(args.query + k));
      store<T, W>(args.d_score_vector + k, at(args.d_score_vector + k) + d_score * activation);
      const V slope = T(1) - activation * activation;
      const V d_sum = (d_score * at(args.score_vector + k)) * slope;
      store<T, W>(args.d_query + k, at(args.d_query + k) + d_sum);
      store<T, W>(d_key + k, at(d_key + k) + d_sum);
    }
  }

  static void attend_backward(const AttendBackwardArgs<T>& args) {
    T mean = 0;
    for (std::int64_t s = 0; s < args.length; ++s) {
      args.d_scores[s] =
          dot(args.values + s * args.value_stride, args.d_context, args.value_stride);
      mean += args.alpha[s] * args.d_scores[s];
    }
    for (std::int64_t s = 0; s < args.length; ++s) {
      args.d_scores[s] = args.alpha[s] * (args.d_scores[s] - mean);
    }
    if (args.score_vector == nullptr) {
      weighted_sum({args.length, args.key_stride, args.d_scores, 1, args.keys, args.key_stride,
                    args.d_query});
      return;
    }
    for (std::int64_t k = 0; k < args.key_stride; k += W) store<T, W>(args.d_query + k, V{});
    for (std::int64_t s = 0; s < args.length; ++s) additive_backward(args, s);
  }

  static void tanh(std::int64_t count, const T* in, T* out) {
    for (std::int64_t i = 0; i < count; i += W) {
      const V value = tanh_of<W>(at(in + i));
      const std::int64_t left = count - i;
      if (left >= W) {
        store<T, W>(out + i, value);
      } else {
        __builtin_memcpy(out + i, &value, left * sizeof(T));
      }
    }
  }

  static constexpr AttentionLeaf<T> leaf() {
    return {&attend, &attend_backward, &weighted_sum, &tanh};
  }
};

}  // namespace sluice::kernels::attention_decoder::cpu
