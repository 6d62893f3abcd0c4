#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/recurrent/cpu/leaf.h"

/// How the threads of one run share a layer: a pure function of sizes and thread count.
namespace sluice::kernels::recurrent::cpu {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Part `index` of `parts` nearly equal parts of [0, count).
constexpr Range part_of(std::int64_t count, std::int64_t parts, std::int64_t index) {
  return {count * index / parts, count * (index + 1) / parts};
}

/// What one thread does in the time loop of a layer.
struct Share {
  Range directions;
  Range rows;
  Range panels;                 ///< of the hidden units
  Range out_panels;             ///< of the output: the same without a projection
  std::int64_t group = 0;       ///< threads of one group share rows and meet at a barrier each step
  std::int64_t group_size = 1;  ///< panels are split among these
  bool idle() const { return rows.size() == 0; }
};

/// Groups own rows, which need no exchange between them; within a group panels are split, which
/// costs a barrier a step but lets each thread keep its part of the weights in its own cache.
struct Grid {
  std::int64_t row_groups = 1;
  std::int64_t group_size = 1;
};

/// `own_rows`: so many rows a group needs at least (see Leaf).
constexpr Grid choose_grid(std::int64_t rows, std::int64_t panels, std::int64_t threads,
                           std::int64_t own_rows = 8) {
  const std::int64_t row_groups =
      std::clamp<std::int64_t>(rows / own_rows, 1, std::min(threads, rows));
  return {row_groups, std::clamp<std::int64_t>(threads / row_groups, 1, panels)};
}

/// Threads that share the time loop, of those there are: a step of each should take a few times
/// the microsecond that threads need to meet.
constexpr std::int64_t useful_threads(std::int64_t operations_of_step, std::int64_t threads) {
  constexpr std::int64_t kOperationsPerThread = 200'000;  // two microseconds at 100 GFLOP/s
  return std::clamp<std::int64_t>(operations_of_step / kOperationsPerThread, 1, threads);
}

/// What thread `thread` of `threads` does; nothing if there are more. With two directions and an
/// even number of threads each half takes a direction of its own.
constexpr Share share_of(std::int64_t directions, std::int64_t rows, std::int64_t panels,
                         std::int64_t out_panels, std::int64_t own_rows, std::int64_t threads,
                         std::int64_t thread) {
  Share share;
  if (thread >= threads) return share;
  share.directions = {0, directions};
  std::int64_t first_group = 0;
  if (directions == 2 && threads % 2 == 0) {
    threads /= 2;
    const std::int64_t direction = thread / threads;
    share.directions = {direction, direction + 1};
    thread %= threads;
    first_group = direction * threads;
  }
  const Grid grid = choose_grid(rows, std::min(panels, out_panels), threads, own_rows);
  if (thread >= grid.row_groups * grid.group_size) return share;
  const std::int64_t member = thread % grid.group_size;
  share.group_size = grid.group_size;
  share.group = first_group + thread / grid.group_size;
  share.rows = part_of(rows, grid.row_groups, thread / grid.group_size);
  share.panels = part_of(panels, grid.group_size, member);
  share.out_panels = part_of(out_panels, grid.group_size, member);
  return share;
}

}  // namespace sluice::kernels::recurrent::cpu
