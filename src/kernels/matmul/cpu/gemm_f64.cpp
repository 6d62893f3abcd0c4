#include <algorithm>

#include "kernels/matmul/cpu/gemm.h"

namespace sluice::kernels::matmul::cpu {
namespace {

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kColumns = 8;
constexpr std::int64_t kDepth = 256;  // a packed block of b is 16 KiB: half of a first-level cache

struct Operand {
  const double* data;
  std::int64_t row_stride, column_stride;

  double at(std::int64_t row, std::int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

Operand operand(const double* data, std::int64_t stride, bool transpose) {
  return transpose ? Operand{data, 1, stride} : Operand{data, stride, 1};
}

/// c[rows, columns] += alpha * a[rows, depth] * packed[depth, kColumns], rows <= kRows. Every
/// element is summed over rising depth, whatever `rows` is.
void add_tile(const Operand& a, std::int64_t row, std::int64_t rows, std::int64_t depth_begin,
              std::int64_t depth, const double* packed, double alpha, double* c, std::int64_t ldc,
              std::int64_t columns) {
  double sum[kRows][kColumns] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      const double factor = i < rows ? a.at(row + i, depth_begin + p) : 0.0;
      for (std::int64_t j = 0; j < kColumns; ++j) sum[i][j] += factor * packed[p * kColumns + j];
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) c[(row + i) * ldc + j] += alpha * sum[i][j];
  }
}

/// All rows of `columns` columns of c, from column `column` on.
void add_panel(const Operand& a, const Operand& b, std::int64_t m, std::int64_t k, double alpha,
               double* c, std::int64_t ldc, std::int64_t column, std::int64_t columns) {
  double packed[kDepth * kColumns];
  for (std::int64_t begin = 0; begin < k; begin += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - begin);
    for (std::int64_t p = 0; p < depth; ++p) {
      for (std::int64_t j = 0; j < kColumns; ++j) {
        packed[p * kColumns + j] = j < columns ? b.at(begin + p, column + j) : 0.0;
      }
    }
    for (std::int64_t row = 0; row < m; row += kRows) {
      add_tile(a, row, std::min(kRows, m - row), begin, depth, packed, alpha, c + column, ldc,
               columns);
    }
  }
}

}  // namespace

template <>
void gemm<double>(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                  std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b,
                  std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  scale_matrix(m, n, beta, c, ldc);
  const Operand left = operand(a, lda, transpose_a);
  const Operand right = operand(b, ldb, transpose_b);
#pragma omp parallel for schedule(static) if (m * n * k > 32768)
  for (std::int64_t column = 0; column < n; column += kColumns) {
    add_panel(left, right, m, k, alpha, c, ldc, column, std::min(kColumns, n - column));
  }
}

}  // namespace sluice::kernels::matmul::cpu
