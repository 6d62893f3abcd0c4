#pragma once

#include <memory>

#include "kernels/attention_decoder/cpu/attention_leaf.h"
#include "kernels/attention_decoder/cpu/buffers.h"
#include "kernels/attention_decoder/cpu/share.h"

namespace sluice::kernels::attention_decoder::cpu {

/// The functions a plan runs on.
template <typename T>
struct Leaves {
  const Leaf<T>* cells = nullptr;
  const AttentionLeaf<T>* attention = nullptr;
};

/// What all runs of a plan have in common; shared with queued work, so that a plan may go before
/// its work is done.
template <typename T>
struct Decoder {
  Descriptor d;
  Leaves<T> leaf;
  int threads = 1;                          ///< at most so many
  std::unique_ptr<SpinBarrier[]> barriers;  ///< `threads`

  /// For a parallel region over the steps of a run with these extents.
  int threads_for_steps(const Extents& extents) const;
  Share share(const Extents& extents) const { return {extents.rows, d.hidden, barriers.get()}; }
};

/// All that the steps of one forward run, or a single step, read and write.
template <typename T>
struct ForwardRun {
  const Descriptor& d;
  Leaves<T> leaf;
  const PackedWeights<T>& weights;
  Trace<T> trace;
  ForwardScratch<T> scratch;

  const T* keys = nullptr;    ///< [inputs, S, key_stride]
  const T* values = nullptr;  ///< [inputs, S, value_stride]
  const std::int32_t* source_lengths = nullptr;
  const std::int32_t* target_lengths = nullptr;
  const std::int32_t* input_of_row = nullptr;
  const T* a0 = nullptr;
  T* a = nullptr;          ///< [T, B, A]
  T* alpha_out = nullptr;  ///< [T, B, S]
  const std::int32_t* row_ids = nullptr;
  runtime::DropoutSource dropout{};

  std::int64_t rows() const { return trace.extents.rows; }
  bool is_active(std::int64_t row, std::int64_t t) const {
    return target_lengths == nullptr || t < target_lengths[row];
  }

  /// Step t of this thread's share. scratch.pre has the product of emb and the biases.
  void step(const Share& share, std::int64_t t) const;

  /// Initial states in, final states out; null for absent ones. c is [L, B, H] here.
  void load_state(const Share& share, const T* h, const T* c) const;
  void store_state(const Share& share, T* h, T* c) const;

 private:
  void run_cell(const Share& share, std::int64_t layer, std::int64_t t, const T* pre) const;
  /// With resets before the product: the recurrent products of r and z, r * h and the product of n.
  /// `args` are those of the cell's step.
  void multiply_gate_by_gate(const Share& share, std::int64_t layer, std::int64_t t,
                             const recurrent::cpu::StepArgs<T>& args) const;
  void drop(const Share& share, std::int64_t layer, std::int64_t t) const;
  void make_query(const Share& share, std::int64_t t) const;
  void attend(const Share& share, std::int64_t t) const;
  void make_output(const Share& share, std::int64_t t) const;
};

/// values[b, s, :] = memory[s, b, :], zero past the row's length and in the padding; then
/// keys = values * key weights. By all threads, outside a parallel region.
template <typename T>
void prepare_memory(const Descriptor& d, const Leaf<T>& leaf, const PackedWeights<T>& weights,
                    const Extents& extents, const T* memory, const std::int32_t* source_lengths,
                    T* values, T* keys);

template <typename T>
void run_forward(const Decoder<T>& decoder, const ForwardArgs& args, const Memory& memory);
template <typename T>
void run_step(const Decoder<T>& decoder, const StepArgs& args, const Memory& memory);

}  // namespace sluice::kernels::attention_decoder::cpu
