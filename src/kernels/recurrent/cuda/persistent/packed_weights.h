#pragma once

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// How recurrent weights are packed: as fragments of 32 lanes x 16 bytes, for each part of a
/// factor.
namespace sluice::kernels::recurrent::cuda::persistent {

/// [block][octet of its units][sixteen of the depth, from the block's own units and then those of
/// the block behind][pair of gates]: the GRU's fourth gate is empty.
constexpr int forward_fragments(const Cluster& cluster) {
  const int all = cluster.blocks * cluster.units;
  return all / 8 * (all / 16) * 2;
}
/// [block][16 units, from the block's own forwards][16 gates of the block]
constexpr int backward_fragments(int blocks, int gates) { return blocks * 2 * blocks * 2 * gates; }

}  // namespace sluice::kernels::recurrent::cuda::persistent
