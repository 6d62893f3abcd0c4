#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/recurrent/cpu/leaves.h"
#include "unit/kernels_recurrent/emulated_amx_leaf.h"
#include "unit/kernels_recurrent/guarded_buffer.h"

/// What the tests of the leaves share: every leaf that this machine runs is held against a naive
/// computation in double of what leaf.h says.
namespace sluice::kernels::recurrent::cpu {

using base::BFloat16;
using sluice::testing::GuardedBuffer;

inline constexpr double kUnit = 0x1p-24;  ///< half a unit in the last place of a float32, relative

template <typename T>
struct Named {
  std::string name;
  const Leaf<T>* leaf;
  /// Whether a row alone has the bits it has in a batch. The tiles sum even and odd elements of a
  /// depth of 32 apart, and fewer rows than they are worth take another way.
  bool same_bits = true;
};

template <typename T>
std::vector<Named<T>> leaves();

template <>
inline std::vector<Named<float>> leaves() {
  std::vector<Named<float>> list{{"portable", &portable_leaf<float>()}};
  if (const auto* leaf = avx2_leaf_f32()) list.push_back({"avx2", leaf});
  if (const auto* leaf = avx512_leaf_f32()) list.push_back({"avx512", leaf});
  if (avx512_leaf_bf16()) list.push_back({"emulated amx", &kEmulatedAmxLeafF32});
  if (const auto* leaf = amx_leaf_f32()) list.push_back({"amx", leaf});
  return list;
}

template <>
inline std::vector<Named<BFloat16>> leaves() {
  std::vector<Named<BFloat16>> list{{"portable", &portable_leaf<BFloat16>()}};
  if (const auto* leaf = avx512_leaf_bf16()) {
    list.push_back({"avx512", leaf});
    list.push_back({"emulated amx", &kEmulatedAmxLeafBf16, false});
  }
  if (const auto* leaf = amx_leaf_bf16()) list.push_back({"amx", leaf, false});
  return list;
}

inline double value_of(float x) { return x; }
inline double value_of(BFloat16 x) { return static_cast<float>(x); }

/// Half a unit of the storage type relative to its value; 0 for float32, whose rounding the other
/// terms cover.
template <typename T>
constexpr double kStored = std::is_same_v<T, BFloat16> ? 0x1p-8 : 0.0;

/// What a fast sigmoid may be off by, relatively: those of vectors and tiles for bfloat16, whose
/// own rounding is sixteen times that. Their tanh is off by 3e-7 at most.
inline constexpr double kFastSigmoid = 0x1.2p-14, kFastTanh = 3e-7;
template <typename T>
constexpr double kActivation = std::is_same_v<T, BFloat16> ? 2 * kFastSigmoid : 0.0;

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

template <typename T>
class LeafTest : public ::testing::Test {
 protected:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
  }
  double uniform(double scale) {
    return std::uniform_real_distribution<double>(-scale, scale)(generator_);
  }
  template <typename U>
  void fill(GuardedBuffer<U>& buffer, double scale) {
    for (U& x : buffer) x = static_cast<U>(static_cast<float>(uniform(scale)));
  }
  template <typename U>
  void poison(GuardedBuffer<U>& buffer) {
    for (U& x : buffer) x = static_cast<U>(std::numeric_limits<float>::quiet_NaN());
  }
  /// [rows, columns] with `stride` between rows and NaN between them.
  void fill_rows(GuardedBuffer<T>& buffer, std::int64_t columns, std::int64_t stride) {
    poison(buffer);
    for (std::int64_t i = 0; i < buffer.size(); ++i) {
      if (i % stride < columns) buffer[i] = static_cast<T>(static_cast<float>(uniform(1)));
    }
  }
  /// [.., panels, blocks, 16] with zeros past the units.
  void clear_padding(GuardedBuffer<float>& buffer, std::int64_t units, std::int64_t blocks) {
    const std::int64_t panels = panels_of(units);
    for (std::int64_t i = 0; i < buffer.size(); ++i) {
      if (i / (kPanel * blocks) % panels * kPanel + i % kPanel >= units) buffer[i] = 0;
    }
  }

  std::mt19937 generator_{7};
};

using LeafTypes = ::testing::Types<float, BFloat16>;

/// A matrix [blocks, units, depth] as the leaf sees it, and packed.
template <typename T>
struct Matrix {
  std::int64_t units, depth, blocks;
  GuardedBuffer<float> source;
  GuardedBuffer<T> packed;
  bool transposed;  ///< whether the source is [blocks, depth, units]

  Matrix(const Leaf<T>& leaf, std::int64_t units_, std::int64_t depth_, std::int64_t blocks_,
         bool transposed_, std::mt19937& generator)
      : units(units_),
        depth(depth_),
        blocks(blocks_),
        source(units * depth * blocks),
        packed(leaf.packed_size(units, depth, blocks)),
        transposed(transposed_) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : source) x = uniform(generator);
    for (T& x : packed) x = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    const std::int64_t split = panels_of(units) / 2;  // two calls must fill it all
    for (const auto& [begin, end] :
         {std::pair{std::int64_t{0}, split}, {split, panels_of(units)}}) {
      leaf.pack({source.data(), units * depth, transposed ? 1 : depth, transposed ? units : 1,
                 units, depth, blocks, packed.data(), begin, end});
    }
  }

  double at(std::int64_t block, std::int64_t unit, std::int64_t k) const {
    if (unit >= units) return 0;
    const std::int64_t in_block = transposed ? k * units + unit : unit * depth + k;
    return value_of(static_cast<T>(source[block * units * depth + in_block]));
  }
};

/// A sum in double, and the bound on the error of any order of float32 sums: every term takes part
/// in at most n roundings of half a unit, n the number of additions. float32 on tiles adds up each
/// product from six.
struct Bounded {
  double value = 0, magnitude = 0;
  std::int64_t count = 0;
  void add(double x) {
    value += x;
    magnitude += std::abs(x);
    ++count;
  }
  double error() const { return static_cast<double>(count + 6) * kUnit * magnitude; }
};

template <typename T>
Bounded row_times(const T* row, const Matrix<T>& matrix, std::int64_t block, std::int64_t unit,
                  double start) {
  Bounded sum;
  sum.add(start);
  for (std::int64_t k = 0; k < matrix.depth; ++k) {
    sum.add(value_of(row[k]) * matrix.at(block, unit, k));
  }
  return sum;
}

}  // namespace sluice::kernels::recurrent::cpu
