#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention_decoder/cpu/buffers.h"
#include "kernels/recurrent/cpu/spin_barrier.h"
#include "kernels/recurrent/cpu/team.h"

/// How threads share the work.
namespace sluice::kernels::attention_decoder::cpu {

using recurrent::cpu::part_of;
using recurrent::cpu::Range;
using recurrent::cpu::SpinBarrier;

/// One thread's part of a time loop. Groups of threads own rows, which are independent through all
/// steps; the threads of a group share each step's products by panels of units and its attention by
/// rows, with barriers between. With many rows a group is one thread that waits for nobody.
class Share {
 public:
  /// Inside a parallel region; `barriers`, one a thread, are those of this run.
  Share(std::int64_t rows, std::int64_t units, SpinBarrier* barriers)
      : Share(rows,
              recurrent::cpu::choose_grid(std::max<std::int64_t>(rows, 1), panels_of(units),
                                          omp_get_num_threads()),
              barriers) {}

  /// Rows whose products and cells this thread computes, in its panels.
  Range rows() const { return rows_; }
  Range panels(std::int64_t units) const { return part_of(panels_of(units), members_, member_); }
  /// Rows this thread alone is responsible for where a row is done whole.
  Range own_rows() const { return own_rows_; }

  /// Between phases that divide the work in another way.
  void barrier() const { barrier_->wait(members_); }

 private:
  Share(std::int64_t rows, const recurrent::cpu::Grid& grid, SpinBarrier* barriers)
      : members_(grid.group_size), member_(omp_get_thread_num() % members_) {
    const std::int64_t group = omp_get_thread_num() / members_;
    barrier_ = &barriers[group];
    if (group >= grid.row_groups) {  // a thread too many: nothing to do, nobody to wait for
      members_ = 1;
      member_ = 0;
      return;
    }
    rows_ = part_of(rows, grid.row_groups, group);
    const Range own = part_of(rows_.size(), members_, member_);
    own_rows_ = {rows_.begin + own.begin, rows_.begin + own.end};
  }

  std::int64_t members_, member_;
  SpinBarrier* barrier_ = nullptr;
  Range own_rows_, rows_;
};

/// How many threads a step of this many multiplications is worth: a barrier costs about as much as
/// some ten thousands of them.
inline int threads_for(std::int64_t multiplications, int most = omp_get_max_threads()) {
  constexpr std::int64_t kWorthAThread = 100'000;
  return static_cast<int>(std::clamp<std::int64_t>(multiplications / kWorthAThread, 1, most));
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
      multiply(leaf, p, part_of(rows, row_parts, i), part_of(panels, panel_parts, j));
    }
  }
}

}  // namespace sluice::kernels::attention_decoder::cpu
