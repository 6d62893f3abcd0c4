#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention_decoder/cpu/buffers.h"

/// How threads share the work.
namespace sluice::kernels::attention_decoder::cpu {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Part `part` of `parts` nearly equal ones.
inline Range split(std::int64_t count, std::int64_t part, std::int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

/// One thread's part of a time loop. With many rows each thread takes a block of rows through all
/// steps and never waits for another: rows are independent. With few rows all threads share every
/// step's products by panels of units, and its attention by rows, with barriers between.
class Share {
 public:
  /// Inside a parallel region.
  explicit Share(std::int64_t rows)
      : thread_(omp_get_thread_num()), threads_(omp_get_num_threads()) {
    by_rows_ = rows >= kRowsWorthABlock * threads_;
    own_rows_ = split(rows, thread_, threads_);
    rows_ = by_rows_ ? own_rows_ : Range{0, rows};
  }

  /// Rows whose products and cells this thread computes, in its panels.
  Range rows() const { return rows_; }
  Range panels(std::int64_t units) const {
    const std::int64_t panels = panels_of(units);
    return by_rows_ ? Range{0, panels} : split(panels, thread_, threads_);
  }
  /// Rows this thread alone is responsible for where a row is done whole.
  Range own_rows() const { return own_rows_; }

  /// Between phases that divide the work in another way.
  void barrier() const {
    if (by_rows_) return;
#pragma omp barrier
  }

 private:
  /// Below that many rows a product is bound by reading the weights.
  static constexpr std::int64_t kRowsWorthABlock = 8;

  std::int64_t thread_, threads_;
  bool by_rows_ = false;
  Range own_rows_, rows_;
};

/// How many threads a step of this many multiplications is worth: a barrier costs about as much as
/// some ten thousands of them.
inline int threads_for(std::int64_t multiplications) {
  constexpr std::int64_t kWorthAThread = 100'000;
  return static_cast<int>(
      std::clamp<std::int64_t>(multiplications / kWorthAThread, 1, omp_get_max_threads()));
}

/// out[rows, padded(units) * blocks] = a[rows, depth] * packed, and the rest as in ProductArgs.
template <typename T>
struct Product {
  const T* a = nullptr;
  std::int64_t a_stride = 0;
  std::int64_t depth = 0;
  std::int64_t units = 0;
  std::int64_t blocks = 1;
  const T* packed = nullptr;
  const T* bias = nullptr;
  bool accumulate = false;
  T* out = nullptr;
};

template <typename T>
void multiply(const Leaf<T>& leaf, const Product<T>& p, Range rows, Range panels) {
  if (rows.begin == rows.end || panels.begin == panels.end) return;
  const std::int64_t out_stride = padded(p.units) * p.blocks;
  leaf.product({p.a + rows.begin * p.a_stride, p.a_stride, rows.end - rows.begin, p.depth, p.blocks,
                p.packed, p.bias, p.accumulate, p.out + rows.begin * out_stride, out_stride,
                panels.begin, panels.end});
}

/// The same by all threads, outside a parallel region.
template <typename T>
void multiply_all(const Leaf<T>& leaf, const Product<T>& p, std::int64_t rows) {
  constexpr std::int64_t kChunk = 128;  // rows whose a stays in the second-level cache
  const std::int64_t row_parts = std::max<std::int64_t>((rows + kChunk - 1) / kChunk, 1);
  const std::int64_t panels = panels_of(p.units);
  const std::int64_t threads = threads_for(rows * p.depth * p.units * p.blocks);
  const std::int64_t panel_parts =
      row_parts >= 4 * threads ? 1 : std::min<std::int64_t>(panels, threads);
#pragma omp parallel for schedule(static) collapse(2) num_threads(static_cast <int>(threads))
  for (std::int64_t i = 0; i < row_parts; ++i) {
    for (std::int64_t j = 0; j < panel_parts; ++j) {
      multiply(leaf, p, split(rows, i, row_parts), split(panels, j, panel_parts));
    }
  }
}

}  // namespace sluice::kernels::attention_decoder::cpu
