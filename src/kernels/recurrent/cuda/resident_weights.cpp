#include "kernels/recurrent/cuda/resident_weights.h"

#include "kernels/recurrent/cuda/cluster_backward/pack_kernels.h"
#include "kernels/recurrent/cuda/cluster_wgmma/pack_kernels.h"
#include "kernels/recurrent/cuda/persistent/launch.h"
#include "kernels/recurrent/cuda/persistent/pack_kernels.h"
#include "kernels/recurrent/cuda/persistent_grid/launch.h"
#include "kernels/recurrent/cuda/streamed/launch.h"
#include "kernels/recurrent/cuda/streamed/pack_kernels.h"
#include "kernels/recurrent/cuda/wide/launch.h"
#include "kernels/recurrent/cuda/wide/pack_kernels.h"
#include "kernels/recurrent/cuda/wide/spread.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

enum class Pass { kForward, kBackward };

// What a launch's kind lays weights out by.

auto cluster_of(Pass pass, const Descriptor& descriptor) {
  return pass == Pass::kForward ? persistent::forward_cluster(descriptor)
                                : persistent::backward_cluster(descriptor);
}
auto grid_residence(Pass pass, const Descriptor& descriptor) {
  return pass == Pass::kForward ? persistent_grid::forward_residence(descriptor)
                                : persistent_grid::backward_residence(descriptor);
}
auto wide_stages(Pass pass, const Descriptor& descriptor) {
  return pass == Pass::kForward ? wide::forward_stages(descriptor)
                                : wide::backward_stages(descriptor);
}
auto streamed_spread(Pass pass, const Descriptor& descriptor) {
  return pass == Pass::kForward ? streamed::forward_spread(descriptor)
                                : streamed::backward_spread(descriptor);
}

struct Packing {
  cudaStream_t stream;
  const Descriptor& descriptor;
  const float* weight_hh;
  float* largest;

  /// A launch's own description of the weights, without how they lie there.
  template <typename PackWeights>
  PackWeights weights(void* to) const {
    PackWeights args{};
    args.from = weight_hh;
    args.gates = static_cast<std::int32_t>(descriptor.gates());
    args.hidden = static_cast<std::int32_t>(descriptor.hidden);
    args.to = to;
    if constexpr (requires { args.largest; }) {
      if (descriptor.dtype == DType::kFloat32) args.largest = largest;
    }
    return args;
  }

  void pack(Pass pass, Residence residence, void* to) const {
    const DType storage = descriptor.dtype;
    const bool forward = pass == Pass::kForward;
    const auto pack_by = [&](auto* pack_forward, auto* pack_backward, const auto& args) {
      (forward ? pack_forward : pack_backward)(stream, storage, args);
    };
    if (residence == Residence::kCluster) {
      auto args = weights<persistent::PackWeights>(to);
      args.cluster = cluster_of(pass, descriptor);
      pack_by(persistent::pack_forward, persistent::pack_backward, args);
    } else if (residence == Residence::kClusterWgmma && forward) {
      cluster_wgmma::pack_forward(stream, storage, weights<cluster_wgmma::PackWeights>(to));
    } else if (residence == Residence::kClusterWgmma) {
      cluster_backward::pack_weights(stream, storage, weights<cluster_backward::PackWeights>(to));
    } else if (residence == Residence::kGrid) {
      auto args = weights<persistent_grid::PackWeights>(to);
      args.residence = grid_residence(pass, descriptor);
      pack_by(persistent_grid::pack_forward, persistent_grid::pack_backward, args);
    } else if (residence == Residence::kWide) {
      auto args = weights<wide::PackWeights>(to);
      args.chunks = static_cast<std::int32_t>(wide::chunks_of(descriptor.hidden));
      args.stages = static_cast<std::int32_t>(wide_stages(pass, descriptor));
      pack_by(wide::pack_forward, wide::pack_backward, args);
    } else if (residence == Residence::kStreamed) {
      auto args = weights<streamed::PackWeights>(to);
      args.spread = streamed_spread(pass, descriptor);
      pack_by(streamed::pack_forward, streamed::pack_backward, args);
    }
  }
};

std::int64_t packed_bytes(Pass pass, const Descriptor& descriptor, Residence residence) {
  const std::int64_t hidden = descriptor.hidden;
  switch (residence) {
    case Residence::kNone:
      break;
    case Residence::kCluster:  // in either pass as many
      return persistent::packed_bytes(descriptor.dtype, descriptor.gates(),
                                      cluster_of(Pass::kBackward, descriptor));
    case Residence::kClusterWgmma:
      return pass == Pass::kForward ? cluster_wgmma::packed_bytes(hidden)
                                    : cluster_backward::packed_bytes(hidden);
    case Residence::kGrid:
      return grid_residence(pass, descriptor).bytes();
    case Residence::kWide:
      return wide::packed_bytes(wide::chunks_of(hidden), wide_stages(pass, descriptor));
    case Residence::kStreamed:
      return streamed::packed_bytes(streamed_spread(pass, descriptor));
  }
  return 0;
}

}  // namespace

PassBytes resident_weight_bytes(const Descriptor& descriptor, const Rung& rung) {
  // Some layers can't be trained.
  return {packed_bytes(Pass::kForward, descriptor, rung.forward),
          descriptor.training ? packed_bytes(Pass::kBackward, descriptor, rung.backward) : 0};
}

PassBytes exchange_bytes(const Descriptor& descriptor, const Rung& rung) {
  PassBytes bytes{};
  if (rung.forward == Residence::kWide) bytes.forward = wide::exchange_bytes(descriptor);
  if (rung.forward == Residence::kGrid) {
    bytes.forward = persistent_grid::forward_exchange_bytes(descriptor);
  }
  if (rung.forward == Residence::kStreamed) {
    bytes.forward = streamed::forward_exchange_bytes(descriptor);
  }
  if (!descriptor.training) return bytes;
  if (rung.backward == Residence::kWide) bytes.backward = wide::exchange_bytes(descriptor);
  if (rung.backward == Residence::kGrid) {
    bytes.backward = persistent_grid::backward_exchange_bytes(descriptor);
  }
  if (rung.backward == Residence::kStreamed) {
    bytes.backward = streamed::backward_exchange_bytes(descriptor);
  }
  return bytes;
}

void pack_resident_weights(cudaStream_t stream, const Descriptor& descriptor, const Rung& rung,
                           const float* weight_hh, const ResidentWeights& to) {
  // Launches over the grid multiply float32 as it is.
  if (descriptor.dtype == DType::kFloat32 && rung.forward != Residence::kGrid) {
    const std::int64_t hidden = descriptor.hidden;
    persistent::find_largest(stream, weight_hh, descriptor.gates() * hidden * hidden, to.largest);
  }
  const Packing packing{stream, descriptor, weight_hh, to.largest};
  packing.pack(Pass::kForward, rung.forward, to.forward);
  if (to.backward) packing.pack(Pass::kBackward, rung.backward, to.backward);
}

}  // namespace sluice::kernels::recurrent::cuda
