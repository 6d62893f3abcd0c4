#pragma once

#include "kernels/recurrent/cpu/leaf.h"

/// Register tiles of rows x (panels x blocks), and the loops that cover a range with them.
///
/// A class Isa describes an instruction set. It lives in the unnamed namespace of the one file that
/// is compiled for it, so that everything made from these templates stays in that file. It has
///   T             storage type, with float32 sums
///   Vector        a register of float32 (vector_avx512.h, vector_avx2.h)
///   Word          a register of what is multiplied
///   kStep         consecutive elements of the depth that one multiply_add takes
///   kDepthUnit    the packed depth is a multiple of it; itself a multiple of kStep
///   kRegisters    how many vector registers there are
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
///   start(row, panel, part, block) -> Vector; start_rows (for tile registers, amx_body.h)
///   finish(sums, row, panel, part)
/// where `part` counts the registers of a panel.
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

/// Rows of a tile with so many columns: sums, one register for each column or row, whichever are
/// fewer, and one more.
template <class Isa>
constexpr int row_limit(int columns) {
  int rows = 1;
  while ((rows + 1) * columns + smaller_of(rows + 1, columns) + 1 <= Isa::kRegisters) ++rows;
  return rows;
}

/// sums[row][panel * kBlocks + block] += a[row] * weights, the depth in rising order.
template <class Isa, int kRows, int kPanels, int kBlocks>
[[gnu::always_inline]] inline void multiply(
    const typename Isa::T* const (&a)[kRows], std::int64_t depth, const typename Isa::T* weights,
    std::int64_t stride, typename Isa::Vector (&sums)[kRows][kPanels * kBlocks]) {
  using Word = typename Isa::Word;
  constexpr int kColumns = kPanels * kBlocks;
  // One block's weights for a unit of the depth lie together, in steps.
  constexpr std::int64_t kColumn = kPanel * Isa::kDepthUnit;
  const auto step = [&](const auto& broadcast, std::int64_t k) __attribute__((always_inline)) {
    if constexpr (kRows < kColumns) {
      Word input[kRows];
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) input[row] = broadcast(a[row] + k);
#pragma GCC unroll 16
      for (int column = 0; column < kColumns; ++column) {
        const Word w =
            Isa::weights(weights + column / kBlocks * stride + column % kBlocks * kColumn);
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
          sums[row][column] = Isa::multiply_add(input[row], w, sums[row][column]);
        }
      }
    } else {
      Word w[kColumns];
#pragma GCC unroll 16
      for (int column = 0; column < kColumns; ++column) {
        w[column] = Isa::weights(weights + column / kBlocks * stride + column % kBlocks * kColumn);
      }
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        const Word input = broadcast(a[row] + k);
#pragma GCC unroll 16
        for (int column = 0; column < kColumns; ++column) {
          sums[row][column] = Isa::multiply_add(input, w[column], sums[row][column]);
        }
      }
    }
    weights += kPanel * Isa::kStep;
    if (Isa::kStep == Isa::kDepthUnit || (k + Isa::kStep) % Isa::kDepthUnit == 0) {
      weights += (kBlocks - 1) * kColumn;
    }
  };
  std::int64_t k = 0;
  for (; k + Isa::kStep <= depth; k += Isa::kStep) step(Isa::broadcast, k);
  if constexpr (Isa::kStep > 1) {
    if (k < depth) step(Isa::broadcast_last, k);
  }
}

template <class Isa, class Job, int kPanels, int kRows>
void run_tile(const Job& job, const std::int32_t* rows, std::int64_t panel, std::int64_t part) {
  using Vector = typename Isa::Vector;
  constexpr int kBlocks = Job::kBlocks;
  constexpr int kWidth = Vector::kWidth;
  Vector sums[kRows][kPanels * kBlocks];
  const typename Isa::T* a[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    a[row] = job.input(rows[row]);
#pragma GCC unroll 16
    for (int column = 0; column < kPanels * kBlocks; ++column) {
      sums[row][column] = job.start(rows[row], panel + column / kBlocks, part, column % kBlocks);
    }
  }
  const std::int64_t stride = panel_stride<Isa>(job.depth(), kBlocks);
  multiply<Isa, kRows, kPanels, kBlocks>(
      a, job.depth(), job.packed() + panel * stride + part * kWidth * Isa::kStep, stride, sums);
  if constexpr (Job::kDirect) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
      for (int column = 0; column < kPanels * kBlocks; ++column) {
        job.finish(sums[row][column], rows[row], panel + column / kBlocks, part, column % kBlocks);
      }
    }
  } else {
    // Through memory, so that the cell's code stands once and not once a row.
    alignas(64) float buffer[kRows][kPanels][kBlocks * kWidth];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
      for (int column = 0; column < kPanels * kBlocks; ++column) {
        sums[row][column].store(buffer[row][column / kBlocks] + column % kBlocks * kWidth);
      }
    }
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kPanels; ++i) job.finish(buffer[row][i], rows[row], panel + i, part);
    }
  }
}

/// A tile of `count` rows, 1 to kRows.
template <class Isa, class Job, int kPanels, int kRows>
void run_rows(const Job& job, const std::int32_t* rows, int count, std::int64_t panel,
              std::int64_t part) {
  if (count == kRows) return run_tile<Isa, Job, kPanels, kRows>(job, rows, panel, part);
  if constexpr (kRows > 1) {
    run_rows<Isa, Job, kPanels, kRows - 1>(job, rows, count, panel, part);
  }
}

/// All rows of a chunk for kPanels panels, in tiles of nearly the same size.
template <class Isa, class Job, int kPanels, int kRows>
void run_panels(const Job& job, const std::int32_t* rows, int count, std::int64_t panel) {
  const int tiles = (count + kRows - 1) / kRows;
  for (std::int64_t part = 0; part < kPanel / Isa::Vector::kWidth; ++part) {
    for (int tile = 0, row = 0; tile < tiles; ++tile) {
      const int size = count / tiles + (tile < count % tiles ? 1 : 0);
      run_rows<Isa, Job, kPanels, kRows>(job, rows + row, size, panel, part);
      row += size;
    }
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

/// kPanels at once, or fewer one by one.
template <class Isa, class Job, int kPanels, int kRows>
void run_together(const Job& job, const std::int32_t* rows, int count, std::int64_t panel,
                  int panels) {
  if (panels == kPanels) return run_panels<Isa, Job, kPanels, kRows>(job, rows, count, panel);
  for (int i = 0; i < panels; ++i) run_panels<Isa, Job, 1, kRows>(job, rows, count, panel + i);
}

/// A job over a range of rows and panels. Weights that outgrow a cache would be gone from it by the
/// time the next step starts from the first panel, so every other pass goes backwards.
template <class Isa, class Job>
void run(const Job& job, std::int64_t row_begin, std::int64_t row_end, std::int64_t panel_begin,
         std::int64_t panel_end) {
  // A chunk of rows is read again for every panel: 96 rows of a depth of 1024 fit in half a MB.
  constexpr int kChunk = 96;
  // One row alone takes more panels at once: eight sums hide the latency of multiply_add.
  constexpr int kAlone = Job::kBlocks == 1 ? 4 : 2;
  constexpr int kTogether = Job::kBlocks == 1 ? 4 : 1;
  constexpr int kRows = row_limit<Isa>(kTogether * Job::kBlocks);
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
    if (count == 1) {
      each_run<kAlone>(panel_begin, panel_end, backwards, [&](std::int64_t panel, int panels) {
        run_together<Isa, Job, kAlone, 1>(job, rows, 1, panel, panels);
      });
    } else {
      each_run<kTogether>(panel_begin, panel_end, backwards, [&](std::int64_t panel, int panels) {
        run_together<Isa, Job, kTogether, kRows>(job, rows, count, panel, panels);
      });
    }
    backwards = !backwards;
  }
}

}  // namespace sluice::kernels::recurrent::cpu
