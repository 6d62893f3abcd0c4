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

std::int64_t blocks_of_units(std::int64_t hidden) {
  return parts(hidden, kUnits * kCluster) * kCluster;
}
std::int64_t blocks_of(const Descriptor& descriptor) {
  return std::max(blocks_of_units(descriptor.hidden), pieces_of(descriptor.widest_output()));
}

std::int64_t pieces_of(std::int64_t width) {
  constexpr int kGroup = 2 * group_depths(kMostOctets);
  return kGroup * parts(width, 16 * kGroup);
}

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
  const std::int64_t pieces = blocks_of(descriptor) * (kUnits / 16);
  return {static_cast<int>(residence.resident), static_cast<int>(pieces / kCluster),
          static_cast<int>(octets), static_cast<int>(residence.ring),
          static_cast<int>(residence.weight_ring)};
}

/// The most groups of a layer whose weights find no place in registers.
std::int64_t most_beside_registers(const Descriptor& descriptor, std::int64_t octets) {
  std::int64_t most = 0;
  for (std::int64_t l = 0; l < descriptor.layers; ++l) {
    const std::int64_t pieces =
        pieces_of(descriptor.input_of(l)) + pieces_of(descriptor.output_of(l));
    const std::int64_t groups = pieces / 2 / group_depths(static_cast<int>(octets));
    most = std::max(most, groups - kept_groups(groups, octets));
  }
  return most;
}

}  // namespace

std::int64_t kept_groups(std::int64_t groups, std::int64_t octets) {
  const std::int64_t kept = groups_in_registers(static_cast<int>(octets));
  return groups < kept ? 0 : kept;
}

Residence residence_of(const Descriptor& descriptor, std::int64_t octets,
                       std::int64_t shared_bytes) {
  // What is on its way at a time bounds the rate: a copy takes more than a microsecond.
  const std::int64_t ring = octets == 1 ? 3 : octets == 2 ? 4 : 5;
  const std::int64_t stages = octets < 4 ? 2 : octets == 4 ? 3 : 4;
  const std::int64_t bytes = group_bytes(static_cast<int>(octets));
  const std::int64_t left =
      shared_bytes - memory_of(descriptor, octets, {ring, stages, 0}).bytes + stages * bytes;
  const std::int64_t room = left < 0 ? -1 : left / bytes;
  const std::int64_t wanted = most_beside_registers(descriptor, octets);
  if (wanted <= room) return {ring, 0, wanted};
  // A stage is free once the next group has been multiplied, so there are two of them.
  if (room < 2) return {ring, 0, -1};
  // With most rows a group that stays saves nothing: copies keep up with the products.
  const std::int64_t resident =
      octets == kMostOctets ? 0 : std::max<std::int64_t>(0, room - stages);
  return {ring, std::min(stages, room), resident};
}

std::int64_t shared_bytes_of(const Descriptor& descriptor, std::int64_t octets,
                             const Residence& residence) {
  return memory_of(descriptor, octets, residence).bytes;
}

PackedLayout::PackedLayout(const Descriptor& descriptor) {
  const std::int64_t blocks = blocks_of(descriptor);
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
  const std::int64_t blocks = blocks_of(descriptor);
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
