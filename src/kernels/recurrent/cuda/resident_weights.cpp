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
  wide::PackWeights wide_weights(void* to, std::int64_t stages) const {
    auto args = weights<wide::PackWeights>(to);
    args.chunks = static_cast<std::int32_t>(wide::chunks_of(descriptor.hidden));
    args.stages = static_cast<std::int32_t>(stages);
    return args;
  }

  void forward(Residence residence, void* to) const {
    const DType storage = descriptor.dtype;
    if (residence == Residence::kCluster) {
      auto args = weights<persistent::PackWeights>(to);
      args.cluster = persistent::forward_cluster(descriptor);
      persistent::pack_forward(stream, storage, args);
    } else if (residence == Residence::kClusterWgmma) {
      cluster_wgmma::pack_forward(stream, storage, weights<cluster_wgmma::PackWeights>(to));
    } else if (residence == Residence::kGrid) {
      auto args = weights<persistent_grid::PackWeights>(to);
      args.residence = persistent_grid::forward_residence(descriptor);
      persistent_grid::pack_forward(stream, storage, args);
    } else if (residence == Residence::kWide) {
      wide::pack_forward(stream, storage, wide_weights(to, wide::forward_stages(descriptor)));
    } else if (residence == Residence::kStreamed) {
      auto args = weights<streamed::PackWeights>(to);
      args.geometry = streamed::forward_geometry(descriptor);
      streamed::pack_forward(stream, storage, args);
    }
  }
  void backward(Residence residence, void* to) const {
    const DType storage = descriptor.dtype;
    if (residence == Residence::kCluster) {
      auto args = weights<persistent::PackWeights>(to);
      args.cluster = persistent::backward_cluster(descriptor);
      persistent::pack_backward(stream, storage, args);
    } else if (residence == Residence::kClusterWgmma) {
      cluster_backward::pack_weights(stream, storage, weights<cluster_backward::PackWeights>(to));
    } else if (residence == Residence::kGrid) {
      auto args = weights<persistent_grid::PackWeights>(to);
      args.residence = persistent_grid::backward_residence(descriptor);
      persistent_grid::pack_backward(stream, storage, args);
    } else if (residence == Residence::kWide) {
      wide::pack_backward(stream, storage, wide_weights(to, wide::backward_stages(descriptor)));
    } else if (residence == Residence::kStreamed) {
      auto args = weights<streamed::PackWeights>(to);
      args.geometry = streamed::backward_geometry(descriptor);
      streamed::pack_backward(stream, storage, args);
    }
  }
};

/// Of a cluster, either pass.
std::int64_t cluster_bytes(const Descriptor& descriptor) {
  return persistent::packed_bytes(descriptor.dtype, descriptor.gates(),
                                  persistent::backward_cluster(descriptor));
}

std::int64_t forward_bytes(const Descriptor& descriptor, Residence residence) {
  switch (residence) {
    case Residence::kNone:
      break;
    case Residence::kCluster:
      return cluster_bytes(descriptor);
    case Residence::kClusterWgmma:
      return cluster_wgmma::packed_bytes(descriptor.hidden);
    case Residence::kGrid:
      return persistent_grid::forward_residence(descriptor).bytes();
    case Residence::kWide:
      return wide::packed_bytes(wide::chunks_of(descriptor.hidden),
                                wide::forward_stages(descriptor));
    case Residence::kStreamed:
      return streamed::packed_bytes(streamed::forward_geometry(descriptor));
  }
  return 0;
}
std::int64_t backward_bytes(const Descriptor& descriptor, Residence residence) {
  switch (residence) {
    case Residence::kNone:
      break;
    case Residence::kCluster:
      return cluster_bytes(descriptor);
    case Residence::kClusterWgmma:
      return cluster_backward::packed_bytes(descriptor.hidden);
    case Residence::kGrid:
      return persistent_grid::backward_residence(descriptor).bytes();
    case Residence::kWide:
      return wide::packed_bytes(wide::chunks_of(descriptor.hidden),
                                wide::backward_stages(descriptor));
    case Residence::kStreamed:
      return streamed::packed_bytes(streamed::backward_geometry(descriptor));
  }
  return 0;
}

}  // namespace

PassBytes resident_weight_bytes(const Descriptor& descriptor, const Rung& rung) {
  // Some layers can't be trained.
  return {forward_bytes(descriptor, rung.forward),
          descriptor.training ? backward_bytes(descriptor, rung.backward) : 0};
}

PassBytes exchange_bytes(const Descriptor& descriptor, const Rung& rung) {
  const auto of_either = [&](Residence residence) -> std::int64_t {
    if (residence == Residence::kWide) return wide::exchange_bytes(descriptor);
    return residence == Residence::kStreamed ? streamed::exchange_bytes(descriptor) : 0;
  };
  PassBytes bytes{of_either(rung.forward), descriptor.training ? of_either(rung.backward) : 0};
  if (rung.forward == Residence::kGrid) {
    bytes.forward = persistent_grid::forward_exchange_bytes(descriptor);
    if (descriptor.training) bytes.backward = persistent_grid::backward_exchange_bytes(descriptor);
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
  packing.forward(rung.forward, to.forward);
  if (to.backward) packing.backward(rung.backward, to.backward);
}

}  // namespace sluice::kernels::recurrent::cuda
