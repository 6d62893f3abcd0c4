#pragma once

#include "kernels/attention_decoder/cuda/cell_kernels.h"

/// Attention with softmax, each one launch. Widths and strides are padded ones. Additive if
/// score_vector is there, else multiplicative. Lengths are null if absent.
namespace sluice::kernels::attention_decoder::cuda {

template <typename S>
struct Attended {
  std::int64_t rows = 0;
  std::int64_t source_time = 0;
  std::int64_t key_width = 0, value_width = 0;
  const S* keys = nullptr;                ///< [inputs, source_time, key_width]
  const S* values = nullptr;              ///< [inputs, source_time, value_width]
  const Wide<S>* score_vector = nullptr;  ///< [key_width]
  const std::int32_t* source_lengths = nullptr;
  const std::int32_t* input_of_row = nullptr;  ///< null: row r's is r
  const std::int32_t* target_lengths = nullptr;
};

/// What the steps of all rows ask with.
template <typename S>
struct Query {
  const Wide<S>* projected = nullptr;  ///< additive: W_q q, [rows, key_width]
  const S* state = nullptr;            ///< multiplicative: q, rows every `stride`
  std::int64_t stride = 0;
};

template <typename S>
struct AttendArgs {
  Attended<S> attended;
  std::int64_t t = 0;
  Query<S> query;
  Wide<S>* alpha = nullptr;  ///< out [rows, source_time]
  S* alpha_out = nullptr;    ///< out, the same; optional
  S* context = nullptr;      ///< out [value_width], rows every `context_stride`
  std::int64_t context_stride = 0;
};

template <typename S>
struct AttendBackwardArgs {
  Attended<S> attended;
  std::int64_t t = 0;
  Query<S> query;
  const Wide<S>* alpha = nullptr;
  const Wide<S>* d_context = nullptr;  ///< rows every `d_context_stride`
  std::int64_t d_context_stride = 0;
  Wide<S>* d_scores = nullptr;  ///< out [rows, source_time]
  S* d_query = nullptr;         ///< additive: out [rows, key_width], of W_q q
  Wide<S>* d_state = nullptr;   ///< multiplicative: added to, of q, rows every d_context_stride
  float limit = INFINITY;       ///< of d_query's magnitude
};

/// Of the keys, after the time loop: query, d_scores are those of step 0, all steps behind.
template <typename S>
struct KeyGradientArgs {
  Attended<S> attended;
  std::int64_t target_time = 0;
  Query<S> query;
  const Wide<S>* d_scores = nullptr;  ///< [target_time, rows, source_time]
  S* d_keys = nullptr;                ///< out [rows, source_time, key_width]
  Wide<S>* d_vector = nullptr;        ///< additive: out [rows, source tiles, key_width]
  float limit = INFINITY;             ///< of d_keys' magnitude
};

/// d_memory[s, row] = through_keys[row, s] + sum over t of alpha d_context, zero past the ends.
template <typename S>
struct MemoryGradientArgs {
  Attended<S> attended;
  std::int64_t target_time = 0;
  std::int64_t memory = 0;             ///< M
  const Wide<S>* alpha = nullptr;      ///< [target_time, rows, source_time]
  const Wide<S>* d_context = nullptr;  ///< [target_time, rows] every d_context_stride
  std::int64_t d_context_stride = 0;
  const Wide<S>* through_keys = nullptr;  ///< [rows, source_time, value_width]
  S* d_memory = nullptr;                  ///< out [source_time, rows, memory]
};

/// Bytes of shared memory that a block needs; a plan refuses more than the GPU has.
std::size_t attention_shared_bytes(std::int64_t source_time, std::int64_t key_width,
                                   std::int64_t value_width, base::DType storage);

template <typename S>
void attend(Stream& stream, const AttendArgs<S>& args);
template <typename S>
void attend_backward(Stream& stream, const AttendBackwardArgs<S>& args);
template <typename S>
void gather_key_gradients(Stream& stream, const KeyGradientArgs<S>& args);
template <typename S>
void gather_memory_gradients(Stream& stream, const MemoryGradientArgs<S>& args);

}  // namespace sluice::kernels::attention_decoder::cuda
