#pragma once

#include <optional>
#include <string_view>

#include "kernels/recurrent/recurrent.h"

/// The ladder: implementations of one time loop that differ in a few switches. Each rung has what
/// the one below has and one thing more (after the steps of cuDNN 5's LSTM: J. Appleyard et al.,
/// "Optimizing performance of recurrent neural networks on GPUs", 2016).
namespace sluice::kernels::recurrent::cuda {

/// How the products of a layer's input are queued.
enum class InputProducts {
  kEachStep,  ///< one a step, before the recurrent one
  kStreamed,  ///< one a step, on a second stream, so that they run beside the recurrent ones
  kCombined,  ///< one for all steps, or for a piece of them
};

/// Where recurrent weights stay while all steps of a pass run.
enum class Residence {
  kNone,          ///< nowhere: each step reads them anew
  kCluster,       ///< in each cluster, which works on some rows (persistent/)
  kClusterWgmma,  ///< likewise, many rows (forward: cluster_wgmma/, backward: cluster_backward/)
  kGrid,          ///< spread over a group of blocks, a few rows each (persistent_grid/)
  kWide,          ///< spread over the whole GPU, for many rows (wide/)
  kStreamed,      ///< spread over the whole GPU, of what doesn't fit there (streamed/)
};

struct Rung {
  std::string_view name;
  /// One product for all gates, rather than one a gate.
  bool combined_gates = false;
  InputProducts inputs = InputProducts::kEachStep;
  /// One kernel for all pointwise operations of a step, rather than one an operation.
  bool fused_pointwise = false;
  /// Weights are packed once more, transposed, so that every product reads its weights' depth
  /// contiguously where that is faster, in TF32: the canonical layout does for forward, its
  /// transpose for backward. In 16 bits only for steps that are one kernel.
  bool transposed = false;
  /// Layers, or the two directions, run beside each other on streams of their own, in pieces of
  /// time.
  bool wavefront = false;
  /// A step is one kernel, product and cell, where that is possible and faster (fused_step.h).
  bool fused_step = false;
  /// Runs are captured in CUDA graphs and replayed.
  bool graph = false;
  /// Products over all steps in TF32, of inputs and weight gradients, are products of scaled
  /// float16 (scaled_inputs.h, scaled_gradients.h), and so are those of a wide layer's steps
  /// (scaled_steps.h).
  bool scaled_products = false;
  /// Unless none: all steps of the pass that a piece of a layer has, in all directions, are one
  /// launch, and products of its input (with a wavefront) and gradients have streams of their own
  /// beside it. A pass backward has none where forward has none.
  Residence forward = Residence::kNone, backward = Residence::kNone;

  constexpr bool persistent() const { return forward != Residence::kNone; }
  constexpr bool persistent_backward() const { return backward != Residence::kNone; }
};

/// In order of the ladder.
inline constexpr Rung kBaseline{"baseline"};
inline constexpr Rung kCombinedGemm{"combined-gemm", true};
inline constexpr Rung kStreamedGemm{"streamed-gemm", true, InputProducts::kStreamed};
inline constexpr Rung kFusedPointwise{"fused-pointwise", true, InputProducts::kStreamed, true};
inline constexpr Rung kPretransposed{"pretransposed", true, InputProducts::kStreamed, true, true};
inline constexpr Rung kCombinedInputs{"combined-inputs", true, InputProducts::kCombined, true,
                                      true};
inline constexpr Rung kWavefront{"wavefront", true, InputProducts::kCombined, true, true, true};
inline constexpr Rung kFusedStep{"fused-step", true, InputProducts::kCombined, true, true,
                                 true,         true};
inline constexpr Rung kGraph{"graph", true, InputProducts::kCombined, true, true, true, true,
                             true,    true};

/// What persistent rungs have in common.
constexpr Rung persistent_rung(std::string_view name, Residence forward, Residence backward) {
  Rung rung{name, true, InputProducts::kCombined, true, true};
  // Launches that take the whole GPU have no other layer beside them, but for halves of a sequence
  // (takes_halves).
  rung.wavefront = forward == Residence::kCluster;
  // Steps of a backward that is no launch.
  rung.fused_step = backward == Residence::kNone;
  rung.graph = rung.scaled_products = true;
  rung.forward = forward;
  rung.backward = backward;
  return rung;
}
inline constexpr Rung kPersistentCluster =
    persistent_rung("persistent-cluster", Residence::kCluster, Residence::kCluster);
inline constexpr Rung kPersistentGrid =
    persistent_rung("persistent-grid", Residence::kGrid, Residence::kGrid);
inline constexpr Rung kPersistentClusterWgmma =
    persistent_rung("persistent-cluster-wgmma", Residence::kClusterWgmma, Residence::kClusterWgmma);
inline constexpr Rung kPersistentClusterWide =
    persistent_rung("persistent-cluster-wide", Residence::kClusterWgmma, Residence::kWide);
inline constexpr Rung kPersistentWideCluster =
    persistent_rung("persistent-wide-cluster", Residence::kWide, Residence::kClusterWgmma);
inline constexpr Rung kPersistentWide =
    persistent_rung("persistent-wide", Residence::kWide, Residence::kWide);
inline constexpr Rung kPersistentStreamed =
    persistent_rung("persistent-streamed", Residence::kStreamed, Residence::kStreamed);
inline constexpr Rung kPersistentStreamedForward =
    persistent_rung("persistent-streamed-forward", Residence::kStreamed, Residence::kNone);
inline constexpr Rung kPersistentForward =
    persistent_rung("persistent-forward", Residence::kWide, Residence::kNone);

}  // namespace sluice::kernels::recurrent::cuda
