#pragma once

#include <variant>

#include "models/probe.h"
#include "models/seq2seq.h"
#include "runtime/arena.h"

namespace sluice::models {

/// The decoder's side of a Seq2Seq plan, shared by training and decoding: one operation over a
/// whole target, forward and backward, and its single step. Arguments are those of an attention
/// decoder. A decoder without attention writes the output of its top layer to `a` and feeds on
/// nothing but embeddings, so it reads no memory and keeps no `a` between steps.
class Seq2SeqDecoder {
 public:
  using ForwardArgs = kernels::attention_decoder::ForwardArgs;
  using BackwardArgs = kernels::attention_decoder::BackwardArgs;
  using PrepareArgs = kernels::attention_decoder::PrepareArgs;
  using StepArgs = kernels::attention_decoder::StepArgs;

  Seq2SeqDecoder(const Context& context, const Seq2Seq& model, runtime::ArenaPlanner& planner,
                 std::int64_t target_time, std::int64_t source_time, std::int64_t rows,
                 bool training);

  bool attends() const { return std::holds_alternative<layers::AttentionDecoderPlan>(plan_); }
  std::string_view implementation() const;
  const std::vector<kernels::recurrent::Declined>& declined() const;
  void pack(const Context& context, const runtime::Arena& arena);

  void forward(const Context& context, const runtime::Arena& arena, const ForwardArgs& args,
               Probe* probe);
  /// Fills in the gradients of the decoder's parameters and adds to them. Without attention there
  /// is no d_memory.
  void backward(const Context& context, const runtime::Arena& arena, const BackwardArgs& args);

  /// Numbers of a key and of a value that `prepare_memory` writes; 0 without attention.
  std::int64_t key_stride() const;
  std::int64_t value_stride() const;
  /// With attention only.
  void prepare_memory(const Context& context, const runtime::Arena& arena, const PrepareArgs& args);
  /// Without attention the next states must be other tensors than the states.
  void step(const Context& context, const runtime::Arena& arena, const StepArgs& args);

 private:
  const Seq2Seq* model_;
  std::variant<layers::AttentionDecoderPlan, layers::RecurrentStackPlan> plan_;
};

}  // namespace sluice::models
