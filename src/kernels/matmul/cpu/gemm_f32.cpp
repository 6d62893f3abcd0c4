#include "kernels/matmul/cpu/gemm_f32.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "kernels/matmul/cpu/gemm.h"

namespace sluice::kernels::matmul::cpu {
namespace {

// Packed blocks: rows of a take 231 KB, for a second-level cache together with the panel of b that
// all of them are multiplied by; columns of b take 2 MB, for the third level. Measured on Zen 4.
constexpr std::int64_t kBlockRows = 112;
constexpr std::int64_t kBlockColumns = 1024;
/// A thread more costs some microseconds.
constexpr std::int64_t kProductsOfAThread = 1 << 18;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// c in a grid of parts, one a thread. Each packs what it needs for itself.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

/// The grid whose largest part is least work, packing included.
Grid choose_grid(const F32Product& p, std::int64_t panel) {
  const std::int64_t products = p.m * p.n * p.k;
  const std::int64_t threads =
      std::clamp<std::int64_t>(products / kProductsOfAThread, 1, omp_get_max_threads());
  if (omp_in_parallel() != 0) return {};
  Grid best;
  double least = 0;
  for (std::int64_t columns = 1; columns <= threads; ++columns) {
    const Grid grid{threads / columns, columns};
    const auto part_rows = static_cast<double>(ceil_div(p.m, grid.rows));
    const auto part_columns = static_cast<double>(ceil_div(ceil_div(p.n, panel), columns) * panel);
    // To pack an element takes about as long as eight multiplications.
    const double cost = part_rows * part_columns + 8 * (part_rows + part_columns);
    if (columns > 1 && cost >= least) continue;
    best = grid;
    least = cost;
  }
  return best;
}

struct Range {
  std::int64_t begin, end;
};

/// Part `index` of `count`, in whole units.
Range part_of(std::int64_t size, std::int64_t unit, std::int64_t index, std::int64_t count) {
  const std::int64_t units = ceil_div(size, unit);
  return {std::min(size, units * index / count * unit),
          std::min(size, units * (index + 1) / count * unit)};
}

F32Source source(const float* data, std::int64_t stride, bool depth_first, std::int64_t line,
                 std::int64_t lines, std::int64_t k, std::int64_t depth) {
  const float* first = depth_first ? data + k * stride + line : data + line * stride + k;
  return {first, stride, depth_first, lines, depth};
}

/// Rows and columns of c: blocks of b are packed once, blocks of a once for each of b's.
void multiply_part(const F32Leaf& leaf, const F32Product& p, Range rows, Range columns,
                   float* packed_b, float* packed_a) {
  for (std::int64_t j = columns.begin; j < columns.end; j += kBlockColumns) {
    const std::int64_t width = std::min(kBlockColumns, columns.end - j);
    for (std::int64_t k = 0; k < p.k; k += kF32Depth) {
      const std::int64_t depth = std::min(kF32Depth, p.k - k);
      leaf.pack_columns(source(p.b, p.ldb, !p.transpose_b, j, width, k, depth), packed_b);
      for (std::int64_t i = rows.begin; i < rows.end; i += kBlockRows) {
        const std::int64_t height = std::min(kBlockRows, rows.end - i);
        leaf.pack_rows(source(p.a, p.lda, p.transpose_a, i, height, k, depth), packed_a);
        leaf.multiply({packed_a, packed_b, height, width, depth, p.alpha, k > 0 || p.beta != 0.0f,
                       p.c + i * p.ldc + j, p.ldc});
      }
    }
  }
}

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};

std::unique_ptr<float, Free> allocate(std::int64_t floats) {
  constexpr std::size_t kLine = 64;
  const std::size_t bytes = (static_cast<std::size_t>(floats) * sizeof(float) + kLine - 1) / kLine;
  std::unique_ptr<float, Free> memory(
      static_cast<float*>(std::aligned_alloc(kLine, bytes * kLine)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void multiply_f32(const F32Leaf& leaf, const F32Product& p) {
  if (p.beta != 0.0f && p.beta != 1.0f) scale_matrix(p.m, p.n, p.beta, p.c, p.ldc);
  const Grid grid = choose_grid(p, leaf.columns);
  const std::int64_t panels = ceil_div(std::min(p.n, kBlockColumns), leaf.columns);
  const std::int64_t b_floats = ceil_div(panels * leaf.columns * std::min(p.k, kF32Depth), 16) * 16;
  const std::int64_t floats = b_floats + std::min(p.m, kBlockRows) * kF32RowStride;
  const std::int64_t parts = grid.rows * grid.columns;
  // A step of a small model takes no memory.
  constexpr std::int64_t kFew = 8192;
  alignas(64) float few[kFew];
  std::unique_ptr<float, Free> memory;
  if (parts * floats > kFew) memory = allocate(parts * floats);
  float* const packed = memory ? memory.get() : few;
  if (parts == 1) {
    return multiply_part(leaf, p, {0, p.m}, {0, p.n}, packed, packed + b_floats);
  }
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(parts))
  for (std::int64_t part = 0; part < parts; ++part) {
    const Range rows = part_of(p.m, 1, part / grid.columns, grid.rows);
    const Range columns = part_of(p.n, leaf.columns, part % grid.columns, grid.columns);
    float* const own = packed + part * floats;
    multiply_part(leaf, p, rows, columns, own, own + b_floats);
  }
}

const F32Leaf& best_f32_leaf() {
  if (const F32Leaf* leaf = avx512_f32_leaf()) return *leaf;
  if (const F32Leaf* leaf = avx2_f32_leaf()) return *leaf;
  return portable_f32_leaf();
}

template <>
void gemm<float>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                 float beta, float* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_matrix(m, n, beta, c, ldc);
  multiply_f32(best_f32_leaf(),
               {transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc});
}

}  // namespace sluice::kernels::matmul::cpu
