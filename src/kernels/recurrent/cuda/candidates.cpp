#include <array>

#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/cluster_backward/launch.h"
#include "kernels/recurrent/cuda/cluster_wgmma/launch.h"
#include "kernels/recurrent/cuda/cudnn_plan.h"
#include "kernels/recurrent/cuda/fused_step.h"
#include "kernels/recurrent/cuda/ladder_plan.h"
#include "kernels/recurrent/cuda/persistent/launch.h"
#include "kernels/recurrent/cuda/persistent_grid/launch.h"
#include "kernels/recurrent/cuda/projected/plan.h"
#include "kernels/recurrent/cuda/recurrent.h"
#include "kernels/recurrent/cuda/rung_rules.h"
#include "kernels/recurrent/cuda/streamed/launch.h"
#include "kernels/recurrent/cuda/wide/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

std::optional<std::string> refuse_any(const Descriptor& descriptor, const Device&) {
  if (descriptor.dtype == DType::kFloat64) return "it computes float32, bfloat16 and float16";
  return std::nullopt;
}

/// For variants whose step is not one product and one pointwise kernel: they have no cell options.
std::optional<std::string> refuse_plain(const Descriptor& descriptor, const Device& device) {
  if (auto reason = refuse_any(descriptor, device)) return reason;
  return refuse_extras(descriptor);
}

std::optional<std::string> refuse_wavefront(const Descriptor& descriptor, const Device& device) {
  if (auto reason = refuse_any(descriptor, device)) return reason;
  if (descriptor.layers * descriptor.directions == 1) {
    return "one layer of one direction has nothing to run beside it";
  }
  return std::nullopt;
}

/// The fewest training steps for which a launch that keeps weights on chip is faster than `graph`.
/// More are needed where a step of `graph` runs both directions at once, or is cheap: measured in
/// docs/performance/few-steps.md.
std::int64_t fewest_steps(const Descriptor& descriptor) {
  constexpr std::int64_t kWideUnits = 256;
  const bool gru = descriptor.cell == CellType::kGru;
  if (descriptor.directions == 2) return gru ? 5 : 3;
  return gru && descriptor.hidden >= kWideUnits ? 3 : 2;
}

std::optional<std::string> slower_than_graph(const Descriptor& descriptor) {
  if (!descriptor.training || descriptor.time >= fewest_steps(descriptor)) return std::nullopt;
  return "so few steps of training are faster as kernels of their own";
}

/// For launches that keep weights on chip: one step has nothing to keep them for.
std::optional<std::string> refuse_single_step(const Descriptor& descriptor) {
  if (descriptor.time == 1) return "weights that a single step reads once need not be kept";
  return std::nullopt;
}

std::optional<std::string> refuse_fused_step(const Descriptor& descriptor, const Device& device) {
  if (auto reason = refuse_plain(descriptor, device)) return reason;
  if (auto reason = refuse_unusual_cell(descriptor)) return reason;
  const auto& gpu = static_cast<const runtime::cuda::CudaDevice&>(device).gpu();
  if (!step_geometry(descriptor, StepPass::kForward, descriptor.rows,
                     step_lanes(descriptor, kFusedStep), gpu)) {
    return "a step of this width and batch is faster as a product and a pointwise kernel, or can't "
           "be one kernel on this GPU";
  }
  return std::nullopt;
}

/// `refuse_launch` says which layers fit.
template <decltype(persistent::refuse)& refuse_launch>
std::optional<std::string> refuse_persistent(const Descriptor& descriptor, const Device& device) {
  if (auto reason = refuse_single_step(descriptor)) return reason;
  return refuse_launch(descriptor, static_cast<const runtime::cuda::CudaDevice&>(device));
}

/// For launches that run plain LSTMs and GRUs only.
template <decltype(persistent::refuse)& refuse_launch>
std::optional<std::string> refuse_spread(const Descriptor& descriptor, const Device& device) {
  if (auto reason = refuse_extras(descriptor)) return reason;
  if (auto reason = refuse_unusual_cell(descriptor)) return reason;
  return refuse_persistent<refuse_launch>(descriptor, device);
}

/// The same layer in inference, which asks a launch about its forward pass alone.
Descriptor in_inference(const Descriptor& descriptor) {
  Descriptor forward = descriptor;
  forward.training = false;
  return forward;
}

/// persistent-wide-cluster: forward of persistent-wide, backward of cluster_backward/.
std::optional<std::string> refuse_wide_cluster(const Descriptor& descriptor, const Device& device) {
  if (auto reason = refuse_spread<cluster_backward::refuse>(descriptor, device)) return reason;
  return refuse_spread<wide::refuse>(in_inference(descriptor), device);
}

/// persistent-cluster-wgmma: forward of cluster_wgmma/, backward of cluster_backward/.
std::optional<std::string> refuse_cluster_wgmma(const Descriptor& descriptor,
                                                const Device& device) {
  if (auto reason = refuse_spread<cluster_wgmma::refuse>(descriptor, device)) return reason;
  if (!descriptor.training) return std::nullopt;
  return refuse_spread<cluster_backward::refuse>(descriptor, device);
}

/// persistent-cluster-wide: forward of cluster_wgmma/, backward of persistent-wide.
std::optional<std::string> refuse_cluster_wide(const Descriptor& descriptor, const Device& device) {
  if (!descriptor.training) return "it differs from persistent-cluster-wgmma in backward alone";
  if (auto reason = refuse_spread<cluster_wgmma::refuse>(descriptor, device)) return reason;
  return wide::refuse_backward(descriptor, static_cast<const runtime::cuda::CudaDevice&>(device));
}

/// Row counts that persistent-cluster accepts but another kernel runs faster
/// (docs/performance/cluster-backward.md). Covers what was measured: not TF32, GRUs or both
/// directions.
bool has_many_rows(const Descriptor& descriptor) {
  constexpr std::int64_t kFewestUnits = 257, kFewestRows = 130;
  return descriptor.training && descriptor.dtype != DType::kFloat32 &&
         descriptor.cell == CellType::kLstm && descriptor.directions == 1 &&
         descriptor.hidden >= kFewestUnits && descriptor.rows >= kFewestRows;
}

std::optional<std::string> refuse_cluster(const Descriptor& descriptor, const Device& device) {
  if (persistent_grid::beats_cluster(descriptor) &&
      !refuse_spread<persistent_grid::refuse>(descriptor, device)) {
    return "so few rows of float32 are faster spread over the whole GPU";
  }
  if (has_many_rows(descriptor) &&
      (!refuse_wide_cluster(descriptor, device) || !refuse_cluster_wide(descriptor, device))) {
    return "launches for many rows are faster";
  }
  return refuse_persistent<persistent::refuse>(descriptor, device);
}

/// For training whose backward pass has no launch, or is faster step by step. `refuse_launch` is
/// asked about the forward launch.
template <decltype(persistent::refuse)& refuse_launch>
std::optional<std::string> refuse_forward_alone(const Descriptor& descriptor,
                                                const Device& device) {
  if (!descriptor.training) return "it differs from the launch of both passes in backward alone";
  // Asked here because the launch is asked about inference, which ignores recurrent dropout.
  if (auto reason = refuse_extras(descriptor)) return reason;
  if (descriptor.layers * descriptor.directions > 1) {
    return "backward step by step is faster with layers or directions beside each other";
  }
  return refuse_spread<refuse_launch>(in_inference(descriptor), device);
}

template <const Rung& rung>
std::unique_ptr<Plan> create(const Descriptor& descriptor, const Device&) {
  return make_ladder_plan(descriptor, rung);
}

template <CudnnAlgorithm algorithm>
std::optional<std::string> refuse_peer(const Descriptor& descriptor, const Device&) {
  if (auto reason = refuse_extras(descriptor)) return reason;
  if (descriptor.cell == CellType::kGruResetBefore) return "its GRU resets after the product";
  return refuse_cudnn(descriptor, algorithm);
}

template <CudnnAlgorithm algorithm>
std::unique_ptr<Plan> create_peer(const Descriptor& descriptor, const Device& device) {
  return make_cudnn_plan(descriptor, algorithm, device);
}

template <CudnnAlgorithm algorithm>
constexpr Candidate peer(std::string_view name) {
  return {name, true, refuse_peer<algorithm>, create_peer<algorithm>};
}

template <const Rung& rung_of>
constexpr Candidate rung(decltype(Candidate::refuse) refuse) {
  return {rung_of.name,    false,         refuse,
          create<rung_of>, rung_of.graph, rung_of.persistent() ? slower_than_graph : nullptr};
}
/// Variants whose pointwise kernels have all cell options.
template <const Rung& rung_of>
constexpr Candidate complete_rung(decltype(Candidate::refuse) refuse) {
  Candidate candidate = rung<rung_of>(refuse);
  candidate.hard_sigmoid = true;
  return candidate;
}

constexpr std::array kList{
    rung<kPersistentCluster>(refuse_cluster),
    rung<kPersistentGrid>(refuse_spread<persistent_grid::refuse>),
    rung<kPersistentClusterWgmma>(refuse_cluster_wgmma),
    rung<kPersistentClusterWide>(refuse_cluster_wide),
    rung<kPersistentWideCluster>(refuse_wide_cluster),
    rung<kPersistentWide>(refuse_spread<wide::refuse>),
    rung<kPersistentStreamed>(refuse_spread<streamed::refuse>),
    rung<kPersistentForward>(refuse_forward_alone<wide::refuse>),
    rung<kPersistentStreamedForward>(refuse_forward_alone<streamed::refuse>),
    Candidate{projected::kName, false, projected::refuse, projected::make_plan, true,
              projected::slower_than_graph},
    complete_rung<kGraph>(refuse_any),
    rung<kFusedStep>(refuse_fused_step),
    complete_rung<kWavefront>(refuse_wavefront),
    complete_rung<kCombinedInputs>(refuse_any),
    complete_rung<kPretransposed>(refuse_any),
    complete_rung<kFusedPointwise>(refuse_any),
    rung<kStreamedGemm>(refuse_plain),
    rung<kCombinedGemm>(refuse_plain),
    rung<kBaseline>(refuse_plain),
    peer<CudnnAlgorithm::kStandard>("cudnn-standard"),
    peer<CudnnAlgorithm::kPersistStatic>("cudnn-persist-static"),
    peer<CudnnAlgorithm::kPersistDynamic>("cudnn-persist-dynamic"),
};

}  // namespace

constexpr Candidates kCandidates{kList};

}  // namespace sluice::kernels::recurrent::cuda
