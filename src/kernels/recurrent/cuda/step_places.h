#pragma once

#include "kernels/recurrent/cuda/engine.h"

namespace sluice::kernels::recurrent::cuda {

/// What the steps of one layer and direction go by in either pass.
class StepPlaces {
 protected:
  StepPlaces(const Run& run, std::int64_t layer, std::int64_t direction, StepPass pass)
      : run_(run),
        sizes_(run.engine.sizes),
        layer_(layer),
        direction_(direction),
        index_(layer * sizes_.directions + direction),
        output_(run.engine.descriptor.output_of(layer)),
        rows_(run.args.rows),
        lane_(run.lane_of(layer, direction)),
        stream_(run.engine.lanes[lane_]),
        walk_{run.args.time, direction == 1},
        fused_(run.fused_geometry(pass)),
        scaled_(scales_steps(run.engine.descriptor, run.engine.rung)) {}

  const Run& run_;
  const Sizes& sizes_;
  const std::int64_t layer_, direction_, index_, output_, rows_, lane_;
  const cudaStream_t stream_;
  const Walk walk_;
  const std::optional<StepGeometry> fused_;
  const bool scaled_;  ///< recurrent products are of scaled float16
};

}  // namespace sluice::kernels::recurrent::cuda
