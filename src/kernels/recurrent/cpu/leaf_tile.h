#pragma once

#include "kernels/recurrent/cpu/leaf.h"

/// Register tiles of rows x (panels x blocks), and the loops that cover a range with them.
///
/// A class Isa describes an instruction set. It lives in the unnamed namespace of the one file that
/// is compiled for it, so that everything made from these templates stays in that file. It has
///   T             storage type, with float32 sums
///   Vector        a panel's width of float32 (vector_avx512.h, vector_avx2.h)
///   kStep         consecutive elements of the depth that one multiply_add takes
///   kDepthUnit    the packed depth is a multiple of it; itself a multiple of kStep
///   kBlocksApart  whether the packed blocks of a panel follow each other whole, or by depth units
///   kPrefetchLevel   the cache that the next panel is prefetched to, 1 or 2
///   kRegisters    how many vector registers there are
///   kVectorRegisters  how many of them a Vector takes
///   kTileColumns  columns of the tiles that cover many rows, at most
///   kGoodRows, kOwnRows             good_rows and own_rows of the Leaf
///   broadcast(const T*)             kStep elements in every lane
///   broadcast_last(const T*)        one element, the rest of the step zero
///   weights(const T*)               a register of packed weights
///   multiply_add(a, w, sum)
///   load(const T*, count)           state of `count` units (0..width), zero in the other lanes
///   store(T*, vector, count)
///   store_packed(T*, const float*)  kStep rows of sixteen weights, interleaved
/// or, with a packed layout of its own (amx_isa.h), kParts and store_square instead of the last.
///
/// A Job says what the sums start from and where they go (leaf_jobs.h):
///   kBlocks
///   kDirect                      whether finish takes registers, or a buffer
///   input(row), depth(), packed()
///   is_active(row), skip(row, panel_begin, panel_end)
///   starts_backwards()           whether to take the panels from the last to the first
///   start(row, panel, block) -> Vector; start_rows (for tile registers, amx_body.h)
///   finish(sums, row, panel), [blocks, 16]; or, if direct, finish(sum, row, panel, block)
namespace sluice::kernels::recurrent::cpu {

constexpr std::int64_t smaller_of(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

template <class Isa>
constexpr std::int64_t padded_depth(std::int64_t depth) {
  return (depth + Isa::kDepthUnit - 1) / Isa::kDepthUnit * Isa::kDepthUnit;
}

/// Elements of one packed panel.
template <class Isa>
constexpr std::int64_t panel_stride(std::int64_t depth, std::int64_t blocks) {
  const std::int64_t weights = padded_depth<Isa>(depth) * blocks * kPanel;
  if constexpr (requires { Isa::kParts; }) {
    return weights * Isa::kParts / 2;  // each a bfloat16 where T is float32
  } else {
    return weights;
  }
}

/// Whether a tile fits: sums, an element of each row with the weights of one column, or the weights
/// of all with one element. A column is one block of one panel.
template <class Isa>
constexpr bool tile_fits(int rows, int columns) {
  constexpr int kEach = Isa::kVectorRegisters;
  return rows * columns * kEach + smaller_of(rows + kEach, columns * kEach + 1) <= Isa::kRegisters;
}

/// Elements from a packed block to the next one of its panel.
template <class Isa>
constexpr std::int64_t block_stride(std::int64_t depth) {
  return kPanel * (Isa::kBlocksApart ? padded_depth<Isa>(depth) : Isa::kDepthUnit);
}

/// Rows of the tiles that cover many rows.
template <class Isa>
constexpr int most_rows(int blocks) {
  const int columns = blocks == 1 || blocks > Isa::kTileColumns ? Isa::kTileColumns : blocks;
  int rows = 1;
  while (tile_fits<Isa>(rows + 1, columns)) ++rows;
  return rows;
}

/// A tile's columns: `blocks` of each of `panels` panels.
struct TileColumns {
  int panels, blocks;
};

/// As many blocks of a panel as fit, in equal groups; and more panels where there are too few sums
/// to hide the latency of multiply_add, or where a panel is one block.
template <class Isa>
constexpr TileColumns tile_columns(int rows, int blocks) {
  constexpr int kEnoughSums = 6;
  int groups = 1;
  while (!tile_fits<Isa>(rows, (blocks + groups - 1) / groups)) ++groups;
  TileColumns columns{blocks == 1 ? Isa::kTileColumns : 1, (blocks + groups - 1) / groups};
  const auto sums = [&] { return rows * columns.panels * blocks * Isa::kVectorRegisters; };
  while (groups == 1 && sums() < kEnoughSums && tile_fits<Isa>(rows, 2 * columns.panels * blocks)) {
    columns.panels *= 2;
  }
  return columns;
}

/// Prefetches the weights that come after those at hand, a bit with every two steps of the depth:
/// so a cache that is shared, or memory, has the time of a whole panel to deliver the next one.
struct Ahead {
  const char* next;
  std::int64_t bytes;  ///< of two steps

  template <int kLevel>
  void advance() {
    __builtin_prefetch(next, 0, 4 - kLevel);
    next += bytes;
  }
};

/// sums[row][column] += a[row] * weights, the depth in rising order. Columns are kTileBlocks blocks
/// of each of kPanels panels, which are `stride` apart and have kBlocks blocks.
template <class Isa, int kRows, int kPanels, int kTileBlocks, int kBlocks, bool kAhead>
[[gnu::always_inline]] inline void multiply(
    const typename Isa::T* const (&a)[kRows], std::int64_t depth, const typename Isa::T* weights,
    std::int64_t stride, Ahead& ahead, typename Isa::Vector (&sums)[kRows][kPanels * kTileBlocks]) {
  using Element = decltype(Isa::broadcast(a[0]));
  using Weights = decltype(Isa::weights(weights));
  constexpr int kColumns = kPanels * kTileBlocks;
  const std::int64_t block = block_stride<Isa>(depth);
  const auto of_column = [&](int column) __attribute__((always_inline)) {
    return Isa::weights(weights + column / kTileBlocks * stride + column % kTileBlocks * block);
  };
  Ahead soon = ahead;
  const auto step = [&](const auto& broadcast, std::int64_t k) __attribute__((always_inline)) {
    if constexpr (kRows < kColumns) {
      Element input[kRows];
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) input[row] = broadcast(a[row] + k);
#pragma GCC unroll 16
      for (int column = 0; column < kColumns; ++column) {
        const Weights w = of_column(column);
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
          sums[row][column] = Isa::multiply_add(input[row], w, sums[row][column]);
        }
      }
    } else {
      Weights w[kColumns];
#pragma GCC unroll 16
      for (int column = 0; column < kColumns; ++column) w[column] = of_column(column);
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        const Element input = broadcast(a[row] + k);
#pragma GCC unroll 16
        for (int column = 0; column < kColumns; ++column) {
          sums[row][column] = Isa::multiply_add(input, w[column], sums[row][column]);
        }
      }
    }
    weights += kPanel * Isa::kStep;
    if (!Isa::kBlocksApart &&
        (Isa::kStep == Isa::kDepthUnit || (k + Isa::kStep) % Isa::kDepthUnit == 0)) {
      weights += (kBlocks - 1) * block;
    }
  };
  std::int64_t k = 0;
  if constexpr (kAhead) {
    for (; k + 2 * Isa::kStep <= depth; k += 2 * Isa::kStep) {
      soon.template advance<Isa::kPrefetchLevel>();
      step(Isa::broadcast, k);
      step(Isa::broadcast, k + Isa::kStep);
    }
  }
  for (; k + Isa::kStep <= depth; k += Isa::kStep) step(Isa::broadcast, k);
  if constexpr (Isa::kStep > 1) {
    if (k < depth) step(Isa::broadcast_last, k);
  }
  if constexpr (kAhead) ahead = soon;
}

/// Where the sums of a tile go on their way to a cell: [row][panel of the tile][block][16]. Through
/// memory, so that the cell's code stands once and not once a row.
template <int kRows, int kPanels, int kBlocks>
struct TileSums {
  alignas(64) float values[kRows][kPanels][kBlocks][kPanel];
};

/// The columns of a tile from `block` on.
template <class Isa, class Job, int kRows, int kPanels, int kTileBlocks, bool kAhead, class Sums>
[[gnu::always_inline]] inline void run_columns(const Job& job, const std::int32_t* rows,
                                               std::int64_t panel, int block, Ahead& ahead,
                                               Sums* buffer) {
  constexpr int kColumns = kPanels * kTileBlocks;
  typename Isa::Vector sums[kRows][kColumns];
  const typename Isa::T* a[kRows];
  const auto each = [&](const auto& body) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
      for (int column = 0; column < kColumns; ++column) {
        body(row, column, column / kTileBlocks, block + column % kTileBlocks);
      }
    }
  };
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) a[row] = job.input(rows[row]);
  each([&](int row, int column, int slot, int of) __attribute__((always_inline)) {
    sums[row][column] = job.start(rows[row], panel + slot, of);
  });
  const std::int64_t stride = panel_stride<Isa>(job.depth(), Job::kBlocks);
  multiply<Isa, kRows, kPanels, kTileBlocks, Job::kBlocks, kAhead>(
      a, job.depth(), job.packed() + panel * stride + block * block_stride<Isa>(job.depth()),
      stride, ahead, sums);
  each([&](int row, int column, int slot, int of) __attribute__((always_inline)) {
    if constexpr (Job::kDirect) {
      job.finish(sums[row][column], rows[row], panel + slot, of);
    } else {
      sums[row][column].store(buffer->values[row][slot][of]);
    }
  });
}

template <class Isa, class Job, int kPanels, int kRows, bool kAhead>
void run_tile(const Job& job, const std::int32_t* rows, std::int64_t panel, Ahead& ahead) {
  constexpr int kBlocks = Job::kBlocks;
  constexpr int kTileBlocks = tile_columns<Isa>(kRows, kBlocks).blocks;
  constexpr int kGrouped = kBlocks / kTileBlocks * kTileBlocks;
  TileSums<kRows, kPanels, Job::kDirect ? 0 : kBlocks> buffer;
  for (int block = 0; block < kGrouped; block += kTileBlocks) {
    run_columns<Isa, Job, kRows, kPanels, kTileBlocks, kAhead>(job, rows, panel, block, ahead,
                                                               &buffer);
  }
  if constexpr (kGrouped < kBlocks) {
    run_columns<Isa, Job, kRows, kPanels, kBlocks - kGrouped, kAhead>(job, rows, panel, kGrouped,
                                                                      ahead, &buffer);
  }
  if constexpr (!Job::kDirect) {
    for (int row = 0; row < kRows; ++row) {
      for (int slot = 0; slot < kPanels; ++slot) {
        job.finish(buffer.values[row][slot][0], rows[row], panel + slot);
      }
    }
  }
}

/// A tile of `count` rows, 1 to kRows.
template <class Isa, class Job, int kPanels, int kRows, bool kAhead>
void run_rows(const Job& job, const std::int32_t* rows, int count, std::int64_t panel,
              Ahead& ahead) {
  if (count == kRows) return run_tile<Isa, Job, kPanels, kRows, kAhead>(job, rows, panel, ahead);
  if constexpr (kRows > 1) {
    run_rows<Isa, Job, kPanels, kRows - 1, kAhead>(job, rows, count, panel, ahead);
  }
}

/// Calls body(first, count) for runs of kCount panels, the last of which may be shorter; from the
/// last to the first if `backwards`.
template <int kCount, class Body>
void each_run(std::int64_t begin, std::int64_t end, bool backwards, const Body& body) {
  const std::int64_t runs = (end - begin + kCount - 1) / kCount;
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::int64_t first = begin + (backwards ? runs - 1 - i : i) * kCount;
    body(first, static_cast<int>(smaller_of(kCount, end - first)));
  }
}

/// A chunk of rows over a range of panels, a tile for all rows.
template <class Isa, class Job, int kRows>
void run_few(const Job& job, const std::int32_t* rows, int count, std::int64_t panel_begin,
             std::int64_t panel_end, bool backwards) {
  if constexpr (kRows > 1) {
    if (count < kRows) {
      return run_few<Isa, Job, kRows - 1>(job, rows, count, panel_begin, panel_end, backwards);
    }
  }
  constexpr int kPanels = tile_columns<Isa>(kRows, Job::kBlocks).panels;
  Ahead none{};
  each_run<kPanels>(panel_begin, panel_end, backwards, [&](std::int64_t panel, int panels) {
    if (panels == kPanels) {
      return run_tile<Isa, Job, kPanels, kRows, false>(job, rows, panel, none);
    }
    for (int i = 0; i < panels; ++i) {
      run_tile<Isa, Job, 1, kRows, false>(job, rows, panel + i, none);
    }
  });
}

/// All rows of a chunk for kPanels panels, in tiles of nearly the same size.
template <class Isa, class Job, int kPanels, int kRows>
void run_panels(const Job& job, const std::int32_t* rows, int count, std::int64_t panel,
                std::int64_t next_panel) {
  constexpr int kTileBlocks = tile_columns<Isa>(kRows, Job::kBlocks).blocks;
  constexpr std::int64_t kStepBytes = kPanels * Job::kBlocks * kPanel * Isa::kStep *
                                      static_cast<std::int64_t>(sizeof(typename Isa::T));
  const int tiles = (count + kRows - 1) / kRows;
  const std::int64_t stride = panel_stride<Isa>(job.depth(), Job::kBlocks);
  const int passes = tiles * ((Job::kBlocks + kTileBlocks - 1) / kTileBlocks);
  Ahead ahead{reinterpret_cast<const char*>(job.packed() + next_panel * stride),
              (2 * kStepBytes + passes - 1) / passes};
  for (int tile = 0, row = 0; tile < tiles; ++tile) {
    const int size = count / tiles + (tile < count % tiles ? 1 : 0);
    run_rows<Isa, Job, kPanels, kRows, true>(job, rows + row, size, panel, ahead);
    row += size;
  }
}

/// A chunk of rows that takes several tiles.
template <class Isa, class Job, int kRows>
void run_many(const Job& job, const std::int32_t* rows, int count, std::int64_t panel_begin,
              std::int64_t panel_end, bool backwards) {
  constexpr int kPanels = tile_columns<Isa>(kRows, Job::kBlocks).panels;
  const std::int64_t direction = backwards ? -1 : 1;
  each_run<kPanels>(panel_begin, panel_end, backwards, [&](std::int64_t panel, int panels) {
    std::int64_t next = panel + direction * kPanels;
    if (next < panel_begin || next >= panel_end) next = panel;
    if (panels == kPanels) {
      return run_panels<Isa, Job, kPanels, kRows>(job, rows, count, panel, next);
    }
    for (int i = 0; i < panels; ++i) {
      run_panels<Isa, Job, 1, kRows>(job, rows, count, panel + i, panel + i);
    }
  });
}

/// A job over a range of rows and panels. Weights that outgrow a cache would be gone from it by the
/// time the next step starts from the first panel, so every other pass goes backwards.
template <class Isa, class Job>
void run(const Job& job, std::int64_t row_begin, std::int64_t row_end, std::int64_t panel_begin,
         std::int64_t panel_end) {
  // A chunk of rows is read again for every panel: 96 rows of a depth of 1024 fit in half a MB.
  constexpr int kChunk = 96;
  constexpr int kRows = most_rows<Isa>(Job::kBlocks);
  std::int32_t rows[kChunk];
  bool backwards = job.starts_backwards();
  for (std::int64_t row = row_begin; row < row_end;) {
    int count = 0;
    for (; row < row_end && count < kChunk; ++row) {
      if (job.is_active(row)) {
        rows[count++] = static_cast<std::int32_t>(row);
      } else {
        job.skip(row, panel_begin, panel_end);
      }
    }
    if (count == 0) continue;
    if (count <= kRows) {
      run_few<Isa, Job, kRows>(job, rows, count, panel_begin, panel_end, backwards);
    } else {
      run_many<Isa, Job, kRows>(job, rows, count, panel_begin, panel_end, backwards);
    }
    backwards = !backwards;
  }
}

}  // namespace sluice::kernels::recurrent::cpu
