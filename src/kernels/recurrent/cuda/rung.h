#pragma once

#include <optional>
#include <string_view>

#include "kernels/recurrent/recurrent.h"

/// The ladder: variants of one time loop, each a setting of the switches in Rung. Up to `graph`,
/// each variant has one optimisation more than the one before, in the order of cuDNN 5's LSTM
/// (J. Appleyard et al., "Optimizing performance of recurrent neural networks on GPUs", 2016).
/// docs/performance/ladder.md shows them.
namespace sluice::kernels::recurrent::cuda {

/// How the products of a layer's input are queued.
enum class InputProducts {
  kEachStep,  ///< one per step, before the recurrent one
  kStreamed,  ///< one per step, on a second stream, overlapped with the recurrent ones
  kCombined,  ///< one for all steps, or for a piece of them
};

/// Where recurrent weights stay while all steps of a pass run.
enum class Residence {
  kNone,          ///< nowhere: each step reads them anew
  kCluster,       ///< in each cluster, which works on some rows (persistent/)
  kClusterWgmma,  ///< likewise, many rows (forward: cluster_wgmma/, backward: cluster_backward/)
  kGrid,          ///< spread over a group of blocks, a few rows each (persistent_grid/)
  kWide,          ///< spread over the whole GPU, for many rows (wide/)
  kStreamed,      ///< likewise as far as they fit; the rest is streamed in each step (streamed/)
};

struct Rung {
  std::string_view name;
  /// One product for all gates instead of one per gate.
  bool combined_gates = false;
  InputProducts inputs = InputProducts::kEachStep;
  /// One kernel for all pointwise operations of a step instead of one per operation.
  bool fused_pointwise = false;
  /// Weights are also packed transposed, so that backward reads them contiguously along the depth,
  /// as forward reads the canonical layout. That is faster in TF32. In 16 bits it is done only for
  /// steps that are one kernel.
  bool transposed = false;
  /// Layers, or the two directions, run at the same time on streams of their own, in pieces of
  /// time.
  bool wavefront = false;
  /// Product and cell of a step are one kernel where that is possible and faster (fused_step.h).
  bool fused_step = false;
  /// Runs are captured in CUDA graphs and replayed.
  bool graph = false;
  /// Products over all steps in TF32, of inputs and weight gradients, are products of scaled
  /// float16 (scaled_inputs.h, scaled_gradients.h), and so are those of a wide layer's steps
  /// (scaled_steps.h).
  bool scaled_products = false;
  /// If not kNone, one launch runs all steps that a piece of a layer has in this pass, in all
  /// directions. The products of inputs (with wavefront) and of gradients overlap with it on
  /// streams of their own. Backward is kNone wherever forward is.
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

/// The switches that all variants with one launch per pass share.
constexpr Rung persistent_rung(std::string_view name, Residence forward, Residence backward) {
  Rung rung{name, true, InputProducts::kCombined, true, true};
  // Other launches take the whole GPU, so layers don't overlap, except halves of a sequence
  // (takes_halves).
  rung.wavefront = forward == Residence::kCluster;
  // For the steps of a backward pass without a launch.
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
