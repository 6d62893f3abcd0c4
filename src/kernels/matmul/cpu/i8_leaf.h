#pragma once

#include <cstddef>
#include <cstdint>

/// What an instruction set must provide for products with 8-bit weights.
///
/// A weight is an integer from -127 to 127 times the scale of its unit (a column of the product);
/// a row of activations is brought to such integers on the way in, by its own largest value. Sums
/// are exact in int32, so every leaf gives the same bits, for a row alone and in any batch.
/// docs/quantization.md has the equations.
namespace sluice::kernels::matmul::cpu {

/// Units that are packed side by side.
inline constexpr std::int64_t kI8Panel = 16;
/// The deepest product: a row of activations is brought to integers on the stack. Sums of so many
/// products of 127 * 255 fit in int32 too.
inline constexpr std::int64_t kI8MostDepth = 32768;
/// The largest integer.
inline constexpr float kI8Most = 127;
/// What is smaller counts as zero: its inverse is no float.
inline constexpr float kI8Least = 1e-30f;

constexpr std::int64_t i8_panels(std::int64_t units) { return (units + kI8Panel - 1) / kI8Panel; }
constexpr std::int64_t i8_padded_depth(std::int64_t depth) { return (depth + 3) / 4 * 4; }
/// A panel: scales [blocks, 16] float32, sums over the depth [blocks, 16] int32, then the weights
/// in an order of the leaf's own.
constexpr std::int64_t i8_panel_bytes(std::int64_t depth, std::int64_t blocks) {
  return blocks * kI8Panel * (8 + i8_padded_depth(depth));
}
constexpr std::int64_t i8_packed_bytes(std::int64_t units, std::int64_t depth,
                                       std::int64_t blocks) {
  return i8_panels(units) * i8_panel_bytes(depth, blocks);
}

/// Element (k, block, unit) of a matrix is source[block * block_stride + unit * unit_stride + k],
/// which must be finite.
struct I8Pack {
  const float* source;
  std::int64_t block_stride, unit_stride;
  std::int64_t units, depth, blocks;
  void* packed;
  std::int64_t panel_begin, panel_end;
  /// The elements whose largest sets the scale of a unit, laid out as `source`, `row_depth` of
  /// them: the whole row where only a part of its columns is packed.
  const float* row;
  std::int64_t row_depth;
};

/// out[r, p, b, lane] = (accumulate ? out : bias or 0) + a[r] * packed. Columns from `columns` on
/// are neither read nor written.
struct I8Product {
  const float* a;  ///< [rows, depth], row stride a_stride
  std::int64_t a_stride;
  std::int64_t rows, depth, blocks;
  const void* packed;
  const float* bias;  ///< [panels, blocks, 16] or null
  bool accumulate;
  float* out;  ///< [rows, panels, blocks, 16], row stride out_stride
  std::int64_t out_stride;
  std::int64_t columns;
  std::int64_t panel_begin, panel_end;
};

struct I8Leaf {
  void (*pack)(const I8Pack&);
  void (*product)(const I8Product&);
};

/// Plain C++, always there.
extern const I8Leaf kPortableI8Leaf;
// Defined in files compiled for their instruction set: reach them through the functions below.
extern const I8Leaf kAvx2I8Leaf;
extern const I8Leaf kAvxVnniI8Leaf;
extern const I8Leaf kAvx512VnniI8Leaf;

// Null where the processor lacks them.
const I8Leaf* avx2_i8_leaf();
const I8Leaf* avx_vnni_i8_leaf();     ///< AVX2 and AVX-VNNI
const I8Leaf* avx512_vnni_i8_leaf();  ///< AVX512F, BW, VL and VNNI
const I8Leaf& best_i8_leaf();

}  // namespace sluice::kernels::matmul::cpu
