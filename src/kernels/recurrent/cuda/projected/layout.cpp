#include "kernels/recurrent/cuda/projected/layout.h"

#include <algorithm>

#include "base/shape.h"
#include "kernels/recurrent/cuda/projected/block_memory.h"

namespace sluice::kernels::recurrent::cuda::projected {
namespace {

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

/// Hands out consecutive pieces of memory.
class Booking {
 public:
  std::size_t take(std::int64_t count, std::int64_t size) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t offset = total_;
    const std::size_t bytes =
        base::checked_mul(static_cast<std::size_t>(count), static_cast<std::size_t>(size));
    total_ = base::checked_add(total_, base::align_up(bytes, kAlignment));
    return offset;
  }
  std::size_t total() const { return total_; }

 private:
  std::size_t total_ = 0;
};

}  // namespace

std::int64_t blocks_of(std::int64_t hidden) { return parts(hidden, kUnits * kCluster) * kCluster; }

std::int64_t pieces_of(std::int64_t width) { return 2 * parts(width, 32); }

std::int64_t deepest(const Descriptor& descriptor) {
  std::int64_t most = 0;
  for (std::int64_t l = 0; l < descriptor.layers; ++l) {
    most = std::max(most, pieces_of(descriptor.input_of(l)) + pieces_of(descriptor.output_of(l)));
  }
  return most / 2;
}

Tiles::Tiles(std::int64_t rows) : count(1), octets(1) {
  while (octets < kMostOctets && octets * 8 < rows) octets *= 2;
  count = parts(rows, octets * 8);
}

namespace {

BlockMemory memory_of(const Descriptor& descriptor, std::int64_t octets,
                      const Residence& residence) {
  const std::int64_t pieces = blocks_of(descriptor.hidden) * (kUnits / 16);
  return {static_cast<int>(residence.resident), static_cast<int>(pieces / kCluster),
          static_cast<int>(octets), static_cast<int>(residence.ring)};
}

}  // namespace

Residence residence_of(const Descriptor& descriptor, std::int64_t octets,
                       std::int64_t shared_bytes) {
  // What is on its way at a time bounds the rate: a copy takes more than a microsecond.
  const std::int64_t ring = octets == 1 ? 3 : octets == 2 ? 4 : 5;
  const std::int64_t left = shared_bytes - memory_of(descriptor, octets, {ring, 0}).bytes;
  if (left < 0) return {ring, -1};
  return {ring, std::min(left / kGatesBytes, deepest(descriptor))};
}

std::int64_t shared_bytes_of(const Descriptor& descriptor, std::int64_t octets,
                             const Residence& residence) {
  return memory_of(descriptor, octets, residence).bytes;
}

PackedLayout::PackedLayout(const Descriptor& descriptor) {
  const std::int64_t blocks = blocks_of(descriptor.hidden);
  Booking booking;
  for (std::int64_t l = 0; l < descriptor.layers; ++l) {
    const std::int64_t state = pieces_of(descriptor.output_of(l));
    const std::int64_t depths = (pieces_of(descriptor.input_of(l)) + state) / 2;
    Layer layer{};
    layer.gates = booking.take(blocks * depths, kGatesBytes);
    layer.projection = booking.take(state * blocks * (kUnits / 16) / kCluster, kProjectionBytes);
    layer.bias = booking.take(blocks * kUnits, 4 * sizeof(float));
    layers.push_back(layer);
  }
  bytes = booking.total();
}

WorkspaceLayout::WorkspaceLayout(const Descriptor& descriptor, std::int64_t time,
                                 std::int64_t rows) {
  const std::int64_t blocks = blocks_of(descriptor.hidden);
  const Tiles tiles(rows);
  const std::int64_t octets = tiles.count * tiles.octets;
  Booking booking;
  for (std::int64_t l = 0; l < descriptor.layers; ++l) {
    Layer layer{};
    layer.units_done = booking.take(tiles.count, kCounterBytes);
    layer.state_done = booking.take(tiles.count, kCounterBytes);
    layers.push_back(layer);
  }
  counter_bytes = booking.total();
  input = booking.take(time * octets * pieces_of(descriptor.input), kPieceBytes);
  for (std::int64_t l = 0; l < descriptor.layers; ++l) {
    Layer& layer = layers[static_cast<std::size_t>(l)];
    layer.state =
        booking.take((time + 1) * octets * pieces_of(descriptor.output_of(l)), kPieceBytes);
    layer.units = booking.take(octets * blocks * (kUnits / 16), kPieceBytes);
    layer.cells = booking.take(blocks * octets * kWorkers, sizeof(float));
  }
  bytes = booking.total();
}

}  // namespace sluice::kernels::recurrent::cuda::projected
