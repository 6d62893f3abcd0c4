#pragma once

/// How recurrent weights are packed: as fragments of 32 lanes x 16 bytes, for each part of a
/// factor.
namespace sluice::kernels::recurrent::cuda::persistent {

/// [block][octet of its units][sixteen of the depth, from the block's own units backwards][pair of
/// gates]: the GRU's fourth gate is empty.
constexpr int forward_fragments(int blocks) { return blocks * 4 * 2 * blocks * 2; }
/// [block][16 units, from the block's own forwards][16 gates of the block]
constexpr int backward_fragments(int blocks, int gates) { return blocks * 2 * blocks * 2 * gates; }

}  // namespace sluice::kernels::recurrent::cuda::persistent
