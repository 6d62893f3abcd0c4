#pragma once

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// How units lie on a cluster, and how recurrent weights are packed: as fragments of 32 lanes x 16
/// bytes, for each part of a factor.
namespace sluice::kernels::recurrent::cuda::persistent {

/// Units that a thread owns in each of its rows. Its tiles of a product have four rows for the four
/// gates of a unit (geometry.h); a cell of one gate has there four units that are next to each
/// other, and a block four times as many.
constexpr int thread_units(int gates) { return gates == 1 ? 4 : 1; }

/// [block][octet of its units][sixteen of the depth, from the block's own units and then those of
/// the block behind][pair of gates]: the GRU's fourth gate is empty. Of cells with one gate, octets
/// of a thread's units, and units for gates.
constexpr int forward_fragments(const Cluster& cluster, int thread_units) {
  const int all = cluster.blocks * cluster.units;
  return all / 8 / thread_units * (all / 16) * 2;
}
/// [block][16 units, from the block's own forwards][16 gates of the block]. Of cells with one gate,
/// units of a block lie as [thread's unit][thread], on both sides.
constexpr int backward_fragments(int blocks, int gates) {
  const int units = thread_units(gates);
  return blocks * 2 * blocks * units * 2 * gates * units;
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
