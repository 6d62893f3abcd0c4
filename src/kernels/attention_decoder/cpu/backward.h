#pragma once

#include "kernels/attention_decoder/cpu/forward.h"

namespace sluice::kernels::attention_decoder::cpu {

/// All that the steps of one backward run read and write.
template <typename T>
struct BackwardRun {
  const Descriptor& d;
  Leaves<T> leaf;
  const PackedWeights<T>& weights;
  const BackwardArgs& args;
  Trace<T> trace;
  BackwardScratch<T> scratch;

  std::int64_t rows() const { return trace.extents.rows; }
  std::int64_t steps() const { return trace.extents.target_time * rows(); }
  std::int64_t gate_width() const { return d.gates() * padded(d.hidden); }
  std::int64_t key_stride() const { return padded(d.key_width()); }
  bool is_active(std::int64_t row, std::int64_t t) const {
    const auto* lengths = args.forward.target_lengths.template data_as<const std::int32_t>();
    return lengths == nullptr || t < lengths[row];
  }
  /// Source length of a row.
  std::int64_t length(std::int64_t row) const {
    const auto* lengths = args.forward.source_lengths.template data_as<const std::int32_t>();
    return lengths == nullptr ? trace.extents.source_time : lengths[row];
  }
  T* dh(std::int64_t l, std::int64_t t) const {
    return scratch.dh[t % 2] + l * rows() * padded(d.hidden);
  }
  T* d_gates(std::int64_t l, std::int64_t t) const {
    return scratch.d_gates + (l * trace.extents.target_time + t) * rows() * gate_width();
  }
  T* d_gates_hidden(std::int64_t l, std::int64_t t) const {
    return scratch.d_gates_hidden + (l * trace.extents.target_time + t) * rows() * gate_width();
  }

  /// What flows in from behind the last step; zero where sums begin.
  void start(const Share& share) const;
  /// Step t of this thread's share, t falling.
  void step(const Share& share, std::int64_t t) const;
  /// What flows out before the first step.
  void finish(const Share& share) const;

 private:
  void load_panel_rows(const Share& share, const T* source, T* target) const;
  void store_panel_rows(const Share& share, const T* source, T* target) const;
  void output_gradient(const Share& share, std::int64_t t) const;
  void attention_gradient(const Share& share, std::int64_t t) const;
  void query_gradient(const Share& share, std::int64_t t) const;
  recurrent::cpu::StepBackwardArgs<T> step_args(const Share& share, std::int64_t l,
                                                std::int64_t t) const;
  void cell_gradient(const Share& share, std::int64_t l, std::int64_t t) const;
  void carry_hidden(const Share& share, std::int64_t l, std::int64_t t) const;
  void carry_gate_by_gate(const Share& share, std::int64_t l, std::int64_t t) const;
  void pass_below(const Share& share, std::int64_t l, std::int64_t t) const;
};

/// After the time loop, outside a parallel region: gradients of emb, memory and the weights.
template <typename T>
void finish_inputs(const BackwardRun<T>& run);
template <typename T>
void finish_weights(const BackwardRun<T>& run);

template <typename T>
void run_backward(const Decoder<T>& decoder, const BackwardArgs& args, const Memory& memory);

}  // namespace sluice::kernels::attention_decoder::cpu
