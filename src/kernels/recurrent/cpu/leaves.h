#pragma once

#include "kernels/recurrent/cpu/leaf.h"

/// The leaves of each instruction set, and whether this machine runs them.
namespace sluice::kernels::recurrent::cpu {

// Defined in files compiled for their instruction set: reach them through the functions below.
extern const Leaf<float> kAvx2LeafF32;
extern const Leaf<float> kAvx512LeafF32;
extern const Leaf<base::BFloat16> kAvx512LeafBf16;
extern const Leaf<float> kAmxLeafF32;
extern const Leaf<base::BFloat16> kAmxLeafBf16;

// Null where the processor, or the operating system for the state of its registers, lacks them.
const Leaf<float>* avx2_leaf_f32();              ///< AVX2 and FMA
const Leaf<float>* avx512_leaf_f32();            ///< AVX512F
const Leaf<base::BFloat16>* avx512_leaf_bf16();  ///< AVX512F, BW, DQ, VL, BF16
/// AMX-TILE and AMX-BF16 beside what avx512_leaf_bf16 needs. The first call asks the system for the
/// use of the tile registers, for the whole process.
const Leaf<base::BFloat16>* amx_leaf_bf16();
const Leaf<float>* amx_leaf_f32();  ///< the same

/// The widest state, h or its projection, that a cell of amx_leaf_f32 steps from.
inline constexpr std::int64_t kAmxF32Depth = 4096;
/// Below so many rows its tiles are so empty that vectors are faster.
inline constexpr std::int64_t kAmxF32Rows = 8;
/// A float32 weight takes six bytes in its tiles, and a tile of weights that is read serves two
/// tiles of 16 rows. Weights that outgrow a core's L2 are read anew in each step at the latency of
/// L3, which takes 0.9 ns a weight where vectors take 0.02 a weight and row: so they want more
/// rows.
inline constexpr std::int64_t kAmxF32Cache = std::int64_t{2} << 20;
inline constexpr std::int64_t kAmxF32RowsBeyondCache = 48;

}  // namespace sluice::kernels::recurrent::cpu
