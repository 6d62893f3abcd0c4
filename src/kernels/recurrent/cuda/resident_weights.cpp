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

namespace sluice::kernels::recurrent::cuda {
namespace {

PassBytes both_passes(const Descriptor& descriptor, std::int64_t forward, std::int64_t backward) {
  return {forward, descriptor.training ? backward : 0};
}

/// For factors of float32 to be scaled.
void find_largest_weight(cudaStream_t stream, const Descriptor& descriptor, const float* weight_hh,
                         float* largest) {
  const std::int64_t hidden = descriptor.hidden;
  persistent::find_largest(stream, weight_hh, descriptor.gates() * hidden * hidden, largest);
}

/// A launch's own description of the weights, without where they go and how they lie there.
template <typename PackWeights>
PackWeights weights_of(const Descriptor& descriptor, const float* weight_hh) {
  PackWeights args{};
  args.from = weight_hh;
  args.gates = static_cast<std::int32_t>(descriptor.gates());
  args.hidden = static_cast<std::int32_t>(descriptor.hidden);
  return args;
}

void pack_for_cluster(cudaStream_t stream, const Descriptor& descriptor, const float* weight_hh,
                      const ResidentWeights& to) {
  auto args = weights_of<persistent::PackWeights>(descriptor, weight_hh);
  if (descriptor.dtype == DType::kFloat32) {
    args.largest = to.largest;
    find_largest_weight(stream, descriptor, weight_hh, to.largest);
  }
  args.cluster = persistent::forward_cluster(descriptor);
  args.to = to.forward;
  persistent::pack_forward(stream, descriptor.dtype, args);
  if (!to.backward) return;
  args.cluster = persistent::backward_cluster(descriptor);
  args.to = to.backward;
  persistent::pack_backward(stream, descriptor.dtype, args);
}

void pack_for_grid(cudaStream_t stream, const Descriptor& descriptor, const float* weight_hh,
                   const ResidentWeights& to) {
  auto args = weights_of<persistent_grid::PackWeights>(descriptor, weight_hh);
  args.residence = persistent_grid::forward_residence(descriptor);
  args.to = to.forward;
  persistent_grid::pack_forward(stream, descriptor.dtype, args);
  if (!to.backward) return;
  args.residence = persistent_grid::backward_residence(descriptor);
  args.to = to.backward;
  persistent_grid::pack_backward(stream, descriptor.dtype, args);
}

wide::PackWeights wide_weights_of(const Descriptor& descriptor, const float* weight_hh,
                                  const ResidentWeights& to) {
  auto args = weights_of<wide::PackWeights>(descriptor, weight_hh);
  args.chunks = static_cast<std::int32_t>(wide::chunks_of(descriptor.hidden));
  if (descriptor.dtype == DType::kFloat32) args.largest = to.largest;
  return args;
}

/// The two passes of launches for many rows, which may be of different kinds.
void pack_forward(cudaStream_t stream, const Descriptor& descriptor, Residence residence,
                  const float* weight_hh, const ResidentWeights& to) {
  if (residence == Residence::kClusterWgmma) {
    auto args = weights_of<cluster_wgmma::PackWeights>(descriptor, weight_hh);
    args.to = to.forward;
    return cluster_wgmma::pack_forward(stream, descriptor.dtype, args);
  }
  auto args = wide_weights_of(descriptor, weight_hh, to);
  args.stages = static_cast<std::int32_t>(wide::forward_stages(descriptor));
  args.to = to.forward;
  wide::pack_forward(stream, descriptor.dtype, args);
}
void pack_backward(cudaStream_t stream, const Descriptor& descriptor, Residence residence,
                   const float* weight_hh, const ResidentWeights& to) {
  if (residence == Residence::kWideCluster) {
    auto args = weights_of<cluster_backward::PackWeights>(descriptor, weight_hh);
    args.to = to.backward;
    return cluster_backward::pack_weights(stream, descriptor.dtype, args);
  }
  auto args = wide_weights_of(descriptor, weight_hh, to);
  args.stages = static_cast<std::int32_t>(wide::backward_stages(descriptor));
  args.to = to.backward;
  wide::pack_backward(stream, descriptor.dtype, args);
}
void pack_for_many_rows(cudaStream_t stream, const Descriptor& descriptor, Residence residence,
                        const float* weight_hh, const ResidentWeights& to) {
  if (descriptor.dtype == DType::kFloat32) {
    find_largest_weight(stream, descriptor, weight_hh, to.largest);
  }
  pack_forward(stream, descriptor, forward_of(residence), weight_hh, to);
  if (to.backward) pack_backward(stream, descriptor, backward_of(residence), weight_hh, to);
}

/// Bytes of the weights of those.
std::int64_t forward_bytes(const Descriptor& descriptor, Residence residence) {
  if (residence == Residence::kClusterWgmma) return cluster_wgmma::packed_bytes(descriptor.hidden);
  return wide::packed_bytes(wide::chunks_of(descriptor.hidden), wide::forward_stages(descriptor));
}
std::int64_t backward_bytes(const Descriptor& descriptor, Residence residence) {
  if (residence == Residence::kWideCluster) {
    return cluster_backward::packed_bytes(descriptor.hidden);
  }
  return wide::packed_bytes(wide::chunks_of(descriptor.hidden), wide::backward_stages(descriptor));
}

void pack_for_streaming(cudaStream_t stream, const Descriptor& descriptor, const float* weight_hh,
                        const ResidentWeights& to) {
  auto args = weights_of<streamed::PackWeights>(descriptor, weight_hh);
  args.geometry = streamed::forward_geometry(descriptor);
  args.to = to.forward;
  streamed::pack_forward(stream, descriptor.dtype, args);
  if (!to.backward) return;
  args.geometry = streamed::backward_geometry(descriptor);
  args.to = to.backward;
  streamed::pack_backward(stream, descriptor.dtype, args);
}

}  // namespace

PassBytes resident_weight_bytes(const Descriptor& descriptor, Residence residence) {
  if (residence == Residence::kGrid) {
    // Some layers can't be trained.
    return {persistent_grid::forward_residence(descriptor).bytes(),
            descriptor.training ? persistent_grid::backward_residence(descriptor).bytes() : 0};
  }
  if (is_for_many_rows(residence)) {
    return both_passes(descriptor, forward_bytes(descriptor, forward_of(residence)),
                       backward_bytes(descriptor, backward_of(residence)));
  }
  if (residence == Residence::kStreamed) {
    const std::int64_t forward = streamed::packed_bytes(streamed::forward_geometry(descriptor));
    if (!descriptor.training) return {forward, 0};
    return {forward, streamed::packed_bytes(streamed::backward_geometry(descriptor))};
  }
  const std::int64_t bytes = persistent::packed_bytes(descriptor.dtype, descriptor.gates(),
                                                      persistent::backward_cluster(descriptor));
  return both_passes(descriptor, bytes, bytes);
}

PassBytes exchange_bytes(const Descriptor& descriptor, Residence residence) {
  if (residence == Residence::kGrid) {
    return {persistent_grid::forward_exchange_bytes(descriptor),
            descriptor.training ? persistent_grid::backward_exchange_bytes(descriptor) : 0};
  }
  if (is_for_many_rows(residence)) {
    const bool backward = descriptor.training && backward_of(residence) == Residence::kWide;
    return {forward_of(residence) == Residence::kWide ? wide::exchange_bytes(descriptor) : 0,
            backward ? wide::exchange_bytes(descriptor) : 0};
  }
  if (residence == Residence::kStreamed) {
    const std::int64_t bytes = streamed::exchange_bytes(descriptor);
    return both_passes(descriptor, bytes, bytes);
  }
  return {0, 0};
}

void pack_resident_weights(cudaStream_t stream, const Descriptor& descriptor, Residence residence,
                           const float* weight_hh, const ResidentWeights& to) {
  if (is_for_many_rows(residence)) {
    return pack_for_many_rows(stream, descriptor, residence, weight_hh, to);
  }
  const auto pack = residence == Residence::kGrid       ? pack_for_grid
                    : residence == Residence::kStreamed ? pack_for_streaming
                                                        : pack_for_cluster;
  pack(stream, descriptor, weight_hh, to);
}

}  // namespace sluice::kernels::recurrent::cuda
