#pragma once

#include <cstdint>
#include <optional>

#include "kernels/recurrent/cuda/wide/arguments.h"
#include "kernels/recurrent/recurrent.h"

/// How a layer is spread over the GPU's blocks, and how a block's shared memory is divided.
namespace sluice::kernels::recurrent::cuda::wide {

enum class Pass { kForward, kBackward };

/// Rounded up.
constexpr std::int64_t parts(std::int64_t extent, std::int64_t part) {
  return (extent + part - 1) / part;
}

/// Chunks of 64 units that a layer has.
constexpr std::int64_t chunks_of(std::int64_t hidden) { return parts(hidden, kChunkUnits); }
/// Chunks of the products' depth: h in forward, the gradients of all gates in backward.
std::int64_t depth_chunks(Pass pass, std::int64_t gates, std::int64_t hidden);
/// Ring stages of the depth that a block multiplies: all of it, in backward a quarter.
std::int64_t stages_of(Pass pass, std::int64_t gates, std::int64_t hidden);

struct Spread {
  Geometry geometry;
  int cluster;  ///< blocks
  int directions;
  int launches;  ///< one after the other, each for a part of the rows; 1 in forward
  int blocks() const { return geometry.chunks * kBlocksOfChunk * geometry.groups * directions; }
  /// The most tiles of a block in all launches together.
  int most_tiles() const { return launches * geometry.tiles_each; }
};

/// Gives a block as few tiles as possible, then lets as many blocks as possible share copies, such
/// that `abreast` launches run at once. Nothing if not even one group of rows fits.
std::optional<Spread> spread_of(Pass pass, DType storage, std::int64_t gates, std::int64_t hidden,
                                std::int64_t rows, std::int64_t directions,
                                std::int64_t abreast = 1);
inline std::optional<Spread> spread_of(Pass pass, const Descriptor& descriptor, std::int64_t rows,
                                       std::int64_t abreast = 1) {
  return spread_of(pass, descriptor.dtype, descriptor.gates(), descriptor.hidden, rows,
                   descriptor.directions, abreast);
}

/// Divides the memory between the ring and what is read ahead for cells: the ring first has the
/// stages it needs. Returns the bytes of a block's shared memory.
int fill_memory(Geometry& geometry, Pass pass, DType storage);

}  // namespace sluice::kernels::recurrent::cuda::wide
