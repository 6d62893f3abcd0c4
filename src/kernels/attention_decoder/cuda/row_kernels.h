#pragma once

#include <vector>

#include "kernels/attention_decoder/cuda/cell_kernels.h"

/// Moving rows between the caller's plain tensors and padded arrays, each one launch. Padding is
/// written with zeros.
namespace sluice::kernels::attention_decoder::cuda {

/// target[target_rows, target_width] = first + second (each null or [rows, width], zero beyond):
/// a block of a packed matrix or a bias.
template <typename W, typename T>
struct PackJob {
  const W* first = nullptr;
  const W* second = nullptr;
  std::int64_t source_stride = 0;
  std::int64_t rows = 0, width = 0;
  T* target = nullptr;
  std::int64_t target_stride = 0;
  std::int64_t target_rows = 0, target_width = 0;
};

template <typename W, typename T>
void pack(Stream& stream, const std::vector<PackJob<W, T>>& jobs);

/// target row = source row in its first `width` columns, else zero. A null source is zero.
template <typename From, typename To>
struct CopyArgs {
  std::int64_t rows = 0;
  std::int64_t width = 0;  ///< of a source row
  const From* source = nullptr;
  std::int64_t source_stride = 0;
  To* target = nullptr;
  std::int64_t target_stride = 0;
  std::int64_t target_width = 0;  ///< written
};

template <typename From, typename To>
void copy_rows(Stream& stream, const CopyArgs<From, To>& args);

/// Sequences with anything past the rows' ends: [time, rows, width] to [time, rows, target_width],
/// or to [rows, time, target_width] if `row_major`, zero past the ends.
template <typename S>
struct CleanArgs {
  std::int64_t time = 0, rows = 0, width = 0, target_width = 0;
  const S* source = nullptr;
  const std::int32_t* lengths = nullptr;
  S* target = nullptr;
  bool row_major = false;
};

template <typename S>
void clean_sequence(Stream& stream, const CleanArgs<S>& args);

/// a = tanh(sums + bias), 0 in inactive rows.
template <typename S>
struct OutputArgs {
  std::int64_t rows = 0;
  std::int64_t width = 0;   ///< A
  std::int64_t padded = 0;  ///< of sums
  Activity active;
  const Wide<S>* sums = nullptr;  ///< [rows, padded]
  const Wide<S>* bias = nullptr;  ///< [padded]
  S* a = nullptr;                 ///< out [rows, width]
  S* fed = nullptr;               ///< out, `padded` elements every fed_stride
  std::int64_t fed_stride = 0;
};

template <typename S>
void make_output(Stream& stream, const OutputArgs<S>& args);

/// d_output = (da + fed) * (1 - a^2), 0 in inactive rows.
template <typename S>
struct OutputBackwardArgs {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t padded = 0;
  Activity active;
  const S* a = nullptr;          ///< [rows, width]
  const S* da = nullptr;         ///< [rows, width]
  const Wide<S>* fed = nullptr;  ///< rows every fed_stride
  std::int64_t fed_stride = 0;
  S* d_output = nullptr;   ///< out [rows, padded]
  float limit = INFINITY;  ///< of its magnitude
};

template <typename S>
void output_backward(Stream& stream, const OutputBackwardArgs<S>& args);

/// out[row, i] = x[row, i] + y[row, i], i < width.
template <typename S>
struct AddArgs {
  std::int64_t rows = 0, width = 0;
  const Wide<S>* x = nullptr;
  std::int64_t x_stride = 0;
  const Wide<S>* y = nullptr;
  std::int64_t y_stride = 0;
  S* out = nullptr;  ///< [rows, width]
};

template <typename S>
void add_rows(Stream& stream, const AddArgs<S>& args);

/// sums[i] += the sum over rows of x[row, i], i < width, in a fixed order, times *factor unless
/// that is null; also to `others`, unless null: an LSTM has two biases of one gradient.
template <typename T, typename W>
void add_columns(Stream& stream, std::int64_t rows, std::int64_t width, const T* x,
                 std::int64_t stride, const float* factor, W* sums, W* others = nullptr);

}  // namespace sluice::kernels::attention_decoder::cuda
