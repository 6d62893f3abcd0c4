#pragma once

#include "models/seq2seq.h"
#include "runtime/arena.h"

namespace sluice::models {

/// Streams of the dropout keys of a Seq2Seq; layer l of a stack adds l.
struct Seq2SeqDropout {
  static constexpr std::uint32_t kSourceEmbedding = 0;
  static constexpr std::uint32_t kTargetEmbedding = 1;
  static constexpr std::uint32_t kOutput = 2;
  static constexpr std::uint32_t kSampling = 3;  ///< coins of scheduled sampling
  static constexpr std::uint32_t kEncoder = 100;
  static constexpr std::uint32_t kDecoder = 200;
};

/// What the decoder reads of an encoded batch.
struct EncodedSource {
  Tensor memory;  ///< [source_time, rows, hidden]; its gradient is absent without attention
  Tensor h0;      ///< [decoder_layers, rows, hidden]
  Tensor c0;      ///< the same; absent for a GRU
};

/// The encoder's side of a Seq2Seq plan, shared by training and decoding: embedding, dropout,
/// recurrent stack, and the start states of the decoder.
class Seq2SeqEncoder {
 public:
  Seq2SeqEncoder(const Context& context, const Seq2Seq& model, runtime::ArenaPlanner& planner,
                 std::int64_t rows, std::int64_t source_time, bool training);

  std::string_view implementation() const { return stack_.implementation(); }
  const std::vector<kernels::recurrent::Declined>& declined() const { return stack_.declined(); }
  void pack(const Context& context, const runtime::Arena& arena);

  /// source int32 [source_time, rows], lengths int32 [rows], row_ids as in models::Batch (only used
  /// by dropout); of the pass its dropout and probe.
  EncodedSource forward(const Context& context, const runtime::Arena& arena, const Tensor& source,
                        const Tensor& lengths, const Tensor& row_ids, const Pass& pass);

  /// Views of scratch, valid until the next operation of the plan, for the gradients of what
  /// `forward` returned; fill them in, then call backward.
  EncodedSource gradient_views(const runtime::Arena& arena) const;
  /// With the arguments of the last forward; adds to the gradients of the encoder's parameters.
  /// `work` queues work that may run at the same time, before the source embedding's
  /// gradient.
  void backward(const Context& context, const runtime::Arena& arena,
                const kernels::recurrent::OverlapWork& work);

 private:
  struct Slots {
    runtime::Slot embedded, memory, hn, cn, h0, c0;
    runtime::Slot d_embedded, d_memory, d_hn, d_cn, d_h0, d_c0;
  };

  Slots book(runtime::ArenaPlanner& planner, std::int64_t rows, std::int64_t source_time) const;
  Tensor tensor(const runtime::Arena& arena, const runtime::Slot& slot, const Shape& shape) const {
    return arena.tensor(slot, storage_, shape);
  }
  Tensor cell_tensor(const runtime::Arena& arena, const runtime::Slot& slot,
                     const Shape& shape) const {
    return arena.tensor(slot, base::policy_of(storage_).cell_state, shape);
  }
  bool has_cell_state() const;

  const Seq2Seq* model_;
  bool training_;
  DType storage_;
  Slots slots_;
  layers::RecurrentStackPlan stack_;
  // Of the last forward, for backward.
  kernels::recurrent::ForwardArgs last_;
  layers::Embedding::Dropout embedding_dropout_;
  Tensor source_;
};

}  // namespace sluice::models
