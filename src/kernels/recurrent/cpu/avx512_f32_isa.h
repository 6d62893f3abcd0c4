#pragma once

#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/cpu/vector_avx512.h"

/// float32 on AVX-512. For files compiled with -mavx512f only.
namespace sluice::kernels::recurrent::cpu {
namespace {

/// See leaf_tile.h.
struct Avx512F32Isa {
  using T = float;
  using Vector = Avx512Vector;
  using Word = Avx512Vector;
  static constexpr int kStep = 1;
  static constexpr int kDepthUnit = 1;
  static constexpr bool kBlocksApart = false;
  static constexpr int kPrefetchLevel = 1;
  static constexpr int kRegisters = 32;
  static constexpr int kVectorRegisters = 1;
  static constexpr int kTileColumns = 4;
  static constexpr std::int64_t kGoodRows = 64;
  static constexpr std::int64_t kOwnRows = 8;

  static Word broadcast(const float* a) { return Word(*a); }
  static Word weights(const float* packed) { return Word::load(packed); }
  static Vector multiply_add(Word a, Word w, Vector sum) {
    return recurrent::cpu::multiply_add(a, w, sum);
  }
  static Vector load(const float* from, int count) { return Vector::load(from, count); }
  static void store(float* to, Vector value, int count) { value.store(to, count); }
  static void store_packed(float* to, const float* row) { Vector::load(row).store(to); }
};

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
