#pragma once

#include <cstdint>

#include "oracle/matrix_tile.h"

namespace sluice::oracle {
namespace {  // each file that includes this is compiled for other instructions: nothing may be
             // shared

/// kBytes is the width of a vector register: left to itself the compiler vectorises across the
/// wrong index.
template <int kBytes>
void tile_body(int64_t depth, const double* a, const double* b, double* acc) {
  using Lanes [[gnu::vector_size(kBytes), gnu::aligned(sizeof(double)), gnu::may_alias]] = double;
  constexpr int kVectors = kTileColumns * sizeof(double) / kBytes;
  Lanes* const out = reinterpret_cast<Lanes*>(acc);
  const Lanes* row = reinterpret_cast<const Lanes*>(b);
  Lanes sums[kTileRows * kVectors];
#pragma GCC unroll 32
  for (int i = 0; i < kTileRows * kVectors; ++i) sums[i] = out[i];
  for (int64_t p = 0; p < depth; ++p, a += kTileRows, row += kVectors) {
#pragma GCC unroll 4
    for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i * kVectors + v] += a[i] * row[v];
  }
#pragma GCC unroll 32
  for (int i = 0; i < kTileRows * kVectors; ++i) out[i] = sums[i];
}

}  // namespace
}  // namespace sluice::oracle
