#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/shape.h"

namespace sluice::kernels::crf {

/// What a row adds to the sums, and what its gradient needs.
struct RowResult {
  double log_z;
  double loss;
  double counted, correct;  ///< labels
};

/// Parts of the sum over all tokens that a GPU's transition gradient is taken in: enough to fill it
/// where labels are few, and not much memory where they are many.
inline std::int64_t transition_parts(std::int64_t labels) {
  constexpr std::int64_t kPairs = std::int64_t{1} << 16, kMost = 64;
  return std::clamp(kPairs / (labels * labels), std::int64_t{1}, kMost);
}

/// The arrays of a workspace, each aligned to 64 bytes. With a null base it only counts, so that
/// sizes and pointers can't disagree.
class Workspace {
 public:
  Workspace(void* base, std::int64_t time, std::int64_t rows, std::int64_t labels, bool loss,
            bool gradient)
      : base_(static_cast<std::byte*>(base)) {
    const std::int64_t pairs = labels * labels;
    const std::int64_t cells = base::Shape{time, rows, labels}.element_count();
    viterbi = take<double>(cells);
    if (!loss) return;
    results = take<RowResult>(rows);
    largest = take<double>(1);
    weights = take<double>(pairs);
    forward = take<double>(cells);
    if (!gradient) return;
    turned = take<double>(pairs);
    backward = take<double>(cells);
    boundary = take<double>(2 * rows * labels);
    direct = take<double>(time * rows);
    sums = take<double>(std::max<std::int64_t>(2, transition_parts(labels)) * pairs);
  }

  std::size_t bytes() const { return used_; }

  double* viterbi = nullptr;     ///< [time, rows, labels]: best score of a sequence that ends here
  RowResult* results = nullptr;  ///< [rows]
  double* largest = nullptr;     ///< [1]: the largest transition
  double* weights = nullptr;     ///< [from, to]: exp(transition - largest)
  double* turned = nullptr;      ///< [to, from]: the same
  double* forward = nullptr;     ///< [time, rows, labels]: log-sum of all that ends here
  double* backward = nullptr;    ///< [time, rows, labels]: log-sum of all that follows
  double* boundary = nullptr;    ///< [2, rows, labels]: a row's gradient of start and of end
  double* direct = nullptr;      ///< [time, rows]: of the cpu leaf, which steps it adds up as logs
  double* sums = nullptr;        ///< [parts, from, to]

 private:
  template <typename T>
  T* take(std::int64_t count) {
    T* array = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    const std::size_t bytes = base::checked_mul(static_cast<std::size_t>(count), sizeof(T));
    used_ = base::checked_add(used_, base::align_up(bytes, 64));
    return array;
  }

  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace sluice::kernels::crf
