#pragma once

#include <omp.h>

#include <algorithm>
#include <array>

#include "kernels/recurrent/cpu/sequence_run.h"

namespace sluice::kernels::recurrent::cpu {

template <typename T>
const ThreadScratch& scratch_of_thread(const Sequence<T>& sequence) {
  return sequence.workspace.backward.threads[static_cast<std::size_t>(omp_get_thread_num())];
}

/// sums[i] += the sum of column i, four rows at a time.
template <typename T>
void add_column_sums(const T* values, std::int64_t stride, std::int64_t depth, std::int64_t columns,
                     Sum<T>* sums) {
  using S = Sum<T>;
  std::int64_t row = 0;
  for (; row + 4 <= depth; row += 4) {
    const T* v = values + row * stride;
    for (std::int64_t i = 0; i < columns; ++i) {
      sums[i] += (static_cast<S>(v[i]) + static_cast<S>(v[stride + i])) +
                 (static_cast<S>(v[2 * stride + i]) + static_cast<S>(v[3 * stride + i]));
    }
  }
  for (; row < depth; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) sums[i] += static_cast<S>(values[row * stride + i]);
  }
}

/// Adds to what is there, or writes it whatever was there.
template <typename S>
void store_or_add(S& to, S value, bool accumulate) {
  to = accumulate ? to + value : value;
}

/// Gradients of matrices: (columns of gradients)^T * inputs, summed over all steps and rows. The
/// inputs are packed once, in pieces of the depth, for all threads and columns; two of them can
/// share the columns.
template <typename T>
class OuterProduct {
 public:
  OuterProduct(const Sequence<T>& sequence, const Memory& memory, std::int64_t depth)
      : sequence_(sequence), depth_(depth) {
    const BackwardScratch& scratch = sequence.workspace.backward;
    const ThreadScratch& own = scratch_of_thread(sequence);
    columns_ = at<T>(memory.workspace, own.columns);
    for (std::size_t i = 0; i < 2; ++i) {
      inputs_[i].packed = at<T>(memory.workspace, scratch.inputs[i]);
      inputs_[i].sums = at<Sum<T>>(memory.workspace, own.sums[i]);
    }
  }

  /// Packs values [depth, width] as input 0 or 1; to be called by all threads, which meet at the
  /// end.
  void pack(std::size_t index, const T* values, std::int64_t width) {
    Input& input = inputs_[index];
    input.width = width;
    input.piece_size = sequence_.leaf->packed_size(width, kWeightGradientDepth, 1);
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < depth_; first += kWeightGradientDepth) {
      sequence_.leaf->pack_stored({values + first * width, 0, 1, width, width,
                                   std::min(kWeightGradientDepth, depth_ - first), 1,
                                   input.packed + first / kWeightGradientDepth * input.piece_size,
                                   0, panels_of(width)});
    }
  }

  /// Multiplies some columns of gradients by the inputs that are wanted: see store_row. Adds to the
  /// sums of the columns themselves, if given.
  void multiply(const T* gradients, std::int64_t stride, std::int64_t columns, bool first_input,
                bool second_input, Sum<T>* column_sums) {
    for (std::int64_t first = 0; first < depth_; first += kWeightGradientDepth) {
      const std::int64_t depth = std::min(kWeightGradientDepth, depth_ - first);
      const T* piece = gradients + first * stride;
      if (column_sums) add_column_sums(piece, stride, depth, columns, column_sums);
      sequence_.leaf->transpose({piece, stride, depth, columns, columns_, kColumnStride});
      if (first_input) multiply_piece(inputs_[0], first, depth, columns);
      if (second_input) multiply_piece(inputs_[1], first, depth, columns);
    }
  }

  /// target [width of the input] (+)= the product's row of a column.
  void store_row(std::size_t index, std::int64_t column, Sum<T>* target, bool accumulate) const {
    const Input& input = inputs_[index];
    const Sum<T>* from = input.sums + column * panels_of(input.width) * kPanel;
    if (!accumulate) {
      std::copy_n(from, input.width, target);
      return;
    }
    for (std::int64_t i = 0; i < input.width; ++i) target[i] += from[i];
  }

  std::int64_t width(std::size_t index) const { return inputs_[index].width; }

 private:
  struct Input {
    std::int64_t width = 0, piece_size = 0;
    T* packed = nullptr;
    Sum<T>* sums = nullptr;  ///< of this thread
  };

  void multiply_piece(const Input& input, std::int64_t first, std::int64_t depth,
                      std::int64_t columns) const {
    const std::int64_t panels = panels_of(input.width);
    sequence_.leaf->product({columns_, kColumnStride, columns, depth, 1,
                             input.packed + first / kWeightGradientDepth * input.piece_size,
                             nullptr, first > 0, input.sums, panels * kPanel, 0, panels});
  }

  const Sequence<T>& sequence_;
  const std::int64_t depth_;
  T* columns_ = nullptr;
  std::array<Input, 2> inputs_;
};

}  // namespace sluice::kernels::recurrent::cpu
