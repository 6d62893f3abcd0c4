#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/recurrent/cuda/sequence_kernels.h"

/// Factors of products in TF32, as float16 that is multiplied by a power of two
/// (persistent/arithmetic.h has what that is worth). Tensor cores multiply float16 twice as fast,
/// and whichever of its dimensions lies contiguous.
namespace sluice::kernels::recurrent::cuda {

struct ScaledFactor {
  const float* from;   ///< [depth, width]
  void* to;            ///< float16, likewise
  std::int64_t width;  ///< a multiple of eight; 0: no factor
  bool ends;  ///< whether anything may lie past the end of a row of the batch, which is zero then
};

/// Device memory for the scales of a set of factors, and what takes products of two of them back.
struct FactorScales {
  static constexpr int kMost = 6;  ///< factors, and products
  float largest[kMost];            ///< of a factor, in magnitude
  float alphas[kMost];             ///< by which a product is to be multiplied
  float one, zero;                 ///< by which it is added, or not
};

/// A set of factors over all steps and rows of a run, each of which is scaled by the largest of its
/// own.
struct ScaledFactors {
  ScaledFactor factors[FactorScales::kMost];
  int count;
  /// The factors of each product, from which alphas[i] comes. kRowByRow: one whose rows were scaled
  /// each by a scale of its own, which the rows of the other factors take back.
  static constexpr int kRowByRow = -1;
  struct Pair {
    int left, right;
  } products[FactorScales::kMost];
  int product_count;
  std::int64_t depth, rows;     ///< steps times rows, and rows
  const std::int32_t* lengths;  ///< [rows] or null
  const float* row_scales;      ///< [depth], what takes scales of rows back; null: one
  FactorScales* scales;
};
void scale_factors(cudaStream_t stream, const ScaledFactors& args);

/// column_sums of float16 values whose rows are scaled back by row_scales [depth].
void scaled_column_sums(cudaStream_t stream, const ColumnSums& args, const float* row_scales);

/// Rows that are scaled each by itself, in TF32's exactness: where the largest number of a row lies
/// well within float16's range, by one.
struct RowFactors {
  const float* from;  ///< [rows, width]
  void* to;           ///< float16, likewise
  float* scales;      ///< out [rows], what takes them back
  std::int64_t rows;
  std::int64_t width;  ///< a multiple of eight
};
void scale_row_factors(cudaStream_t stream, const RowFactors& args);

/// The same of few wide rows, with one scale for whatever is less than one; no `from`: zeros.
void scale_states(cudaStream_t stream, const RowFactors& args);

/// values [steps, rows, width] *= scales [steps, rows], of arrays that have `step_rows` rows a
/// step. Rows whose scale is one aren't touched.
struct ScaledRows {
  float* values;
  const float* scales;
  std::int64_t steps, rows, step_rows;
  std::int64_t width;  ///< a multiple of four
};
void scale_rows(cudaStream_t stream, const ScaledRows& args);

}  // namespace sluice::kernels::recurrent::cuda
