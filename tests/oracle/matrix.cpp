#include "oracle/matrix.h"

#include <algorithm>

#include "oracle/matrix_tile.h"

namespace sluice::oracle {
namespace {

// A panel of b of this depth (32 KiB) stays in the nearest cache while all rows of a pass over it.
constexpr int64_t kDepth = 256;

using Tile = void (*)(int64_t, const double*, const double*, double*);

Tile choose_tile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return tile_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tile_avx2;
#endif
  return tile_baseline;
}

/// packed[k, width] = the `count` rows (or columns) from `first`, zero beyond; `across` steps from
/// one to the next.
void pack(int64_t k, int64_t width, const double* data, int64_t across, int64_t along,
          int64_t count, double* packed) {
  for (int64_t p = 0; p < k; ++p)
    for (int64_t i = 0; i < width; ++i)
      packed[p * width + i] = i < count ? data[i * across + p * along] : 0.0;
}

}  // namespace

void multiply_add(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, double* c) {
  if (m == 0 || n == 0 || k == 0) return;
  const Tile tile = choose_tile();
  const int64_t row_tiles = (m + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (n + kTileColumns - 1) / kTileColumns;
  std::vector<double> packed_a(row_tiles * kTileRows * k);
  const bool parallel = m * n * k > 100000;

#pragma omp parallel for schedule(static) if (parallel)
  for (int64_t it = 0; it < row_tiles; ++it)
    pack(k, kTileRows, a.data + it * kTileRows * a.row_stride, a.row_stride, a.column_stride,
         std::min(kTileRows, m - it * kTileRows), &packed_a[it * kTileRows * k]);

#pragma omp parallel for schedule(static) if (parallel)
  for (int64_t jt = 0; jt < column_tiles; ++jt) {
    const int64_t column = jt * kTileColumns;
    const int64_t columns = std::min(kTileColumns, n - column);
    std::vector<double> packed_b(std::min(kDepth, k) * kTileColumns);
    for (int64_t p = 0; p < k; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      pack(depth, kTileColumns, b.data + p * b.row_stride + column * b.column_stride,
           b.column_stride, b.row_stride, columns, packed_b.data());
      for (int64_t it = 0; it < row_tiles; ++it) {
        const int64_t row = it * kTileRows;
        const int64_t rows = std::min(kTileRows, m - row);
        double acc[kTileRows * kTileColumns] = {};
        for (int64_t i = 0; i < rows; ++i)
          std::copy_n(c + (row + i) * n + column, columns, acc + i * kTileColumns);
        tile(depth, &packed_a[(it * k + p) * kTileRows], packed_b.data(), acc);
        for (int64_t i = 0; i < rows; ++i)
          std::copy_n(acc + i * kTileColumns, columns, c + (row + i) * n + column);
      }
    }
  }
}

void add_column_sums(int64_t rows, int64_t columns, const double* a, double* sums) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) sums[j] += a[i * columns + j];
}

}  // namespace sluice::oracle
