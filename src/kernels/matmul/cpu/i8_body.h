#pragma once

#include "kernels/matmul/cpu/i8_leaf.h"

namespace sluice::kernels::matmul::cpu {

/// The leaf written once over a class Isa, which lives in the unnamed namespace of the one file
/// that is compiled for it, so that everything made from this template stays in that file. It has
///   kLanes      sums in a register
///   kStep       consecutive elements of the depth that multiply_add takes: 1, 2 or 4
///   kOffset     what is added to activations for Element to hold them: 0 or 128
///   kRows, kColumns   a tile of sums for several rows; kAlone: registers of sums for one
///   Element     an activation
///   Ints, Floats   registers of int32 and float32 (vectors of the compiler's)
///   Word        a register of what is multiplied
///   broadcast(const Element*)      kStep of them in every lane
///   weights(const int8_t*)         kStep of each of kLanes units
///   multiply_add(a, w, sum)
///   put(Ints, Element*)            stores kLanes activations
template <class Isa>
class I8Body {
 public:
  static constexpr I8Leaf leaf() { return {&pack, &product}; }

 private:
  static constexpr int kLanes = Isa::kLanes;
  static constexpr int kParts = kI8Panel / kLanes;
  static constexpr std::int64_t kStride = kI8Panel * Isa::kStep;  ///< weights of a block's step
  using Element = typename Isa::Element;
  using Ints = typename Isa::Ints;
  using Word = typename Isa::Word;
  using Floats = typename Isa::Floats;

  static constexpr std::int64_t kBuffer = kI8MostDepth;  ///< activations
  static constexpr std::int64_t kMostRows = 64;

  /// Added to a float of up to 2^22, leaves it rounded to the nearest integer, ties to even, in the
  /// lowest bits.
  static constexpr float kRound = 12582912.0f;

  static std::int64_t smaller_of(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

  template <class Vector>
  static Vector load(const void* from) {
    Vector value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }

  static std::int32_t rounded(float value) {
    return __builtin_bit_cast(std::int32_t, value + kRound) -
           __builtin_bit_cast(std::int32_t, kRound);
  }
  static Ints rounded(Floats value) {
    return (Ints)(value + kRound) - __builtin_bit_cast(std::int32_t, kRound);
  }

  static void pack(const I8Pack& args) {
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      char* start =
          static_cast<char*>(args.packed) + panel * i8_panel_bytes(args.depth, args.blocks);
      auto* scales = reinterpret_cast<float*>(start);
      auto* sums = reinterpret_cast<std::int32_t*>(scales + args.blocks * kI8Panel);
      auto* weights = reinterpret_cast<std::int8_t*>(sums + args.blocks * kI8Panel);
      for (std::int64_t block = 0; block < args.blocks; ++block) {
        for (std::int64_t lane = 0; lane < kI8Panel; ++lane) {
          pack_unit(args, block, panel * kI8Panel + lane, scales[block * kI8Panel + lane],
                    sums[block * kI8Panel + lane],
                    weights + block * i8_padded_depth(args.depth) * kI8Panel + lane * Isa::kStep);
        }
      }
    }
  }

  static void pack_unit(const I8Pack& args, std::int64_t block, std::int64_t unit, float& scale,
                        std::int32_t& sum, std::int8_t* weights) {
    const bool inside = unit < args.units;
    const std::int64_t at = block * args.block_stride + unit * args.unit_stride;
    const float most =
        inside ? __builtin_bit_cast(float, largest(args.row + at, args.row_depth)) : 0;
    scale = most >= kI8Least ? most / kI8Most : 0;
    const std::int64_t depth = scale > 0 ? args.depth : 0;
    const float* source = args.source + at;
    const auto put = [&](std::int64_t k, std::int32_t integer) __attribute__((always_inline)) {
      weights[k / Isa::kStep * kStride + k % Isa::kStep] = static_cast<std::int8_t>(integer);
    };
    Ints sums = {};
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
      const Ints integers = rounded(load<Floats>(source + k) / scale);
      sums += integers;
      for (int lane = 0; lane < kLanes; ++lane) put(k + lane, integers[lane]);
    }
    sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];
    for (; k < depth; ++k) {
      const std::int32_t integer = rounded(source[k] / scale);
      sum += integer;
      put(k, integer);
    }
    for (; k < i8_padded_depth(args.depth); ++k) put(k, 0);
  }

  /// Largest magnitude, as bits, which order magnitudes as integers do: what is not finite is the
  /// largest and ends up in the scale.
  static std::int32_t largest(const float* a, std::int64_t depth) {
    constexpr std::int32_t kMagnitude = 0x7fffffff;
    Ints most = {};
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
      const Ints bits = load<Ints>(a + k) & kMagnitude;
      most = bits > most ? bits : most;
    }
    std::int32_t result = 0;
    for (int lane = 0; lane < kLanes; ++lane) result = most[lane] > result ? most[lane] : result;
    for (; k < depth; ++k) {
      const std::int32_t bits = __builtin_bit_cast(std::int32_t, a[k]) & kMagnitude;
      result = bits > result ? bits : result;
    }
    return result;
  }

  /// A row of activations to integers; the depth is padded with zeros. Returns the row's scale.
  static float quantize(const float* a, std::int64_t depth, Element* to) {
    const float most = __builtin_bit_cast(float, largest(a, depth));
    const float inverse = most >= kI8Least ? kI8Most / most : 0;
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
      Isa::put(rounded(load<Floats>(a + k) * inverse) + Isa::kOffset, to + k);
    }
    for (; k < depth; ++k) {
      to[k] = static_cast<Element>(rounded(a[k] * inverse) + Isa::kOffset);
    }
    for (; k < i8_padded_depth(depth); ++k) to[k] = static_cast<Element>(Isa::kOffset);
    return most / kI8Most;
  }

  static void product(const I8Product& p) {
    alignas(64) Element rows[kBuffer];
    float scales[kMostRows];
    const std::int64_t depth = i8_padded_depth(p.depth);
    const std::int64_t fitting = smaller_of(kBuffer / (depth > 0 ? depth : 1), kMostRows);
    for (std::int64_t first = 0; first < p.rows; first += fitting) {
      const std::int64_t count = smaller_of(fitting, p.rows - first);
      for (std::int64_t row = 0; row < count; ++row) {
        scales[row] = quantize(p.a + (first + row) * p.a_stride, p.depth, rows + row * depth);
      }
      const Rows block{rows, scales, depth, count, p.out + first * p.out_stride};
      if (count == 1) {
        multiply<1, Isa::kAlone>(p, block);
      } else {
        multiply<Isa::kRows, Isa::kColumns>(p, block);
      }
    }
  }

  /// Activations of some rows.
  struct Rows {
    const Element* a;
    const float* scales;
    std::int64_t depth;  ///< padded
    std::int64_t count;
    float* out;
  };

  /// A register of units.
  struct Column {
    const std::int8_t* weights;
    const float* scales;
    const std::int32_t* sums;
    std::int64_t at;  ///< of the product

    Column() = default;
    Column(const I8Product& p, std::int64_t depth, std::int64_t index) {
      const std::int64_t panel = index / (p.blocks * kParts);
      const std::int64_t block = index / kParts % p.blocks, part = index % kParts;
      const char* start =
          static_cast<const char*>(p.packed) + panel * i8_panel_bytes(p.depth, p.blocks);
      const std::int64_t lane = block * kI8Panel + part * kLanes, all = p.blocks * kI8Panel;
      scales = reinterpret_cast<const float*>(start) + lane;
      sums = reinterpret_cast<const std::int32_t*>(start) + all + lane;
      weights = reinterpret_cast<const std::int8_t*>(start + 8 * all) + block * depth * kI8Panel +
                part * kLanes * Isa::kStep;
      at = panel * all + lane;
    }
  };

  template <int kRows, int kColumns>
  static void multiply(const I8Product& p, const Rows& rows) {
    const std::int64_t end = p.panel_end * p.blocks * kParts;
    std::int64_t index = p.panel_begin * p.blocks * kParts;
    for (; index + kColumns <= end; index += kColumns) {
      multiply_columns<kRows, kColumns>(p, rows, index);
    }
    for (; index < end; ++index) multiply_columns<kRows, 1>(p, rows, index);
  }

  /// All rows for some columns, in tiles of nearly the same size.
  template <int kRows, int kColumns>
  static void multiply_columns(const I8Product& p, const Rows& rows, std::int64_t index) {
    Column columns[kColumns];
    for (int i = 0; i < kColumns; ++i) columns[i] = Column(p, rows.depth, index + i);
    const std::int64_t tiles = (rows.count + kRows - 1) / kRows;
    for (std::int64_t tile = 0, row = 0; tile < tiles; ++tile) {
      const std::int64_t size = rows.count / tiles + (tile < rows.count % tiles ? 1 : 0);
      tile_of<kRows, kColumns>(static_cast<int>(size), p, rows, row, columns);
      row += size;
    }
  }

  /// A tile of `count` rows, 1 to kMost.
  template <int kMost, int kColumns>
  static void tile_of(int count, const I8Product& p, const Rows& rows, std::int64_t row,
                      const Column (&columns)[kColumns]) {
    if (count == kMost) return tile<kMost, kColumns>(p, rows, row, columns);
    if constexpr (kMost > 1) tile_of<kMost - 1, kColumns>(count, p, rows, row, columns);
  }

  template <int kCount, int kColumns>
  static void tile(const I8Product& p, const Rows& rows, std::int64_t row,
                   const Column (&columns)[kColumns]) {
    Ints sums[kCount][kColumns] = {};
    const Element* a = rows.a + row * rows.depth;
    const std::int64_t steps = rows.depth / Isa::kStep;
    for (std::int64_t step = 0; step < steps; ++step) {
      Word w[kColumns];
#pragma GCC unroll 8
      for (int i = 0; i < kColumns; ++i) w[i] = Isa::weights(columns[i].weights + step * kStride);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const Word input = Isa::broadcast(a + r * rows.depth + step * Isa::kStep);
#pragma GCC unroll 8
        for (int i = 0; i < kColumns; ++i) {
          sums[r][i] = Isa::multiply_add(input, w[i], sums[r][i]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < kColumns; ++i) {
        finish(p, columns[i], sums[r][i], rows.scales[row + r],
               rows.out + (row + r) * p.out_stride);
      }
    }
  }

  static void finish(const I8Product& p, const Column& column, Ints sum, float scale, float* out) {
    if constexpr (Isa::kOffset != 0) sum -= load<Ints>(column.sums) * Isa::kOffset;
    Floats value = __builtin_convertvector(sum, Floats) * (load<Floats>(column.scales) * scale);
    const float* before = p.accumulate        ? out + column.at
                          : p.bias != nullptr ? p.bias + column.at
                                              : nullptr;
    const std::int64_t count = p.columns - column.at;
    if (count >= kLanes) {
      if (before != nullptr) value += load<Floats>(before);
      __builtin_memcpy(out + column.at, &value, sizeof value);
      return;
    }
    for (int lane = 0; lane < count; ++lane) {
      out[column.at + lane] = value[lane] + (before != nullptr ? before[lane] : 0.0f);
    }
  }
};

}  // namespace sluice::kernels::matmul::cpu
