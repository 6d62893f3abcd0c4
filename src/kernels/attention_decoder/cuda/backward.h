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

  BackwardRun(const Context& on, const Descriptor& descriptor, const Memory& memory,
              const BackwardArgs& given, const float* weights_factor, const Trace<S>& of_forward);

  /// Of the magnitude of gradients that are kept in storage: those that `factor` takes back were
  /// brought into the range of S, and stay there.
  float limit() const { return factor == nullptr ? INFINITY : kMostFloat16; }
  std::int64_t rows() const { return trace.rows(); }
  std::int64_t steps() const { return trace.extents.target_time * rows(); }
  W* d_joint(std::int64_t l) const { return scratch.d_joint + w.joints_below(l) * rows(); }
  S* d_gates(std::int64_t l, std::int64_t t) const {
    return scratch.d_gates + (l * trace.extents.target_time + t) * rows() * w.gates();
  }
  W* d_combined(std::int64_t t) const { return scratch.d_combined + t * rows() * w.combined(); }

  /// What flows in from behind the last step.
  void start() const;
  /// Step t, t falling.
  void step(std::int64_t t) const;
  /// What flows out before the first step.
  void finish() const;

 private:
  void step_attention(std::int64_t t) const;
  void step_layer(std::int64_t l, std::int64_t t) const;
};

/// After the time loop: gradients of emb, memory and the weights.
template <typename S>
void finish_inputs(const BackwardRun<S>& run);
template <typename S>
void finish_weights(const BackwardRun<S>& run);

}  // namespace sluice::kernels::attention_decoder::cuda
