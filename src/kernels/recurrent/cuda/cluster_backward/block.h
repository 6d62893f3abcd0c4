#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/cluster_backward/memory.h"
#include "kernels/recurrent/cuda/tensor_copy.h"
#include "kernels/recurrent/cuda/wide/ring.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Which part of a layer a block has.
struct Part {
  int block, direction, first_row;

  template <typename Shape>
  __device__ static Part of(const LaunchArgs& launch) {
    const int cluster = static_cast<int>(blockIdx.x) / Shape::kBlocks;
    return {static_cast<int>(cluster_rank()), cluster / launch.clusters,
            cluster % launch.clusters * launch.rows};
  }
};

using wide::has_passed;

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
