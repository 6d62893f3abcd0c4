#pragma once

#include <memory>

#include "layers/recurrent_stack.h"
#include "models/part_plan.h"
#include "models/sequence_output.h"

namespace sluice::models {

/// What feeds the recurrent stack of a model: a plan for one capacity.
class StackInput {
 public:
  virtual ~StackInput() = default;

  /// To be called whenever the parameters have changed.
  virtual void pack(const Context&, const runtime::Arena&) {}
  /// x [source_time, rows, width] in storage; lives until backward.
  virtual Tensor forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                         const Pass& pass) = 0;
  /// Where the gradient of what the last forward gave is to be left for `backward`; absent if
  /// nothing learns from it.
  virtual Tensor gradient(const runtime::Arena&) const { return {}; }
  /// Adds to gradients of parameters.
  virtual void backward(const Context&, const runtime::Arena&, const Batch&, const Pass&) {}
};

/// The plan of a model that is a recurrent stack between an input and an output, trained or
/// evaluated at one capacity:
///
///   outputs = output(stack(input))
///
/// Of a batch the input reads source; the output target_out and target_lengths, whose time is the
/// source's, or 1 if the output pools. Evaluation without target_out leaves the sums zero. A plan
/// made for an extent with resets runs batches with and without.
class StackTraining final : public TrainingPlan, public PartPlan {
 public:
  /// Streams of the dropout keys; layer l of the stack adds l.
  static constexpr std::uint32_t kInputDropout = 0;
  static constexpr std::uint32_t kOutputDropout = 2;
  static constexpr std::uint32_t kStackDropout = 100;

  /// `input` is a plan of the same capacity; whoever made it holds the ScratchScope of its booking
  /// until this is made.
  StackTraining(const Context& context, const layers::Parameters& parameters,
                const layers::RecurrentStack& stack, const SequenceOutput& output,
                std::unique_ptr<StackInput> input, runtime::ArenaPlanner& planner,
                const Extent& capacity, bool training);

  Tensor evaluate(const Context& context, const runtime::Arena& arena, const Batch& batch,
                  const Pass& pass) override;
  Tensor forward_backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                          const Pass& pass) override;
  Tensor sums(const runtime::Arena& arena) const override { return output_.sums(arena); }
  /// After `evaluate` or `run_part`, until the next call: what the model says of each step, or of
  /// each sequence (then time is 1): values, or log-probabilities of classes. [time, rows, outputs]
  /// in the parameters' dtype; past a row's end it means nothing.
  Tensor answers(const runtime::Arena& arena) const { return output_.outputs(arena); }

  /// Of a model that gives an answer to each step: to those of the part; of one that pools by the
  /// last step, to all so far.
  Tensor run_part(const Context& context, const runtime::Arena& arena, const Batch& part,
                  const StackStates& from, const StackStates& to) override;
  void pack(const Context& context, const runtime::Arena& arena) override;

  std::string implementations() const override;
  std::string explain() const override;

 private:
  void check(const Batch& batch) const;
  void forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
               const Pass& pass, const StackStates& from, const StackStates& to);
  void backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                const Pass& pass);

  const layers::Parameters* parameters_;
  const layers::RecurrentStack* stack_;
  const SequenceOutput* head_;
  DType storage_;
  Extent capacity_;
  bool training_;
  std::unique_ptr<StackInput> input_;
  runtime::Slot y_;
  SequenceOutputPlan output_;
  layers::RecurrentStackPlan plan_;
  kernels::recurrent::ForwardArgs last_;  // of the last forward, for backward
};

}  // namespace sluice::models
