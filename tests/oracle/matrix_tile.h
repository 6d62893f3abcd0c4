#pragma once

#include <cstdint>

namespace sluice::oracle {

constexpr int64_t kTileRows = 4;
constexpr int64_t kTileColumns = 16;

/// acc[4, 16] += a[depth, 4] b[depth, 16], both packed contiguously; each element's sum runs over
/// depth in ascending order. The three differ in the instructions they may use, and so in fused or
/// separate rounding.
void tile_baseline(int64_t depth, const double* a, const double* b, double* acc);
void tile_avx2(int64_t depth, const double* a, const double* b, double* acc);
void tile_avx512(int64_t depth, const double* a, const double* b, double* acc);

}  // namespace sluice::oracle
