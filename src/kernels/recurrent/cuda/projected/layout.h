#pragma once

#include <vector>

#include "kernels/recurrent/cuda/projected/arguments.h"
#include "kernels/recurrent/recurrent.h"

/// How a stack lies on the GPU, and where everything is in the memories of a plan.
namespace sluice::kernels::recurrent::cuda::projected {

/// Blocks that have units of a layer, and all of its blocks: the last pieces of its projection,
/// whose features are nobody's, may take more.
std::int64_t blocks_of_units(std::int64_t hidden);
std::int64_t blocks_of(const Descriptor& descriptor);
/// Pieces of 16 features, whole groups of depths for any number of rows.
std::int64_t pieces_of(std::int64_t width);
/// The most depths of 32 that the gates of a layer have.
std::int64_t deepest(const Descriptor& descriptor);

/// Tiles of a run with so many rows.
struct Tiles {
  explicit Tiles(std::int64_t rows);
  std::int64_t count, octets;
};

/// Of a layer's groups of depths those whose weights stay in registers.
std::int64_t kept_groups(std::int64_t groups, std::int64_t octets);

/// Stages of the ring of values and of that of weights, and groups of depths of the gates' weights
/// that stay in shared memory. If all of them do, weights have no ring.
struct Residence {
  std::int64_t ring, weight_ring, resident;
};
/// `shared_bytes` are those that a block may have. Negative residence: what has to be there doesn't
/// fit.
Residence residence_of(const Descriptor& descriptor, std::int64_t octets,
                       std::int64_t shared_bytes);
std::int64_t shared_bytes_of(const Descriptor& descriptor, std::int64_t octets,
                             const Residence& residence);

struct PackedLayout {
  explicit PackedLayout(const Descriptor& descriptor);
  struct Layer {
    std::size_t gates, projection, bias;
  };
  std::vector<Layer> layers;
  std::size_t bytes = 0;
};

/// Of a run.
struct WorkspaceLayout {
  WorkspaceLayout(const Descriptor& descriptor, std::int64_t time, std::int64_t rows);
  struct Layer {
    std::size_t state, units, cells, units_done, state_done;
  };
  std::size_t counters = 0, counter_bytes = 0;
  std::size_t input = 0;  ///< x
  std::vector<Layer> layers;
  std::size_t bytes = 0;
};

}  // namespace sluice::kernels::recurrent::cuda::projected
