#pragma once

#include <cstdint>
#include <vector>

namespace sluice::oracle {

/// A matrix to read: element (i, j) at data[i * row_stride + j * column_stride].
struct MatrixView {
  const double* data;
  int64_t row_stride;
  int64_t column_stride;
};

/// A contiguous row-major matrix with `columns` columns.
inline MatrixView plain(const double* data, int64_t columns) { return {data, columns, 1}; }

/// The transpose of a contiguous row-major matrix with `columns` columns.
inline MatrixView transposed(const double* data, int64_t columns) { return {data, 1, columns}; }

/// c[m, n] += a[m, k] b[k, n]; c is contiguous and overlaps neither. Every element is summed over k
/// in ascending order by one thread, whatever the number of threads.
void multiply_add(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, double* c);

/// sums[columns] += the sum over the rows of a contiguous [rows, columns].
void add_column_sums(int64_t rows, int64_t columns, const double* a, double* sums);

}  // namespace sluice::oracle
