#pragma once

#include <cstdint>

/// What an instruction set must provide for attention on the CPU. Rows of keys, values, queries and
/// context gradients are padded with zeros to whole multiples of 16 elements.
/// Each sum has one fixed order that depends on the widths only, so the bits of a row depend
/// neither on the other rows nor on the padded source time.
namespace sluice::kernels::attention_decoder::cpu {

/// One row at one step.
template <typename T>
struct AttendArgs {
  std::int64_t source_time;  ///< elements of alpha
  std::int64_t length;       ///< how many of them there are to attend to, 0..source_time
  std::int64_t key_stride, value_stride;
  std::int64_t memory;    ///< M, elements of context
  const T* keys;          ///< [source_time, key_stride]
  const T* values;        ///< [source_time, value_stride]
  const T* query;         ///< [key_stride]: W_q q, or q itself
  const T* score_vector;  ///< [key_stride] if additive, else null
  T* alpha;               ///< out [source_time], zero from `length` on
  T* context;             ///< out [M]
};

/// The gradient of one row's step. alpha is the forward's.
template <typename T>
struct AttendBackwardArgs {
  std::int64_t length;
  std::int64_t key_stride, value_stride;
  const T* keys;
  const T* values;
  const T* query;
  const T* score_vector;
  const T* alpha;
  const T* d_context;  ///< [value_stride]
  T* d_scores;         ///< out [length]
  T* d_query;          ///< out [key_stride]
  T* d_keys;           ///< additive: added to, [length, key_stride]
  T* d_score_vector;   ///< additive: added to, [key_stride]
};

/// out[i] = sum over n < count, in rising order, of weights[n * weight_stride] * x[n * x_stride +
/// i].
template <typename T>
struct WeightedSumArgs {
  std::int64_t count;
  std::int64_t width;  ///< elements of out; x rows hold them padded to multiples of 16
  const T* weights;
  std::int64_t weight_stride;
  const T* x;
  std::int64_t x_stride;
  T* out;
};

template <typename T>
struct AttentionLeaf {
  void (*attend)(const AttendArgs<T>&);
  void (*attend_backward)(const AttendBackwardArgs<T>&);
  void (*weighted_sum)(const WeightedSumArgs<T>&);
  /// out[i] = tanh(in[i]), i < count. `in` is readable up to the next multiple of 16.
  void (*tanh)(std::int64_t count, const T* in, T* out);
};

/// Vectors of the baseline instruction set, whatever that is; float64 and float32.
template <typename T>
const AttentionLeaf<T>& portable_attention_leaf();

/// Null where this processor has not AVX2 and FMA, or not AVX-512 F, DQ and VL.
const AttentionLeaf<float>* avx2_attention_leaf();
const AttentionLeaf<float>* avx512_attention_leaf();

}  // namespace sluice::kernels::attention_decoder::cpu
