#pragma once

#include "kernels/attention_decoder/cuda/run.h"

namespace sluice::kernels::attention_decoder::cuda {

/// All that the steps of one backward run read and write.
template <typename S>
struct BackwardRun : Run<S> {
  using W = Wide<S>;
  using Run<S>::d;
  using Run<S>::w;
  using Run<S>::weights;
  using Run<S>::stream;

  const BackwardArgs& args;
  const float* factor;  ///< of the weights' gradients, as Product::alpha
  Trace<S> trace;
  BackwardScratch<S> scratch;
  Attended<S> attended;

  /// Takes its scratch from the workspace's carver.
  BackwardRun(const Context& on, const Descriptor& descriptor, const Memory& memory,
              const BackwardArgs& given, const float* weights_factor, const Trace<S>& of_forward,
              Carver& workspace);

  /// Of the magnitude of gradients that are kept in storage: those that `factor` takes back were
  /// brought into the range of S, and stay there.
  float limit() const { return factor == nullptr ? INFINITY : kMostFloat16; }
  std::int64_t rows() const { return trace.rows(); }
  std::int64_t lines() const { return trace.extents.target_time * rows(); }
  W* d_joint(std::int64_t l) const { return scratch.d_joint + w.joints_below(l) * rows(); }
  S* d_gates(std::int64_t l, std::int64_t t) const {
    return scratch.d_gates + (l * trace.extents.target_time + t) * rows() * w.gates();
  }
  W* d_combined(std::int64_t t) const { return scratch.d_combined + t * rows() * w.combined(); }

  /// What flows in from behind the last step.
  void start() const;
  /// All steps, one after another.
  void steps() const;
  /// What flows out before the first step.
  void finish() const;

 private:
  /// t falls.
  void step(std::int64_t t) const;
  void step_attention(std::int64_t t) const;
  void step_layer(std::int64_t l, std::int64_t t) const;
};

/// All steps in one launch, with what it needs from the workspace's carver, then what the steps
/// leave behind for finish_inputs. Of 16-bit storage; a run of other types never asks for it.
template <typename S>
void run_steps(const BackwardRun<S>& run, Carver& workspace);

/// After the time loop: gradients of emb, memory and the weights.
template <typename S>
void finish_inputs(const BackwardRun<S>& run);
template <typename S>
void finish_weights(const BackwardRun<S>& run);

}  // namespace sluice::kernels::attention_decoder::cuda
